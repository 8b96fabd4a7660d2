//! Checks that a connection stays responsive while another connection floods the same runtime.

use super::Transport;
use super::echo::{COSTLY, Echo, Server, run};
use super::handler::TransportHandler;
use config::Tcp;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// Highest latency allowed. All costly messages of the flood together take longer, so the runtime must switch between
/// connections.
const LATENCY_MAX: Duration = Duration::from_millis(50);
/// Messages of the flood in flight.
const FLOOD_COUNT: usize = 100;
const LATENCY_COUNT: usize = 32;

/// Checks the latency of one connection while another keeps costly messages in flight. `serve` reports its address;
/// `ask` sends a message and returns the response. Other load on the machine may spoil one try, but not three.
pub(super) fn check<S, C, A>(
    transport: Transport,
    serve: impl FnOnce(TransportHandler<Echo>, oneshot::Sender<SocketAddr>) -> S + Clone + Send + 'static,
    connect: impl Fn(SocketAddr) -> C + Clone + Send + 'static,
    ask: impl Fn(C::Output, Vec<u8>) -> A + Clone + Send + 'static,
) where
    S: Future<Output = ()>,
    C: Future<Output: Clone + 'static>,
    A: Future<Output = Option<Vec<u8>>> + 'static,
{
    let tries = (0..3).map(|_| latency_beside(transport, serve.clone(), connect.clone(), ask.clone()));
    let seen: Vec<Duration> = tries.take_while(|latency| *latency > LATENCY_MAX).collect();
    assert!(seen.len() < 3, "{seen:?}");
}

/// The 75th percentile of the latency beside a flood.
fn latency_beside<S, C, A>(
    transport: Transport,
    serve: impl FnOnce(TransportHandler<Echo>, oneshot::Sender<SocketAddr>) -> S + Send + 'static,
    connect: impl Fn(SocketAddr) -> C + Clone + Send + 'static,
    ask: impl Fn(C::Output, Vec<u8>) -> A + Clone + Send + 'static,
) -> Duration
where
    S: Future<Output = ()>,
    C: Future<Output: Clone + 'static>,
    A: Future<Output = Option<Vec<u8>>> + 'static,
{
    let server = Server::start(transport, &Tcp::default(), serve);
    let address = server.address;
    let is_over = Arc::new(AtomicBool::new(false));
    let (theirs, flood_connect, flood_ask) = (is_over.clone(), connect.clone(), ask.clone());
    let flooding = std::thread::spawn(move || {
        run(async {
            let connection = flood_connect(address).await;
            let mut all = JoinSet::new();
            for _ in 0..FLOOD_COUNT {
                let (connection, ask, is_over) = (connection.clone(), flood_ask.clone(), theirs.clone());
                all.spawn_local(async move {
                    let mut count = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        assert_eq!(ask(connection.clone(), message(COSTLY)).await.unwrap(), message(COSTLY));
                        count += 1;
                    }
                    count
                });
            }
            all.join_all().await
        })
    });
    std::thread::sleep(Duration::from_millis(300));
    let mut latencies = run(async {
        let connection = connect(address).await;
        let mut latencies = Vec::new();
        for _ in 0..LATENCY_COUNT {
            let start = Instant::now();
            assert_eq!(ask(connection.clone(), message(0)).await.unwrap(), message(0));
            latencies.push(start.elapsed());
        }
        latencies
    });
    is_over.store(true, Ordering::Relaxed);
    let counts = flooding.join().unwrap();
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(*least > 0 && least * 4 >= *most, "messages of the flood are answered unevenly: {counts:?}");
    latencies.sort();
    latencies[LATENCY_COUNT * 3 / 4]
}

fn message(last: u8) -> Vec<u8> {
    [&[0; 11][..], &[last]].concat()
}
