//! The first query of a run is sent as punctually as the others.

use crate::support::engines::engine_alone;
use load::engine::{Pace, Plan, run};
use load::schedule::{Arrivals, Schedule};
use load::workload::{Extras, Generator, NameDistribution, Popularity, Workload};
use measure::Transport;
use std::net::SocketAddr;
use std::time::Duration;
use testbed::echo::{Echo, EchoPlan};
use wire::number::Rtype;

/// Number of runs of each kind: other programs disturb some of them.
const RUNS: usize = 24;

/// The median send lag of a run of `count` queries, in microseconds.
fn lag(transport: Transport, server: SocketAddr, count: u64) -> f64 {
    let names = NameDistribution {
        pattern: "q{n}.example".into(),
        count: 1_000,
        popularity: Popularity::Sequential,
        nxdomain_share: 0.0,
    };
    let workload = Workload::generated(Generator::new(names, &[(Rtype::A, 1.0)], Extras::default(), 1).unwrap());
    let schedule = Schedule::constant(500.0, Duration::from_millis(2 * count), Arrivals::Even).unwrap();
    let plan = Plan { transport, connection_count: 4, ..Plan::new(vec![server], workload, Pace::Open(schedule)) };
    let outcome = run(&plan, |_| 0).unwrap();
    assert_eq!((outcome.total.sent, outcome.total.answered), (count, count));
    outcome.total.send_lag.value_at_quantile(0.5) as f64 / 1e3
}

/// The best run: other programs disturbed the worse ones.
fn least(values: Vec<f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

#[test]
fn the_first_query_is_no_later_than_others() {
    for transport in [Transport::Udp, Transport::Tcp] {
        let echo = Echo::start(&EchoPlan::new(&[transport]).unwrap()).unwrap();
        let server = echo.address(transport);
        let _alone = engine_alone();
        let (mut first, mut others) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            first.push(lag(transport, server, 1));
            others.push(lag(transport, server, 25));
        }
        let (first, others) = (least(first), least(others));
        assert!(first <= others + 5.0, "{transport}: {first} us late, others {others}");
    }
}
