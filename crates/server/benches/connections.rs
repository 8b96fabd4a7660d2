//! Resident memory of a node for each idle connection, by transport (docs/history/transports.md):
//!
//! ```text
//! cargo bench --profile gate -p catamaran-server --bench connections -- --connections 4000
//! ```

#[expect(dead_code, reason = "it is shared with the tests, which use more of it")]
#[path = "../tests/it/support/mod.rs"]
mod support;

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use support::cluster::Cluster;
use support::dns::{framed, read_message};
use support::encrypted::{ask, tls, trust};
use support::message::name;
use support::open_files::may_open;
use support::rss::resident_kib;
use tokio::runtime::Runtime;
use wire::Rtype;
use wire::builder::MessageBuilder;

/// Pause before each measurement of memory.
const REST: Duration = Duration::from_millis(1_500);

fn main() {
    let count = argument("--connections", 4_000);
    assert!(may_open(count as u64 + 1_000), "this process may not open {count} connections");
    println!("{count} idle connections, each after one query");
    println!("| transport | KiB before | KiB with them | bytes per connection |");
    println!("|---|---|---|---|");
    for transport in ["tcp", "dot", "dot resumed", "doh", "doq"] {
        let mut cluster = Cluster::start_encrypted("connections", 1);
        cluster.end("TERM");
        cluster.configure(1, "idle_ms = 10000", "idle_ms = 600000");
        cluster.configure(1, "connections_per_client_max = 2048", "connections_per_client_max = 16384");
        cluster.resume_encrypted();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        // Memory that is allocated once, with the first connections, does not count.
        let first = open(&runtime, &cluster, transport, 50);
        std::thread::sleep(REST);
        let pid = cluster.pid(1).unwrap();
        let before = resident_kib(pid);
        let all = open(&runtime, &cluster, transport, count);
        std::thread::sleep(REST);
        assert_eq!(cluster.metric(1, "catamaran_connections_open"), count as u64 + 50);
        let after = resident_kib(pid);
        println!("| {transport} | {before} | {after} | {} |", (after - before) * 1_024 / count as u64);
        drop((first, all));
        // QUIC connections end with their runtime, without a close.
        runtime.shutdown_background();
    }
}

fn argument(name: &str, default: usize) -> usize {
    let mut arguments = std::env::args().skip_while(|argument| argument != name).skip(1);
    arguments.next().map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} needs a number")))
}

/// Opens `count` connections and waits for one answer on each. They stay open until they are dropped.
fn open(runtime: &Runtime, cluster: &Cluster, transport: &str, count: usize) -> Vec<Box<dyn Any>> {
    let query = MessageBuilder::query(0, name("www.example.test.").as_ref(), Rtype::A).build();
    let mut config = trust(cluster, &[if transport.starts_with("dot") { "dot" } else { "h2" }]);
    if transport != "dot resumed" {
        config.resumption = rustls::client::Resumption::disabled();
    }
    let config = Arc::new(config);
    match transport {
        "tcp" => (0..count).map(|_| Box::new(plain(cluster.dns(1), &query)) as Box<dyn Any>).collect(),
        "doh" => (0..count).map(|_| runtime.block_on(http(cluster.doh(1), &config, &query))).collect(),
        "doq" => quic(runtime, cluster, count, &query),
        _ => (0..count)
            .map(|_| {
                let mut stream = tls(cluster.dot(1), &config).unwrap();
                ask(&mut stream, &query).unwrap();
                Box::new(stream) as Box<dyn Any>
            })
            .collect(),
    }
}

fn plain(to: SocketAddr, query: &[u8]) -> std::net::TcpStream {
    use std::io::Write;
    let mut stream = std::net::TcpStream::connect(to).unwrap();
    stream.write_all(&framed(query)).unwrap();
    read_message(&mut stream).unwrap();
    stream
}

async fn http(to: SocketAddr, config: &Arc<rustls::ClientConfig>, query: &[u8]) -> Box<dyn Any> {
    let stream = tokio::net::TcpStream::connect(to).await.unwrap();
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let stream = tokio_rustls::TlsConnector::from(config.clone()).connect(name, stream).await.unwrap();
    let (requests, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let mut requests = requests.ready().await.unwrap();
    let target = data_encoding::BASE64URL_NOPAD.encode(query);
    let request = http::Request::get(format!("https://localhost/dns-query?dns={target}")).body(()).unwrap();
    let (response, _) = requests.send_request(request, true).unwrap();
    let mut body = response.await.unwrap().into_body();
    while let Some(data) = body.data().await {
        data.unwrap();
    }
    Box::new(requests)
}

fn quic(runtime: &Runtime, cluster: &Cluster, count: usize, query: &[u8]) -> Vec<Box<dyn Any>> {
    let mut tls = trust(cluster, &["doq"]);
    tls.resumption = rustls::client::Resumption::disabled();
    let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(tls).unwrap();
    runtime.block_on(async {
        let mut config = quinn::ClientConfig::new(Arc::new(crypto));
        let mut transport = quinn::TransportConfig::default();
        transport.max_idle_timeout(None);
        config.transport_config(Arc::new(transport));
        let mut endpoint = quinn::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        endpoint.set_default_client_config(config);
        let mut all: Vec<Box<dyn Any>> = vec![Box::new(endpoint.clone())];
        for _ in 0..count {
            let connection = endpoint.connect(cluster.dot(1), "localhost").unwrap().await.unwrap();
            let (mut send, mut receive) = connection.open_bi().await.unwrap();
            send.write_all(&framed(query)).await.unwrap();
            send.finish().unwrap();
            receive.read_to_end(1_000).await.unwrap();
            all.push(Box::new(connection));
        }
        all
    })
}
