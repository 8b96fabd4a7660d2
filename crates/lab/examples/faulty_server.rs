//! A server with known faults, to test measuring tools (docs/history/measuring.md).
//!
//! Returns each query as its own answer, over UDP on loopback. Exits after ten seconds without a query. Its clock
//! starts with the first query.
#[expect(dead_code, reason = "it is shared with tests that use more of it")]
#[path = "../tests/it/support/faults.rs"]
mod faults;

use measure::Transport;
use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use testbed::echo::{Echo, EchoPlan, Fault, Faults};

const USAGE: &str = "usage: faulty_server stops|drops|rests|none PORT
  stops  200 ms of rest in each second
  drops  1 % of the queries in the fifth second, and in the fifth of each ten
  rests  1 s of rest at the start of the fifth second, and of the fifth of each ten
  none   answers all";

/// Exits after this time without queries.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// The faulty second in every ten, counted from 0.
const SECOND: u64 = 4;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let faults: Faults = match words.first().map(String::as_str) {
        Some("stops") => faults::stops_each_second(),
        Some("drops") => faults::drops_in_one_second_of_ten(SECOND),
        Some("rests") => faults::rests_in_one_second_of_ten(SECOND),
        Some("none") => std::sync::Arc::new(|_| Fault::None),
        _ => return usage(),
    };
    let Some(Ok(port)) = words.get(1).map(|port| port.parse::<u16>()) else { return usage() };
    match serve(faults, port) {
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

fn serve(faults: Faults, port: u16) -> io::Result<()> {
    let echo = Echo::start(&EchoPlan { faults, ports: [(Transport::Udp, port)].into(), ..EchoPlan::new(&[])? })?;
    let (mut count, mut since) = (0, Instant::now());
    while since.elapsed() < IDLE_MAX {
        std::thread::sleep(Duration::from_millis(100));
        let received = echo.counts().queries_of(Transport::Udp);
        if received != count {
            (count, since) = (received, Instant::now());
        }
    }
    Ok(())
}
