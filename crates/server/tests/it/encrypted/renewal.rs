//! The certificate changes: open connections go on, new ones see the new one.

use super::query;
use crate::support::cluster::{Cluster, wait_for};
use crate::support::encrypted::{Doh, Doq, ask, tls, trust};
use crate::support::open_files::may_open;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::sync::Arc;
use wire::number::Rtype;

const CONNECTIONS: usize = 1_000;

#[test]
fn a_new_certificate_is_seen_by_new_connections_and_open_ones_go_on() {
    if !may_open(2 * CONNECTIONS as u64) {
        return;
    }
    let mut cluster = Cluster::start_encrypted("renewal", 2);
    cluster.end("TERM");
    // Long enough for what follows, on the slowest machine.
    cluster.configure(1, "idle_ms = 10000", "idle_ms = 120000");
    cluster.resume_encrypted();
    let file = |name: &str| cluster.dir.join(name);
    let config = Arc::new(trust(&cluster, &["dot"]));
    let message = query("www.example.test.", Rtype::A).build();
    let shown = || {
        // A session that is resumed shows no certificate.
        let stream = tls(cluster.dot(1), &Arc::new(trust(&cluster, &["dot"]))).unwrap();
        stream.conn.peer_certificates().unwrap()[0].clone().into_owned()
    };
    let certificate = |name: &str| CertificateDer::from_pem_file(file(name)).unwrap();
    let loads = |result: &str| cluster.metric(1, &format!("catamaran_certificate_loads_total{{result=\"{result}\"}}"));

    let mut streams: Vec<_> = (0..CONNECTIONS).map(|_| tls(cluster.dot(1), &config).unwrap()).collect();
    let mut doh = Doh::connect(cluster.doh(1), trust(&cluster, &["h2"]));
    let doq = Doq::connect(cluster.dot(1), trust(&cluster, &["doq"])).unwrap();
    assert_eq!(shown(), certificate("node-1/dns.pem"));
    assert_eq!(loads("taken"), 1);

    // One without its key is of no use.
    std::fs::copy(file("node-2/dns.pem"), file("node-1/dns.pem")).unwrap();
    wait_for("the refusal", || (loads("refused") == 1).then_some(()));
    assert_ne!(shown(), certificate("node-1/dns.pem"));
    // The key follows.
    std::fs::copy(file("node-2/dns.key"), file("node-1/dns.key")).unwrap();
    wait_for("the new certificate", || (loads("taken") == 2).then_some(()));
    assert_eq!(shown(), certificate("node-2/dns.pem"));

    for stream in &mut streams {
        assert!(ask(stream, &message).is_ok());
    }
    assert_eq!(doh.get(&message).unwrap().status, 200);
    assert!(doq.ask(&message).is_ok());
    assert_eq!(cluster.metric(1, "catamaran_connections_cut_total"), 0);
    // QUIC shows the new one too.
    let new = Doq::connect(cluster.dot(1), trust(&cluster, &["doq"])).unwrap();
    let identity = new.connection.peer_identity().unwrap().downcast::<Vec<CertificateDer<'static>>>().unwrap();
    assert_eq!(identity[0], certificate("node-2/dns.pem"));
}
