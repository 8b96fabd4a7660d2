//! Clients that only do handshakes, each complete.

use super::query;
use crate::support::cluster::{Cluster, wait_for};
use crate::support::encrypted::{Doq, ask, tls, tls_from, trust};
use std::net::Ipv4Addr;
use std::sync::Arc;
use wire::number::Rtype;

#[test]
fn handshakes_are_limited_per_client() {
    const BURST: usize = 20;
    const TRIES: usize = 60;
    let mut cluster = Cluster::start_encrypted("handshake-rate", 1);
    cluster.end("TERM");
    cluster.configure(1, "handshakes_per_second = 100", "handshakes_per_second = 1");
    cluster.configure(1, "handshakes_burst = 500", &format!("handshakes_burst = {BURST}"));
    cluster.configure(1, "exempt = [\"127.0.0.0/8\", \"::1/128\"]", "exempt = []");
    cluster.resume_encrypted();
    let message = query("www.example.test.", Rtype::A).build();
    let over = |transport: &str| {
        cluster
            .metric(1, &format!("catamaran_handshakes_failed_total{{transport=\"{transport}\",reason=\"over_rate\"}}"))
    };
    let config = Arc::new(trust(&cluster, &["dot"]));
    let start = std::time::Instant::now();
    let open: Vec<_> = (0..TRIES).filter_map(|_| tls(cluster.dot(1), &config).ok()).collect();
    let earned = start.elapsed().as_secs() as usize + 1;
    assert!((BURST..=BURST + earned).contains(&open.len()), "{} of {TRIES} in {earned} s", open.len());
    assert_eq!(over("dot") as usize, TRIES - open.len());
    // All transports share one token bucket. Open connections continue, and another client has its own bucket. On a
    // slow machine, the bucket has some tokens again.
    let h2 = Arc::new(trust(&cluster, &["h2"]));
    assert!((0..10).any(|_| tls(cluster.doh(1), &h2).is_err()), "each handshake over HTTPS was accepted");
    wait_for("the counter", || (over("doh") > 0).then_some(()));
    for mut stream in open {
        assert!(ask(&mut stream, &message).is_ok());
    }
    assert!(ask(&mut tls_from(Ipv4Addr::new(127, 0, 0, 9), cluster.dot(1), &config).unwrap(), &message).is_ok());

    // Over QUIC the client must first validate its address. Then it uses the rest of the same bucket.
    let quic = trust(&cluster, &["doq"]);
    let begin = || Doq::connect(cluster.dot(1), quic.clone()).ok().map(|doq| doq.ask(&message).unwrap());
    let begun = (0..TRIES).filter_map(|_| begin()).count();
    assert!((BURST..TRIES).contains(&begun), "{begun} of {TRIES}");
    assert!(over("doq") > 0 && cluster.metric(1, "catamaran_quic_retries_total") > 0);
    // After a while the client may begin one more handshake.
    wait_for("a handshake", || tls(cluster.dot(1), &config).ok());
}
