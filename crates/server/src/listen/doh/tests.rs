//! Beside a connection that floods.

use super::*;
use crate::config::Tcp;
use crate::listen::desk::Open;
use crate::listen::echo::{Echo, Server, run};
use crate::listen::{Transport, flood, sockets};
use h2::client::SendRequest;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

async fn serve_all(desk: Desk<Echo>, listens: oneshot::Sender<SocketAddr>) {
    let listener = sockets::tcp("127.0.0.1:0".parse().unwrap(), sockets::Sharing::Shared).unwrap();
    let listener = TcpListener::from_std(listener).unwrap();
    listens.send(listener.local_addr().unwrap()).unwrap();
    let desk = Rc::new(desk);
    loop {
        let (stream, peer) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (desk, open) = (desk.clone(), Open::enter(&desk, peer.ip()).unwrap());
        tokio::task::spawn_local(async move { serve(desk, open.share(), stream, peer).await });
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

/// Sends the message when its request has gone out already: it is answered by a task of its own.
async fn post(requests: SendRequest<Bytes>, message: Vec<u8>) -> Option<Vec<u8>> {
    let request = Request::post("https://dns.example/dns-query").header("content-type", "application/dns-message");
    let (response, mut body) = requests.ready().await.ok()?.send_request(request.body(()).ok()?, false).ok()?;
    tokio::task::yield_now().await;
    body.send_data(message.into(), true).ok()?;
    read(response).await
}

async fn read(response: h2::client::ResponseFuture) -> Option<Vec<u8>> {
    let mut body = response.await.ok()?.into_body();
    let mut octets = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.ok()?;
        body.flow_control().release_capacity(data.len()).ok()?;
        octets.extend_from_slice(&data);
    }
    Some(octets)
}

#[test]
fn a_connection_that_floods_leaves_others_their_turn() {
    flood::check(Transport::Doh, serve_all, connect, get);
}

#[test]
fn so_does_one_whose_messages_come_behind_their_requests() {
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
    let connections = server.connections.of(Transport::Doh);
    let start = Instant::now();
    while connections.cuts(Cut::SlowReader) == 0 && start.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(connections.cuts(Cut::SlowReader), 1);
}
