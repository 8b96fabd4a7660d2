//! A server whose every fault is known, to see what a measuring tool makes of it: `docs/experiments/measuring.md`.
//!
//! It sends each query back as its own answer, on loopback, until it has had none for ten seconds.

use std::io;
use std::net::UdpSocket;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str = "usage: faulty_server stops|drops|rests|none PORT
  stops  200 ms of rest at the start of each second
  drops  1 % of the queries in the fifth second, and in the fifth of each ten
  rests  1 s of rest at the start of the fifth second, and of the fifth of each ten
  none   answers all";

/// How long it waits for queries before it ends.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    Stops,
    Drops,
    Rests,
    None,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let fault = match words.first().map(String::as_str) {
        Some("stops") => Fault::Stops,
        Some("drops") => Fault::Drops,
        Some("rests") => Fault::Rests,
        Some("none") => Fault::None,
        _ => return usage(),
    };
    let Some(Ok(port)) = words.get(1).map(|port| port.parse::<u16>()) else { return usage() };
    match serve(fault, port) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("faulty_server: 127.0.0.1:{port}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

fn serve(fault: Fault, port: u16) -> io::Result<()> {
    let socket = UdpSocket::bind(("127.0.0.1", port))?;
    let buffered = socket2::SockRef::from(&socket);
    buffered.set_recv_buffer_size(4 << 20)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut message = [0u8; 4096];
    // The clock starts with the first query: its second is the first.
    let mut start = None;
    let mut rested_in = None;
    let mut count = 0u64;
    loop {
        let (length, client) = match socket.recv_from(&mut message) {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => return Ok(()),
            other => other?,
        };
        let start = *start.get_or_insert_with(Instant::now);
        let time = start.elapsed();
        let second = time.as_secs();
        count += 1;
        match fault {
            Fault::Stops if rested_in != Some(second) => {
                rested_in = Some(second);
                std::thread::sleep(
                    Duration::from_millis(200).saturating_sub(Duration::from_nanos(time.subsec_nanos().into())),
                );
            }
            Fault::Rests if second % 10 == 4 && rested_in != Some(second) => {
                rested_in = Some(second);
                std::thread::sleep(Duration::from_secs(1));
            }
            Fault::Drops if second % 10 == 4 && count.is_multiple_of(100) => continue,
            _ => {}
        }
        message[2] |= 0x80;
        socket.send_to(&message[..length], client)?;
    }
}
