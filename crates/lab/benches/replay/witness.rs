//! The far end of connections: a server that notes when it read each query. Of what is encrypted the kernel's stamps
//! tell when bytes came and not which query they are, so this is the time at which a server has the message in its
//! hands: after TLS or QUIC, and after its turn on the core.

use super::roles::{Arrival, number, write_arrivals};
use lab::echo::{Echo, EchoPlan, Fault, Faults, ReceivedQuery};
use lab::engine::{Transport, raise_open_files};
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

const TRANSPORTS: [Transport; 4] = [Transport::Tcp, Transport::Dot, Transport::Doh, Transport::Doq];

/// Prints its ports as `--ports` wants them, and writes what it noted when its input ends.
pub(crate) fn witness(notes: &Path) {
    // Each client has a connection of its own.
    let _open_files_max = raise_open_files();
    let arrivals = Arc::new(Mutex::new(Vec::with_capacity(1 << 20)));
    let noted = Arc::clone(&arrivals);
    let faults: Faults = Arc::new(move |asked: &ReceivedQuery<'_>| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
        if let Some(number) = number(asked.message) {
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
