//! The certificate changes: open connections continue, and new connections get the new certificate.

use super::query;
use crate::support::cluster::{Cluster, wait_for};
use crate::support::encrypted::{Doh, Doq, ask, tls, trust};
use crate::support::open_files::may_open;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::sync::Arc;
use wire::number::Rtype;

const CONNECTIONS: usize = 1_000;
/// Connections over HTTPS and over QUIC, each with its own thread in this test.
const FEW: usize = 20;

#[test]
fn new_connections_get_a_new_certificate_and_open_ones_continue() {
    if !may_open(2 * CONNECTIONS as u64) {
        return;
    }
    let mut cluster = Cluster::start_encrypted("renewal", 2);
    cluster.end("TERM");
    // Long enough for the whole test on the slowest machine.
    cluster.configure(1, "idle_ms = 10000", "idle_ms = 120000");
    cluster.resume_encrypted();
    let file = |name: &str| cluster.dir.join(name);
    let config = Arc::new(trust(&cluster, &["dot"]));
    let message = query("www.example.test.", Rtype::A).build();
    // The certificate of new connections, which is the same over each transport. A resumed session shows no
    // certificate.
    let shown = || {
        let over_tcp = [(cluster.dot(1), "dot"), (cluster.doh(1), "h2")].map(|(to, protocol)| {
            let stream = tls(to, &Arc::new(trust(&cluster, &[protocol]))).unwrap();
            stream.conn.peer_certificates().unwrap()[0].clone().into_owned()
        });
        let quic = Doq::connect(cluster.dot(1), trust(&cluster, &["doq"])).unwrap();
        let over_quic = quic.connection.peer_identity().unwrap().downcast::<Vec<CertificateDer<'static>>>().unwrap();
        assert_eq!((&over_tcp[1], &over_quic[0]), (&over_tcp[0], &over_tcp[0]), "HTTPS and QUIC show what TLS does");
        over_quic[0].clone()
    };
    let certificate = |name: &str| CertificateDer::from_pem_file(file(name)).unwrap();
    let loads = |result: &str| cluster.metric(1, &format!("catamaran_certificate_loads_total{{result=\"{result}\"}}"));

    let mut streams: Vec<_> = (0..CONNECTIONS).map(|_| tls(cluster.dot(1), &config).unwrap()).collect();
    let mut https: Vec<_> = (0..FEW).map(|_| Doh::connect(cluster.doh(1), trust(&cluster, &["h2"]))).collect();
    let quic: Vec<_> = (0..FEW).map(|_| Doq::connect(cluster.dot(1), trust(&cluster, &["doq"])).unwrap()).collect();
    // Some of the connections are in use, and the others have sent nothing yet.
    let mut answer_some = |count: usize| {
        https.iter_mut().take(count).for_each(|doh| assert_eq!(doh.get(&message).unwrap().status, 200));
        quic.iter().take(count).for_each(|doq| assert!(doq.ask(&message).is_ok()));
    };
    answer_some(FEW / 2);
    assert_eq!(shown(), certificate("node-1/dns.pem"));
    assert_eq!(loads("taken"), 1);
    assert!(cluster.metric(1, "catamaran_client_certificate_expiry_timestamp_seconds") > 0);

    // The new certificate is refused without its key.
    std::fs::copy(file("node-2/dns.pem"), file("node-1/dns.pem")).unwrap();
    wait_for("the refusal", || (loads("refused") == 1).then_some(()));
    assert_ne!(shown(), certificate("node-1/dns.pem"));
    answer_some(FEW / 2);
    // The key follows.
    std::fs::copy(file("node-2/dns.key"), file("node-1/dns.key")).unwrap();
    wait_for("the new certificate", || (loads("taken") == 2).then_some(()));
    assert_eq!(shown(), certificate("node-2/dns.pem"));

    for stream in &mut streams {
        assert!(ask(stream, &message).is_ok());
    }
    answer_some(FEW);
    assert_eq!(cluster.metric(1, "catamaran_connections_closed_total"), 0);
}
