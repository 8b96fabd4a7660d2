//! Queries that have their number in their name, and runs of them.

use lab::echo::{Echo, EchoPlan, Fault};
use lab::engine::{Outcome, Pace, Plan, Progress, Transport, run};
use lab::measure::Second;
use lab::schedule::{Arrivals, Schedule};
use lab::workload::{Extras, Generator, NameDistribution, Popularity, Workload};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wire::number::Rtype;

/// `q0.example.`, `q1.example.` and so on.
pub(crate) fn workload() -> Workload {
    let names = NameDistribution {
        pattern: "q{n}.example".into(),
        count: 1_000_000,
        popularity: Popularity::Sequential,
        nxdomain_share: 0.0,
    };
    Workload::generated(Generator::new(names, &[(Rtype::A, 1.0)], Extras::default(), 1).unwrap())
}

/// Queries at even distances.
pub(crate) fn open(rate: f64, seconds: u64) -> Pace {
    Pace::Open(Schedule::constant(rate, Duration::from_secs(seconds), Arrivals::Even).unwrap())
}

/// The digits of `q123.example.`.
pub(crate) fn number(message: &[u8]) -> u64 {
    let label = &message[14..13 + usize::from(message[12])];
    std::str::from_utf8(label).unwrap().parse().unwrap()
}

/// An echo over UDP whose fault depends on the number of the query.
pub(crate) fn echo(fault: impl Fn(u64) -> Fault + Send + Sync + 'static) -> Echo {
    let faults = Arc::new(move |asked: &lab::echo::ReceivedQuery<'_>| fault(number(asked.message)));
    Echo::start(&EchoPlan { faults, ..EchoPlan::new(&[Transport::Udp]).unwrap() }).unwrap()
}

/// One engine at a time: each spins on a core.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Carries a plan out, and gives each of its seconds too.
pub(crate) fn measure(plan: &Plan) -> (Outcome, Vec<Second>) {
    let _turn = turn();
    let mut seconds = Vec::new();
    let outcome = run(plan, |progress| {
        if let Progress::Second { index, second, .. } = progress {
            assert_eq!(index, seconds.len() as u64);
            seconds.push(second.clone());
        }
        0
    });
    (outcome.unwrap(), seconds)
}
