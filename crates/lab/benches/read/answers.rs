//! Whether a server answers right: nobody is fast who is wrong.

use super::zones::Zone;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wire::name::Name;

/// Names that are asked before a server's turn.
const SAMPLES: u32 = 200;
/// How often an answer that is lost is asked for again.
const TRIES: usize = 5;
/// Between two names that are asked for while the server is loaded.
const PAUSE: Duration = Duration::from_millis(20);

/// Asks for names all over the zone.
///
/// # Errors
/// The first answer that is missing or wrong.
pub(crate) fn check(server: &str, address: SocketAddr, zone: &Zone) -> Result<(), String> {
    let socket = socket(address)?;
    for (id, (name, expected)) in (1u16..).zip(zone.samples(SAMPLES)) {
        let got = ask(&socket, address, id, &name).ok_or_else(|| format!("{server} gives no answer for {name}"))?;
        if got != Some(expected) {
            return Err(format!("{server} says {got:?} for {name}, which has {expected}"));
        }
    }
    Ok(())
}

/// Does `work`, and asks for names all over the zone as long as it lasts; gives how many answers were right.
///
/// # Errors
/// The first answer that is wrong. One that is lost may be, since the server has more to do than it can.
pub(crate) fn check_meanwhile<T>(
    server: &str,
    address: SocketAddr,
    zone: &Zone,
    work: impl FnOnce() -> T,
) -> Result<(T, u32), String> {
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let socket = socket(address)?;
            let mut right = 0;
            let samples: Vec<_> = zone.samples(SAMPLES).collect();
            for (id, (name, expected)) in (1u16..).zip(samples.iter().cycle()) {
                std::thread::sleep(PAUSE);
                if has_ended.load(Ordering::Relaxed) {
                    break;
                }
                match ask(&socket, address, id, name) {
                    Some(got) if got != Some(*expected) => {
                        return Err(format!("{server}, loaded, says {got:?} for {name}, which has {expected}"));
                    }
                    got => right += u32::from(got.is_some()),
                }
            }
            Ok::<u32, String>(right)
        });
        let done = work();
        has_ended.store(true, Ordering::Relaxed);
        Ok((done, asking.join().expect("what asks does not panic")?))
    })
}

fn socket(server: SocketAddr) -> Result<UdpSocket, String> {
    let socket = UdpSocket::bind((server.ip(), 0)).map_err(|error| error.to_string())?;
    socket.set_read_timeout(Some(Duration::from_millis(500))).map_err(|error| error.to_string())?;
    Ok(socket)
}

/// The one address in the answer.
fn ask(socket: &UdpSocket, server: SocketAddr, id: u16, name: &str) -> Option<Option<Ipv4Addr>> {
    let name: Name = name.parse().ok()?;
    let mut query = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query[..2].copy_from_slice(&id.to_be_bytes());
    query.extend_from_slice(name.as_bytes());
    query.extend_from_slice(&[0, 1, 0, 1]);
    for _ in 0..TRIES {
        socket.send_to(&query, server).ok()?;
        let mut response = [0; 512];
        while let Ok((length, _)) = socket.recv_from(&mut response) {
            if length >= query.len() && response[..2] == query[..2] {
                // One record in the answer section, NOERROR, and its four bytes right behind owner, type, class, TTL,
                // length.
                let has_one = response[3] & 0x0F == 0 && response[6..8] == [0, 1];
                let owner = if response[query.len()] & 0xC0 == 0xC0 { 2 } else { name.as_bytes().len() };
                let data = response.get(query.len() + owner + 10..query.len() + owner + 14)?;
                return Some(has_one.then(|| Ipv4Addr::new(data[0], data[1], data[2], data[3])));
            }
        }
    }
    None
}
