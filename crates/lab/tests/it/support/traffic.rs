//! Queries with their number in the name, and runs with them.

use super::engines::{engine_alone, engine_permit, watch_seconds};
use load::engine::{Outcome, Pace, Plan, Progress, run};
use load::schedule::{Arrivals, Schedule};
use load::workload::{Extras, Generator, NameDistribution, Popularity, Workload};
use measure::{Second, Transport};
use std::sync::Arc;
use std::time::Duration;
use testbed::echo::{Echo, EchoPlan, Fault};
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

/// Queries at even intervals.
pub(crate) fn open(rate: f64, seconds: u64) -> Pace {
    Pace::Open(Schedule::constant(rate, Duration::from_secs(seconds), Arrivals::Even).unwrap())
}

/// The digits of `q123.example.`.
pub(crate) fn number(message: &[u8]) -> u64 {
    let label = &message[14..13 + usize::from(message[12])];
    std::str::from_utf8(label).unwrap().parse().unwrap()
}

/// A UDP echo whose fault depends on the query's number.
pub(crate) fn echo(fault: impl Fn(u64) -> Fault + Send + Sync + 'static) -> Echo {
    let faults = Arc::new(move |query: &testbed::echo::ReceivedQuery<'_>| fault(number(query.message)));
    Echo::start(&EchoPlan { faults, ..EchoPlan::new(&[Transport::Udp]).unwrap() }).unwrap()
}

/// Runs a plan, possibly while other tests run theirs. Returns its outcome and its seconds.
pub(crate) fn measure(plan: &Plan) -> (Outcome, Vec<Second>) {
    let _permit = engine_permit();
    measure_now(plan)
}

/// Runs a plan while no other test runs one. For tests that check times or rates.
pub(crate) fn measure_alone(plan: &Plan) -> (Outcome, Vec<Second>) {
    let _alone = engine_alone();
    measure_now(plan)
}

/// The same as [`measure_alone`], and whether a stall moved queries from one second to another.
pub(crate) fn measure_seconds(plan: &Plan) -> (Outcome, Vec<Second>, bool) {
    let _alone = engine_alone();
    let watch = watch_seconds();
    let (outcome, seconds) = measure_now(plan);
    let has_stalled = watch.stall("the counts per second").is_some();
    (outcome, seconds, has_stalled)
}

/// Runs a plan. The caller holds a permit.
pub(crate) fn measure_now(plan: &Plan) -> (Outcome, Vec<Second>) {
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
