//! Checks that a server answers correctly: a wrong answer is worth nothing, however fast.

use super::zones::Zone;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wire::name::Name;

/// Names queried before a server's turn.
const SAMPLES: u32 = 200;
/// Attempts for each query.
const TRIES: usize = 5;
/// Pause between two check queries while the server is loaded.
const PAUSE: Duration = Duration::from_millis(20);

/// Queries names all over the zone.
///
/// # Errors
/// At the first answer that is missing or wrong.
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

/// Runs `work`, and queries names all over the zone until it ends. Returns the number of correct answers.
///
/// # Errors
/// At the first wrong answer. Lost answers are no error, because the server is overloaded.
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
        Ok((done, asking.join().expect("the querying thread does not panic")?))
    })
}

fn socket(server: SocketAddr) -> Result<UdpSocket, String> {
    let socket = UdpSocket::bind((server.ip(), 0)).map_err(|error| error.to_string())?;
    socket.set_read_timeout(Some(Duration::from_millis(500))).map_err(|error| error.to_string())?;
    Ok(socket)
}

/// Returns the one address in the answer.
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
                // NOERROR with one record in the answer section. Its four bytes follow owner, type, class, TTL and
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
