//! Beside a connection that floods.

use super::*;
use crate::listen::desk::Open;
use crate::listen::echo::Echo;
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
