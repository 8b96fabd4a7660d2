//! The far end of connections: a server that records when it read each query. Kernel timestamps do not help here: they
//! do not show which query an encrypted packet holds. So the recorded time includes TLS or QUIC, and the wait for the
//! core.

use super::roles::{Arrival, number, write_arrivals};
use measure::Transport;
use sockets::system::raise_open_files;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use testbed::echo::{Echo, EchoPlan, Fault, Faults, ReceivedQuery};

const TRANSPORTS: [Transport; 4] = [Transport::Tcp, Transport::Dot, Transport::Doh, Transport::Doq];

/// Prints its ports in the format of `--ports`. Writes its records when standard input closes.
pub(crate) fn witness(notes: &Path) {
    // Each client has its own connection.
    let _open_files_max = raise_open_files();
    let arrivals = Arc::new(Mutex::new(Vec::with_capacity(1 << 20)));
    let noted = Arc::clone(&arrivals);
    let faults: Faults = Arc::new(move |query: &ReceivedQuery<'_>| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
        if let Some(number) = number(query.message) {
            let arrival = Arrival { number, at_ns: now.as_nanos() as u64 };
            noted.lock().unwrap_or_else(PoisonError::into_inner).push(arrival);
        }
        Fault::None
    });
    let plan = EchoPlan { faults, ..EchoPlan::new(&TRANSPORTS).expect("a certificate") };
    let echo = Echo::start(&plan).expect("sockets on loopback");
    println!("{}", TRANSPORTS.map(|transport| format!("{transport}={}", echo.address(transport).port())).join(","));
    let _bytes = std::io::stdin().read_to_end(&mut Vec::new());
    drop(echo);
    write_arrivals(notes, &arrivals.lock().unwrap_or_else(PoisonError::into_inner));
}
