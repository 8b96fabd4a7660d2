//! The lanes to all peers, kept in step with the members of the cluster.

use super::admission::Admission;
use super::dial::Dialler;
use super::frame::Hello;
use super::outlet::Outlet;
use super::{LaneRuntimes, PeerCounters, PeerEvents};
use crate::limits::PEER_FRAME_BYTES_MAX;
use crate::log::vital;
use crate::tls::session::CurrentTls;
use replica::io::{Lane, Member, Membership, NodeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// All lanes. Owned by the replica thread.
pub(crate) struct Links<E> {
    own: NodeId,
    boot_id: u64,
    tls: Arc<CurrentTls>,
    admission: Admission,
    runtimes: LaneRuntimes,
    events: Arc<E>,
    counters: Arc<PeerCounters>,
    peers: BTreeMap<NodeId, Peer>,
}

struct Peer {
    address: String,
    lanes: [LaneEnd; 3],
}

/// The replica's end of a lane.
struct LaneEnd {
    outlet: Arc<Outlet>,
    /// It got frames since [`Links::flush`].
    has_more: bool,
}

impl Drop for LaneEnd {
    fn drop(&mut self) {
        self.outlet.close();
    }
}

impl<E: PeerEvents> Links<E> {
    pub(crate) fn new(
        own: NodeId,
        boot_id: u64,
        tls: Arc<CurrentTls>,
        admission: Admission,
        runtimes: LaneRuntimes,
        events: Arc<E>,
        counters: Arc<PeerCounters>,
    ) -> Self {
        Self { own, boot_id, tls, admission, runtimes, events, counters, peers: BTreeMap::new() }
    }

    /// Dials who is new or moved; hangs up on who is out. One that was removed and is still counted by raft is talked
    /// to: the majority that takes it out may need it.
    pub(crate) fn set_members(&mut self, members: &[Member], membership: &Membership) {
        self.admission.hints().set_members(members);
        let before: Vec<NodeId> = self.peers.keys().copied().collect();
        self.peers.retain(|id, peer| match members.iter().find(|member| member.id == *id) {
            Some(member) => member.address == peer.address,
            None => !membership.is_out(*id),
        });
        members.iter().for_each(|member| self.add(member));
        before.iter().filter(|id| !self.peers.contains_key(id)).for_each(|&id| self.counters.reach.forget(id));
    }

    /// Dials a member, if it is another one and new. It may be known by the word of a member only: its leader gets an
    /// answer that way.
    pub(crate) fn add(&mut self, member: &Member) {
        if member.id != self.own && !self.peers.contains_key(&member.id) {
            let lanes = [Lane::Heartbeat, Lane::Normal, Lane::Bulk].map(|lane| self.dial(member, lane));
            self.peers.insert(member.id, Peer { address: member.address.clone(), lanes });
        }
    }

    /// Puts a frame into its lane; drops it when the lane is full or nobody is there. It goes out with
    /// [`flush`](Self::flush).
    pub(crate) fn send(&mut self, to: NodeId, lane: Lane, frame: Vec<u8>) {
        debug_assert!(!frame.is_empty());
        match self.peers.get_mut(&to) {
            Some(peer) if frame.len() <= PEER_FRAME_BYTES_MAX => {
                let end = &mut peer.lanes[usize::from(super::lane_byte(lane))];
                end.outlet.put(frame);
                end.has_more = true;
            }
            _ => self.counters.dropped.one_shared(),
        }
    }

    /// Sends what was put into the lanes.
    pub(crate) fn flush(&mut self) {
        for peer in self.peers.values_mut() {
            for (lane, end) in [Lane::Heartbeat, Lane::Normal, Lane::Bulk].into_iter().zip(&mut peer.lanes) {
                match (std::mem::take(&mut end.has_more), lane) {
                    (false, _) => {}
                    (true, Lane::Heartbeat | Lane::Normal) => end.outlet.write_now(),
                    (true, Lane::Bulk) => end.outlet.write_later(),
                }
            }
        }
    }

    fn dial(&self, member: &Member, lane: Lane) -> LaneEnd {
        let outlet = Arc::new(Outlet::new(self.counters.clone()));
        let dialler = Dialler {
            tls: self.tls.clone(),
            admission: self.admission.clone(),
            address: member.address.clone(),
            hello: Hello { lane, from: self.own, to: member.id, boot_id: self.boot_id },
            events: self.events.clone(),
            counters: self.counters.clone(),
            outlet: outlet.clone(),
        };
        self.runtimes.of(lane).spawn(vital("dial a peer", dialler.run()));
        LaneEnd { outlet, has_more: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::accept::Acceptor;
    use crate::peer::frame::Welcome;
    use crate::tls::ca::CertificateAuthority;
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
        Vouched(NodeId),
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
        fn told_removed(&self, by: NodeId) {
            let _ = self.0.send(Event::ReportedRemoved(by));
        }
        fn vouched(&self, member: Member) {
            let _ = self.0.send(Event::Vouched(member.id));
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

    fn both(runtime: &Runtime) -> LaneRuntimes {
        LaneRuntimes { quick: runtime.handle().clone(), bulk: runtime.handle().clone() }
    }

    fn tls(dir: &std::path::Path, id: u64) -> Arc<CurrentTls> {
        let authority = CertificateAuthority::load_or_make(&dir.join("ca.pem"), &dir.join("ca.key")).unwrap();
        let made = authority.issue(id).unwrap();
        let files = PeerFiles { ca: dir.join("ca.pem"), cert: dir.join("cert"), key: dir.join("key") };
        files.save(&made.cert_pem, &made.key_pem).unwrap();
        Arc::new(CurrentTls::new(files.load().unwrap()))
    }

    /// Of nodes that have just joined: they know each other from their configuration.
    fn admission(events: &Events) -> Admission {
        let members = [1, 2, 3].map(|id| Member { id, address: format!("127.0.0.1:{id}") });
        Admission::new(events.membership(), events.trust(), members.to_vec(), Arc::default())
    }

    /// The sending side of node 1.
    fn links(tls: Arc<CurrentTls>, runtime: &Runtime, send: StdSender<Event>) -> Links<Events> {
        let events = Arc::new(Events::new(send));
        Links::new(1, 5, tls, admission(&events), both(runtime), events, Arc::default())
    }

    /// Node `id` accepting on a free port.
    fn accept(tls: &Arc<CurrentTls>, id: NodeId, boot_id: u64, port: u16) -> (Runtime, u16, Receiver<Event>) {
        let runtime = runtime();
        let (send, receive) = channel();
        let listener =
            crate::listen::sockets::tcp(([127, 0, 0, 1], port).into(), crate::listen::sockets::Sharing::Alone).unwrap();
        let port = listener.local_addr().unwrap().port();
        let events = Arc::new(Events::new(send));
        let admission = admission(&events);
        let welcome = Welcome { id, boot_id };
        let acceptor = Acceptor::new(tls.clone(), welcome, events, Arc::default(), admission, None, both(&runtime));
        runtime.spawn(async move { acceptor.run(tokio::net::TcpListener::from_std(listener).unwrap()).await });
        (runtime, port, receive)
    }

    fn next(events: &Receiver<Event>) -> Event {
        events.recv_timeout(Duration::from_secs(10)).expect("an event within ten seconds")
    }

    #[test]
    fn frames_arrive_and_the_death_of_a_peer_is_seen_as_refused() {
        let dir = crate::test_dir("links");
        let (one, two) = (tls(dir.path(), 1), tls(dir.path(), 2));
        let (server, port, inbound) = accept(&two, 2, 77, 0);
        let client = runtime();
        let (send, events) = channel();
        let mut links = links(one, &client, send);
        let member = Member { id: 2, address: format!("127.0.0.1:{port}") };
        links.set_members(&[Member { id: 1, address: "127.0.0.1:1".into() }, member], &Membership::default());
        assert_eq!(next(&events), Event::Connected(2, 77));
        // The lanes are dialled side by side; frames for one that does not stand yet are dropped, so try again.
        for lane in [Lane::Heartbeat, Lane::Normal, Lane::Bulk] {
            let frame = vec![super::super::lane_byte(lane); 100_000];
            let arrived = (0..100).any(|_| {
                links.send(2, lane, frame.clone());
                links.flush();
                inbound
                    .recv_timeout(Duration::from_millis(100))
                    .is_ok_and(|event| event == Event::Frame(1, frame.clone()))
            });
            assert!(arrived, "{lane:?}");
        }
        let dropped = links.counters.dropped.get();
        links.send(3, Lane::Normal, vec![1]);
        assert_eq!(links.counters.dropped.get(), dropped + 1);
        server.shutdown_background();
        // A dialler that is quicker than the end of the listener is turned away first, and refused the next time.
        let gone = next(&events);
        let gone = if gone == Event::Gone(2, false) { next(&events) } else { gone };
        assert_eq!(gone, Event::Gone(2, true));
        let (_server, _, _inbound) = accept(&two, 2, 78, port);
        assert_eq!(next(&events), Event::Connected(2, 78));
    }

    #[test]
    fn no_other_thread_is_needed_to_send_a_frame_that_clients_wait_for() {
        let dir = crate::test_dir("links-now");
        let (one, two) = (tls(dir.path(), 1), tls(dir.path(), 2));
        let (_server, port, inbound) = accept(&two, 2, 77, 0);
        let client = runtime();
        let (send, events) = channel();
        let mut links = links(one, &client, send);
        links.set_members(&[Member { id: 2, address: format!("127.0.0.1:{port}") }], &Membership::default());
        assert_eq!(next(&events), Event::Connected(2, 77));
        let arrives = |links: &mut Links<Events>, frame: &[u8], limit_ms| {
            links.send(2, Lane::Normal, frame.to_vec());
            links.flush();
            inbound.recv_timeout(Duration::from_millis(limit_ms)) == Ok(Event::Frame(1, frame.to_vec()))
        };
        assert!((0..100).any(|_| arrives(&mut links, b"the connection stands", 100)));
        // The one thread that serves the connections has something else to do.
        let (go_on, wait) = channel::<()>();
        client.spawn(async move { wait.recv().ok() });
        std::thread::sleep(Duration::from_millis(50));
        let arrived = arrives(&mut links, b"meanwhile", 5_000);
        drop(go_on);
        assert!(arrived);
    }

    #[test]
    fn a_node_that_is_not_who_it_says_is_refused() {
        let dir = crate::test_dir("links-wrong");
        let (three, two) = (tls(dir.path(), 3), tls(dir.path(), 2));
        let (_server, port, inbound) = accept(&two, 2, 77, 0);
        let client = runtime();
        let (send, events) = channel();
        // Node 3's certificate, but it calls itself 1.
        let mut links = links(three, &client, send);
        links.set_members(&[Member { id: 2, address: format!("127.0.0.1:{port}") }], &Membership::default());
        assert_eq!(next(&events), Event::Gone(2, false));
        links.send(2, Lane::Normal, vec![1, 2, 3]);
        links.flush();
        assert!(inbound.recv_timeout(Duration::from_millis(300)).is_err());
    }
}
