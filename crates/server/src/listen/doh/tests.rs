//! DNS over HTTPS beside a flooding connection, and with clients that read slowly.

use super::exchange::HTTP_EXCHANGE_BYTES;
use super::*;
use crate::listen::counters::AllConnections;
use crate::listen::echo::{Echo, Server, run};
use crate::listen::handler::{ConnectionLimits, OpenConnection};
use crate::listen::{Transport, flood, sockets};
use config::Tcp;
use h2::client::SendRequest;
use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, mpsc};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

async fn serve_all(handler: TransportHandler<Echo>, listens: oneshot::Sender<SocketAddr>) {
    let listener = sockets::tcp("127.0.0.1:0".parse().unwrap(), sockets::Sharing::Shared).unwrap();
    let listener = TcpListener::from_std(listener).unwrap();
    listens.send(listener.local_addr().unwrap()).unwrap();
    let handler = Rc::new(handler);
    loop {
        let (stream, peer) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (handler, open) = (handler.clone(), OpenConnection::enter(&handler, peer.ip()).unwrap());
        tokio::task::spawn_local(async move { serve(handler, open.reservation(), stream, peer).await });
    }
}

async fn connect(address: SocketAddr) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (requests, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::task::spawn_local(connection);
    requests
}

async fn get(requests: SendRequest<Bytes>, message: Vec<u8>) -> Option<Vec<u8>> {
    let message = data_encoding::BASE64URL_NOPAD.encode(&message);
    let request = Request::get(format!("https://dns.example/dns-query?dns={message}")).body(()).ok()?;
    let (response, _) = requests.ready().await.ok()?.send_request(request, true).ok()?;
    read(response).await
}

/// Sends the message after the headers of its request. So the server answers it in a separate task.
async fn post(requests: SendRequest<Bytes>, message: Vec<u8>) -> Option<Vec<u8>> {
    let request = Request::post("https://dns.example/dns-query").header("content-type", "application/dns-message");
    let (response, mut body) = requests.ready().await.ok()?.send_request(request.body(()).ok()?, false).ok()?;
    tokio::task::yield_now().await;
    body.send_data(message.into(), true).ok()?;
    read(response).await
}

async fn read(response: h2::client::ResponseFuture) -> Option<Vec<u8>> {
    let mut body = response.await.ok()?.into_body();
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.ok()?;
        body.flow_control().release_capacity(data.len()).ok()?;
        bytes.extend_from_slice(&data);
    }
    Some(bytes)
}

#[test]
fn a_flooding_connection_does_not_starve_others() {
    flood::check(Transport::Doh, serve_all, connect, get);
}

#[test]
fn a_flood_of_late_bodies_does_not_starve_others() {
    flood::check(Transport::Doh, serve_all, connect, post);
}

#[test]
fn a_body_that_does_not_come_gets_its_status_and_ends_the_connection() {
    let server = Server::start(Transport::Doh, &Tcp { idle_ms: 200, ..Tcp::default() }, serve_all);
    let ended = run(async {
        let stream = TcpStream::connect(server.address).await.unwrap();
        let (requests, connection) = h2::client::handshake(stream).await.unwrap();
        let connection = tokio::task::spawn_local(connection);
        let request = Request::post("https://dns.example/dns-query").header("content-type", "application/dns-message");
        let request = request.body(()).unwrap();
        let (response, _body) = requests.ready().await.unwrap().send_request(request, false).unwrap();
        assert_eq!(response.await.unwrap().status(), 408);
        tokio::time::timeout(Duration::from_secs(5), connection).await.expect("it ends").unwrap()
    });
    assert_eq!(ended.err().and_then(|error| error.reason()), Some(Reason::ENHANCE_YOUR_CALM));
    wait_for_the_cut(&server);
}

/// Waits until the close is counted and the memory released, which happens shortly after the client notices.
fn wait_for_the_cut(server: &Server) {
    let start = Instant::now();
    let cuts = || server.connections.of(Transport::Doh).closed(CloseReason::SlowReader);
    while (cuts(), server.limits.memory_used()) != (1, 0) {
        assert!(start.elapsed() < Duration::from_secs(5), "{} cuts, {} bytes", cuts(), server.limits.memory_used());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Error responses count as memory too, until the client reads them.
#[test]
fn requests_count_until_their_refusals_have_left() {
    const COUNT: usize = HTTP_STREAMS_MAX as usize;
    let server = Server::start(Transport::Doh, &Tcp { idle_ms: 500, ..Tcp::default() }, serve_all);
    run(async {
        let stream = TcpStream::connect(server.address).await.unwrap();
        let handshake = h2::client::Builder::new().initial_window_size(0).handshake::<_, Bytes>(stream);
        let (mut requests, connection) = handshake.await.unwrap();
        let connection = tokio::task::spawn_local(connection);
        let mut responses = Vec::new();
        for _ in 0..COUNT {
            requests = requests.ready().await.unwrap();
            let request = Request::get("https://dns.example/elsewhere").body(()).unwrap();
            responses.push(requests.send_request(request, true).unwrap().0);
        }
        // All responses are kept: dropping one would reset its stream.
        let mut refusals = Vec::new();
        for response in responses {
            refusals.push(response.await.unwrap());
        }
        assert!(refusals.iter().all(|refusal| refusal.status() == 404));
        assert!(server.limits.memory_used() > COUNT * HTTP_EXCHANGE_BYTES);
        tokio::time::timeout(Duration::from_secs(5), connection).await.expect("it ends").unwrap().unwrap_err();
    });
    wait_for_the_cut(&server);
}

/// A frame of HTTP/2 (RFC 9113 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_be_bytes()[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The bytes of an HTTP/2 client that requests large messages, with this window for each stream.
fn asks_for_large(count: u32, window: u32) -> Vec<u8> {
    let settings = [&[0, 4][..], &window.to_be_bytes()].concat();
    let target = b"/dns-query?dns=AABi";
    let headers = [&[0x82, 0x87, 0x04, target.len() as u8], &target[..]].concat();
    let mut bytes = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &settings)].concat();
    bytes.extend(frame(8, 0, 0, &0x7FFF_0000_u32.to_be_bytes()));
    (0..count).for_each(|index| bytes.extend(frame(1, 5, 2 * index + 1, &headers)));
    bytes
}

/// The client may read little from the stream, or open its HTTP/2 windows slowly.
#[test]
fn a_client_that_reads_too_slowly_is_closed() {
    /// Bytes that the pipe buffers, the window of each stream, bytes per read, bytes that each read adds to the window,
    /// and whether the connection is closed.
    const CASES: [(usize, u32, usize, u32, bool); 4] = [
        (64, 0x7FFF_FFFF, 1, 0, true),
        (64, 0x7FFF_FFFF, 100, 0, true),
        (1 << 20, 0, 1 << 20, 1, true),
        (1_000, 0x7FFF_FFFF, 1_000, 0, false),
    ];
    for (between, window, bytes, grows, is_cut) in CASES {
        run(async {
            let (connections, tcp) = (AllConnections::default(), Tcp { idle_ms: 200, ..Tcp::default() });
            let handler = TransportHandler::new(
                Transport::Doh,
                Echo,
                &ConnectionLimits::new(&tcp, &[]),
                &connections,
                Arc::default(),
            );
            let (handler, peer) = (Rc::new(handler), SocketAddr::from(([192, 0, 2, 1], 1)));
            let open = OpenConnection::enter(&handler, peer.ip()).unwrap();
            let (mut client, server) = tokio::io::duplex(between);
            let serving =
                tokio::task::spawn_local(async move { serve(handler, open.reservation(), server, peer).await });
            client.write_all(&asks_for_large(4, window)).await.unwrap();
            let start = Instant::now();
            let mut chunk = vec![0; bytes];
            while start.elapsed() < Duration::from_secs(2) && client.read(&mut chunk).await.is_ok_and(|count| count > 0)
            {
                if grows > 0 {
                    let _ = client.write_all(&frame(8, 0, 1, &grows.to_be_bytes())).await;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            let cuts = connections.of(Transport::Doh).closed(CloseReason::SlowReader);
            assert_eq!((serving.is_finished(), cuts), (is_cut, u64::from(is_cut)), "{between} {window} {bytes}");
        });
    }
}

/// A client that repeats one frame forever, faster than the server reads, and reads everything that it gets.
struct FloodingClient {
    sent: VecDeque<u8>,
    again: Vec<u8>,
    byte_count: Rc<Cell<usize>>,
}

impl AsyncRead for FloodingClient {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.sent.len() < buffer.remaining() {
            let again = self.again.clone();
            self.sent.extend(again);
        }
        let bytes: Vec<u8> = self.sent.drain(..buffer.remaining()).collect();
        buffer.put_slice(&bytes);
        self.byte_count.set(self.byte_count.get() + bytes.len());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for FloodingClient {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The work budget also limits frames that carry no request.
#[test]
fn a_connection_of_control_frames_does_not_starve_others() {
    const TURNS: usize = 100;
    let (done, waits) = mpsc::channel();
    let priority = frame(2, 0, 1, &[0, 0, 0, 0, 7]);
    let window = frame(8, 0, 0, &[0, 0, 0, 1]);
    let unknown = frame(0xEE, 0, 0, b"");
    let all = [("PRIORITY", priority), ("WINDOW_UPDATE", window), ("an unknown frame", unknown)];
    for (what, again) in all.clone() {
        let done = done.clone();
        std::thread::spawn(move || {
            run(async {
                let start = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &[])].concat();
                let byte_count = Rc::<Cell<usize>>::default();
                let talk = FloodingClient { sent: start.into(), again, byte_count: byte_count.clone() };
                let limits = ConnectionLimits::new(&Tcp::default(), &[]);
                let handler =
                    TransportHandler::new(Transport::Doh, Echo, &limits, &AllConnections::default(), Arc::default());
                let (handler, peer) = (Rc::new(handler), SocketAddr::from(([192, 0, 2, 1], 1)));
                let open = OpenConnection::enter(&handler, peer.ip()).unwrap();
                let serving =
                    tokio::task::spawn_local(async move { serve(handler, open.reservation(), talk, peer).await });
                for _ in 0..TURNS {
                    tokio::task::yield_now().await;
                }
                assert!(!serving.is_finished(), "{what}");
                done.send((what, byte_count.get() / TURNS)).unwrap();
            });
        });
    }
    drop(done);
    for _ in all {
        let (what, byte_count) = waits.recv_timeout(Duration::from_secs(10)).expect("other tasks of the runtime run");
        println!("{what}: {byte_count} bytes a turn");
        assert!(byte_count > 0, "{what}");
    }
}
