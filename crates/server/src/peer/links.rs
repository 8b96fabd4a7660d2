//! The channels to all peers, updated when the members change.

use super::admission::Admission;
use super::dial::Dialler;
use super::frame::Hello;
use super::send_buffer::SendBuffer;
use super::{ChannelRuntimes, PeerCounters, PeerEvents};
use crate::limits::PEER_FRAME_BYTES_MAX;
use crate::replica_host::peer_links::PeerLinks;
use crate::tls::session::CurrentTls;
use process::log::abort_on_panic;
use replica::io::{Channel, Member, Membership, NodeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// All channels. Owned by the replica thread.
pub(crate) struct Links<E> {
    own: NodeId,
    boot_id: u64,
    tls: Arc<CurrentTls>,
    admission: Admission,
    runtimes: ChannelRuntimes,
    events: Arc<E>,
    counters: Arc<PeerCounters>,
    peers: BTreeMap<NodeId, Peer>,
}

struct Peer {
    address: String,
    channels: [ChannelEnd; 3],
}

/// The sending end of a channel.
struct ChannelEnd {
    send_buffer: Arc<SendBuffer>,
    /// Whether frames were queued since [`PeerLinks::flush`].
    has_more: bool,
}

impl Drop for ChannelEnd {
    fn drop(&mut self) {
        self.send_buffer.close();
    }
}

impl<E: PeerEvents> Links<E> {
    pub(crate) fn new(
        own: NodeId,
        boot_id: u64,
        tls: Arc<CurrentTls>,
        admission: Admission,
        runtimes: ChannelRuntimes,
        events: Arc<E>,
        counters: Arc<PeerCounters>,
    ) -> Self {
        Self { own, boot_id, tls, admission, runtimes, events, counters, peers: BTreeMap::new() }
    }

    fn dial(&self, member: &Member, channel: Channel) -> ChannelEnd {
        let send_buffer = Arc::new(SendBuffer::new(self.counters.clone()));
        let dialler = Dialler {
            tls: self.tls.clone(),
            admission: self.admission.clone(),
            address: member.address.clone(),
            hello: Hello { channel, from: self.own, to: member.id, boot_id: self.boot_id },
            events: self.events.clone(),
            counters: self.counters.clone(),
            send_buffer: send_buffer.clone(),
        };
        self.runtimes.of(channel).spawn(abort_on_panic("dial a peer", dialler.run()));
        ChannelEnd { send_buffer, has_more: false }
    }
}

impl<E: PeerEvents> PeerLinks for Links<E> {
    fn set_members(&mut self, members: &[Member], membership: &Membership) {
        self.admission.hints().set_members(members);
        let before: Vec<NodeId> = self.peers.keys().copied().collect();
        self.peers.retain(|id, peer| match members.iter().find(|member| member.id == *id) {
            Some(member) => member.address == peer.address,
            None => !membership.is_out(*id),
        });
        members.iter().for_each(|member| self.add(member));
        before.iter().filter(|id| !self.peers.contains_key(id)).for_each(|&id| self.counters.reachability.forget(id));
    }

    fn add(&mut self, member: &Member) {
        if member.id != self.own && !self.peers.contains_key(&member.id) {
            let channels =
                [Channel::Heartbeat, Channel::Normal, Channel::Bulk].map(|channel| self.dial(member, channel));
            self.peers.insert(member.id, Peer { address: member.address.clone(), channels });
        }
    }

    fn send(&mut self, to: NodeId, channel: Channel, frame: Vec<u8>) {
        debug_assert!(!frame.is_empty());
        match self.peers.get_mut(&to) {
            Some(peer) if frame.len() <= PEER_FRAME_BYTES_MAX => {
                let end = &mut peer.channels[usize::from(super::channel_byte(channel))];
                end.send_buffer.push(frame);
                end.has_more = true;
            }
            _ => self.counters.dropped.one_shared(),
        }
    }

    fn flush(&mut self) {
        for peer in self.peers.values_mut() {
            for (channel, end) in
                [Channel::Heartbeat, Channel::Normal, Channel::Bulk].into_iter().zip(&mut peer.channels)
            {
                match (std::mem::take(&mut end.has_more), channel) {
                    (false, _) => {}
                    (true, Channel::Heartbeat | Channel::Normal) => end.send_buffer.try_write(),
                    (true, Channel::Bulk) => end.send_buffer.schedule_write(),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::accept::Acceptor;
    use crate::peer::frame::Welcome;
    use crate::peer::resolve::connect_to_known_member;
    use crate::tls::ca::Ca;
    use crate::tls::session::PeerFiles;
    use replica::Trust;
    use std::sync::mpsc::{Receiver, Sender as StdSender, channel};
    use std::time::Duration;
    use tokio::runtime::Runtime;
    use tokio::sync::watch;

    #[derive(PartialEq, Eq, Debug)]
    enum Event {
        Frame(NodeId, Vec<u8>),
        Connected(NodeId, u64),
        Gone(NodeId, bool),
        ReportedRemoved(NodeId),
        Confirmed(NodeId),
    }

    struct Events(StdSender<Event>, watch::Sender<Arc<Membership>>, watch::Sender<Arc<Trust>>);

    impl Events {
        fn new(events: StdSender<Event>) -> Self {
            Self(events, watch::Sender::default(), watch::Sender::default())
        }
    }

    impl PeerEvents for Events {
        fn frame(&self, from: NodeId, frame: Vec<u8>, _permit: tokio::sync::OwnedSemaphorePermit) {
            let _ = self.0.send(Event::Frame(from, frame));
        }
        fn connected(&self, id: NodeId, boot_id: u64) {
            let _ = self.0.send(Event::Connected(id, boot_id));
        }
        fn gone(&self, id: NodeId, refused: bool) {
            let _ = self.0.send(Event::Gone(id, refused));
        }
        fn reported_removed(&self, by: NodeId) {
            let _ = self.0.send(Event::ReportedRemoved(by));
        }
        fn confirmed(&self, member: Member) {
            let _ = self.0.send(Event::Confirmed(member.id));
        }
        fn membership(&self) -> watch::Receiver<Arc<Membership>> {
            self.1.subscribe()
        }
        fn trust(&self) -> watch::Receiver<Arc<Trust>> {
            self.2.subscribe()
        }
    }

    fn runtime() -> Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    }

    fn on(runtime: &Runtime) -> ChannelRuntimes {
        let handle = runtime.handle().clone();
        ChannelRuntimes { quick: handle.clone(), bulk: handle.clone(), strangers: handle }
    }

    fn tls(dir: &std::path::Path, id: u64) -> Arc<CurrentTls> {
        let ca = Ca::load_or_make(&dir.join("ca.pem"), &dir.join("ca.key")).unwrap();
        let made = ca.issue(id).unwrap();
        let files = PeerFiles { ca: dir.join("ca.pem"), cert: dir.join("cert"), key: dir.join("key") };
        files.save(&made.cert_pem, &made.key_pem).unwrap();
        Arc::new(CurrentTls::new(files.load().unwrap()))
    }

    /// The admission of nodes that have just joined: they know each other from their configuration.
    fn admission(events: &Events) -> Admission {
        admission_of(events, "127.0.0.1")
    }

    /// The same, with another address of all nodes.
    fn admission_of(events: &Events, host: &str) -> Admission {
        let members = [1, 2, 3].map(|id| Member { id, address: format!("{host}:{id}") });
        Admission::new(events.membership(), events.trust(), members.to_vec(), Arc::default())
    }

    /// The sending side of node 1.
    fn links(tls: Arc<CurrentTls>, runtime: &Runtime, send: StdSender<Event>) -> Links<Events> {
        let events = Arc::new(Events::new(send));
        Links::new(1, 5, tls, admission(&events), on(runtime), events, Arc::default())
    }

    /// Node `id` accepting on a free port.
    fn accept(tls: &Arc<CurrentTls>, id: NodeId, boot_id: u64, port: u16) -> (Runtime, u16, Receiver<Event>) {
        let runtime = runtime();
        let (port, receive) = accept_on(tls, id, boot_id, (port, "127.0.0.1"), &runtime, on(&runtime));
        (runtime, port, receive)
    }

    /// Node `id` accepting on a port (0: a free one), which knows all nodes under the address `host`.
    fn accept_on(
        tls: &Arc<CurrentTls>,
        id: NodeId,
        boot_id: u64,
        (port, host): (u16, &str),
        runtime: &Runtime,
        runtimes: ChannelRuntimes,
    ) -> (u16, Receiver<Event>) {
        let (send, receive) = channel();
        let listener =
            crate::listen::sockets::tcp(([127, 0, 0, 1], port).into(), crate::listen::sockets::Sharing::Alone).unwrap();
        let port = listener.local_addr().unwrap().port();
        let events = Arc::new(Events::new(send));
        let admission = admission_of(&events, host);
        let welcome = Welcome { id, boot_id };
        let acceptor = Acceptor::new(tls.clone(), welcome, events, Arc::default(), admission, None, runtimes);
        runtime.spawn(async move { acceptor.run(tokio::net::TcpListener::from_std(listener).unwrap()).await });
        (port, receive)
    }

    fn next(events: &Receiver<Event>) -> Event {
        events.recv_timeout(Duration::from_secs(10)).expect("an event within ten seconds")
    }

    #[test]
    fn frames_arrive_and_the_death_of_a_peer_is_seen_as_refused() {
        let dir = process::testing::test_dir("links");
        let (one, two) = (tls(dir.path(), 1), tls(dir.path(), 2));
        let (server, port, inbound) = accept(&two, 2, 77, 0);
        let client = runtime();
        let (send, events) = channel();
        let mut links = links(one, &client, send);
        let member = Member { id: 2, address: format!("127.0.0.1:{port}") };
        links.set_members(&[Member { id: 1, address: "127.0.0.1:1".into() }, member], &Membership::default());
        assert_eq!(next(&events), Event::Connected(2, 77));
        // The channels are dialled in parallel. Frames before a connection is established are dropped, so try again.
        for channel in [Channel::Heartbeat, Channel::Normal, Channel::Bulk] {
            let frame = vec![super::super::channel_byte(channel); 100_000];
            let arrived = (0..100).any(|_| {
                links.send(2, channel, frame.clone());
                links.flush();
                inbound
                    .recv_timeout(Duration::from_millis(100))
                    .is_ok_and(|event| event == Event::Frame(1, frame.clone()))
            });
            assert!(arrived, "{channel:?}");
        }
        let dropped = links.counters.dropped.get();
        links.send(3, Channel::Normal, vec![1]);
        assert_eq!(links.counters.dropped.get(), dropped + 1);
        server.shutdown_background();
        // A fast dialler is first disconnected by the closing listener, and refused the next time.
        let gone = next(&events);
        let gone = if gone == Event::Gone(2, false) { next(&events) } else { gone };
        assert_eq!(gone, Event::Gone(2, true));
        let (_server, _, _inbound) = accept(&two, 2, 78, port);
        assert_eq!(next(&events), Event::Connected(2, 78));
    }

    #[test]
    fn urgent_frames_are_sent_by_the_calling_thread() {
        let dir = process::testing::test_dir("links-now");
        let (one, two) = (tls(dir.path(), 1), tls(dir.path(), 2));
        let (_server, port, inbound) = accept(&two, 2, 77, 0);
        let client = runtime();
        let (send, events) = channel();
        let mut links = links(one, &client, send);
        links.set_members(&[Member { id: 2, address: format!("127.0.0.1:{port}") }], &Membership::default());
        assert_eq!(next(&events), Event::Connected(2, 77));
        let arrives = |links: &mut Links<Events>, frame: &[u8], limit_ms| {
            links.send(2, Channel::Normal, frame.to_vec());
            links.flush();
            inbound.recv_timeout(Duration::from_millis(limit_ms)) == Ok(Event::Frame(1, frame.to_vec()))
        };
        assert!((0..100).any(|_| arrives(&mut links, b"connected", 100)));
        // Block the only thread of the connections.
        let (go_on, wait) = channel::<()>();
        client.spawn(async move { wait.recv().ok() });
        std::thread::sleep(Duration::from_millis(50));
        let arrived = arrives(&mut links, b"meanwhile", 5_000);
        drop(go_on);
        assert!(arrived);
    }

    #[test]
    fn a_member_with_an_unknown_address_leaves_the_thread_of_strangers_when_it_is_admitted() {
        let dir = process::testing::test_dir("links-stranger");
        let (one, two) = (tls(dir.path(), 1), tls(dir.path(), 2));
        let (server, strangers, client) = (runtime(), runtime(), runtime());
        let runtimes = ChannelRuntimes { strangers: strangers.handle().clone(), ..on(&server) };
        let (port, inbound) = accept_on(&two, 2, 77, (0, "192.0.2.1"), &server, runtimes);
        let (send, events) = channel();
        let mut links = links(one, &client, send);
        links.set_members(&[Member { id: 2, address: format!("127.0.0.1:{port}") }], &Membership::default());
        assert_eq!(next(&events), Event::Connected(2, 77));
        let arrives = |links: &mut Links<Events>, channel: Channel| {
            links.send(2, channel, vec![super::super::channel_byte(channel)]);
            links.flush();
            inbound.recv_timeout(Duration::from_millis(100)).is_ok()
        };
        let channels = [Channel::Heartbeat, Channel::Normal, Channel::Bulk];
        for channel in channels {
            assert!((0..100).any(|_| arrives(&mut links, channel)), "{channel:?}");
        }
        // Block the only thread of the handshakes.
        let (go_on, wait) = channel::<()>();
        let (blocked, is_blocked) = channel();
        strangers.spawn(async move { blocked.send(()).map(|()| wait.recv().ok()) });
        is_blocked.recv_timeout(Duration::from_secs(10)).unwrap();
        let arrived = channels.map(|channel| (0..100).any(|_| arrives(&mut links, channel)));
        drop(go_on);
        assert_eq!(arrived, [true; 3]);
    }

    #[test]
    fn a_member_is_found_at_a_hint_if_its_address_in_the_state_is_old() {
        let dir = process::testing::test_dir("links-hint");
        let (one, two) = (tls(dir.path(), 1), tls(dir.path(), 2));
        let (_server, port, _inbound) = accept(&two, 2, 77, 0);
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let member = Member { id: 2, address: free.to_string() };
        let admission = admission(&Events::new(channel().0));
        let connect = || {
            let connected = connect_to_known_member(&member, one.get().client, &admission);
            runtime().block_on(async { tokio::time::timeout(Duration::from_secs(10), connected).await.unwrap() })
        };
        assert!(connect().is_err());
        admission.hints().add(2, format!("127.0.0.1:{port}"));
        connect().unwrap();
    }

    #[test]
    fn a_node_with_the_certificate_of_another_is_refused() {
        let dir = process::testing::test_dir("links-wrong");
        let (three, two) = (tls(dir.path(), 3), tls(dir.path(), 2));
        let (_server, port, inbound) = accept(&two, 2, 77, 0);
        let client = runtime();
        let (send, events) = channel();
        // Node 3's certificate, but it calls itself 1.
        let mut links = links(three, &client, send);
        links.set_members(&[Member { id: 2, address: format!("127.0.0.1:{port}") }], &Membership::default());
        assert_eq!(next(&events), Event::Gone(2, false));
        links.send(2, Channel::Normal, vec![1, 2, 3]);
        links.flush();
        assert!(inbound.recv_timeout(Duration::from_millis(300)).is_err());
    }
}
