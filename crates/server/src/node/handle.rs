//! How the other threads talk to the replica thread.

use super::audit_log::refused::RefusedLog;
use super::cluster_clock::ClusterClock;
use super::removal::Removal;
use super::replica_thread::{ReplicaThread, Work};
use super::rights::Rights;
use super::zone_memory::ZoneMemory;
use crate::combiner::Combiner;
use crate::limits::{ADMIN_PENDING_MAX, FRAME_AT_ONCE_MAX, UPDATES_PENDING_MAX, UPDATES_PER_KEY_MAX};
use crate::metrics::Gauge;
use crate::peer::PeerEvents;
use crate::peer::hints::AddressHints;
use crate::service::counters::Refusal;
use crate::service::fair_quota::{FairQuota, QuotaPermit};
use crate::service::update_thread::{Flow, Submit};
use replica::io::{
    AdminCommand, AdminError, AdminReply, Input, Member, Membership, NodeId, ReadIndexError, UpdateRequest, ZoneOptions,
};
use replica::{Status, Trust};
use std::sync::mpsc::Sender;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};
use wire::Name;
use zeroize::Zeroizing;
use zone::record::ZoneId;
use zone::set::Frozen;

/// What the replica thread gets.
pub(crate) enum Event {
    /// Something for the replica as it is.
    Input(Input),
    /// A member that this node does not know, by the word of one that it knows.
    Vouched(Member),
    /// A frame of a peer, with its share of the inbound budget.
    Frame(NodeId, Vec<u8>, OwnedSemaphorePermit),
    /// A command of an administrator.
    Admin(AdminCommand, oneshot::Sender<Result<AdminReply, AdminError>>),
    /// An index that holds all that was acknowledged before, applied here.
    ReadIndex(oneshot::Sender<Result<u64, ReadIndexError>>),
    /// How is it? With or without its zones, over all of which it has to walk.
    Status(WithZones, oneshot::Sender<Status>),
    /// The secrets of a key, for an administrator who asks, once it is written down that he did.
    Secrets(Name, oneshot::Sender<Option<Secrets>>),
    /// The options of a zone.
    ZoneOptions(ZoneId, oneshot::Sender<Option<ZoneOptions>>),
    /// What it serves, held.
    Freeze(Box<dyn FnOnce(Frozen) + Send>),
    /// Another thread had a turn, and more is to be done.
    GoOn,
}

/// The secrets of a key, the newest first, and when it is written down that they were asked for.
pub(crate) struct Secrets {
    pub(crate) secrets: Vec<Zeroizing<Vec<u8>>>,
    pub(crate) written: oneshot::Receiver<bool>,
}

/// Whether a status lists zones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WithZones {
    Yes,
    No,
}

/// A command's place among those without an outcome; given back when dropped, also when who asked hangs up.
struct AdminPlace<'s>(&'s Shared);

impl Drop for AdminPlace<'_> {
    fn drop(&mut self) {
        self.0.admins.leave();
    }
}

/// One end of the queue to the replica thread. The queue itself is unbounded; each kind of sender is bounded by itself:
/// updates and commands here, frames by the budget of their lane, disk results by the jobs that the replica gave out.
#[derive(Clone)]
pub(crate) struct ReplicaHandle {
    events: Sender<Event>,
    pub(super) shared: Arc<Shared>,
}

/// What the replica thread and its askers both see.
#[derive(Default)]
pub(crate) struct Shared {
    /// Updates without an outcome.
    pub(crate) updates: Gauge,
    /// The same by flow.
    quota: Arc<FairQuota>,
    /// Commands without an outcome.
    pub(crate) admins: Gauge,
    /// Events that wait.
    pub(crate) waiting: Gauge,
    /// Who has the replica.
    pub(super) combiner: Combiner<ReplicaThread>,
    rights: RwLock<Arc<Rights>>,
    /// Who belongs to the cluster, for the connections between nodes.
    pub(super) membership: watch::Sender<Arc<Membership>>,
    /// Changes whenever queries see something newer.
    pub(crate) published: watch::Sender<u64>,
    /// What nodes know each other by.
    pub(crate) trust: watch::Sender<Arc<Trust>>,
    /// How far others show it too, as far as this node was told.
    pub(crate) everywhere: watch::Sender<Everywhere>,
    /// What the zones keep in memory.
    pub(crate) zone_memory: Arc<ZoneMemory>,
    /// The cluster's time.
    pub(crate) clock: ClusterClock,
    /// Addresses of members besides those in the state.
    pub(crate) hints: Arc<AddressHints>,
    /// Whether this node does.
    pub(crate) removal: Removal,
    /// What is refused, for the audit log.
    pub(crate) refusals: RefusedLog,
}

/// Indexes up to which others show everything.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Everywhere {
    /// All that may answer for zones of `ack = all-live`.
    pub(crate) of_rotation: u64,
    /// All that the leader heard of late, which may answer for any other zone.
    pub(crate) heard: u64,
}

impl Everywhere {
    /// Whether all that may answer for a zone show this index. Who is out of the rotation does not answer for a zone
    /// that needs a lease, and does for any other.
    pub(crate) const fn shows(self, index: u64, is_leased: bool) -> bool {
        index <= if is_leased { self.of_rotation } else { self.heard }
    }
}

impl Shared {
    pub(super) fn with_hints(hints: AddressHints) -> Arc<Self> {
        Arc::new(Self { hints: Arc::new(hints), ..Self::default() })
    }

    pub(super) fn set_everywhere(&self, index: u64, of_rotation: bool) {
        self.everywhere.send_modify(|known| match of_rotation {
            true => known.of_rotation = index,
            false => known.heard = index,
        });
    }

    pub(super) fn set_rights(&self, rights: Rights) {
        let rights = Arc::new(rights);
        let before = std::mem::replace(&mut *self.rights.write().unwrap_or_else(PoisonError::into_inner), rights);
        // A hundred thousand keys take a while to go, and packet workers look at the new ones.
        drop(before);
    }

    pub(crate) fn rights(&self) -> Arc<Rights> {
        self.rights.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ReplicaHandle {
    pub(crate) fn new(events: Sender<Event>, shared: Arc<Shared>) -> Self {
        Self { events, shared }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Sends an event; false when the replica thread is gone.
    pub(crate) fn send(&self, event: Event) -> bool {
        self.shared.waiting.enter(usize::MAX);
        let sent = self.events.send(event).is_ok();
        if !sent {
            self.shared.waiting.leave();
        }
        sent
    }

    /// Carries an event out at once, on this thread, where nothing else is under way or waits; else sends it.
    pub(crate) fn bring(&self, event: Event) -> bool {
        match self.shared.combiner.run_inline(event, &self.shared.waiting, ReplicaThread::work_off) {
            Ok(Work::None) => true,
            // The replica's own thread goes on with what follows from it.
            Ok(Work::More) => self.send(Event::GoOn),
            Err(event) => self.send(event),
        }
    }

    /// Has a command carried out. `Busy` when too many wait.
    pub(crate) async fn admin(&self, command: AdminCommand) -> Result<AdminReply, AdminError> {
        if !self.shared.admins.enter(ADMIN_PENDING_MAX) {
            return Err(AdminError::Busy);
        }
        let _place = AdminPlace(&self.shared);
        let (sender, receiver) = oneshot::channel();
        let sent = self.send(Event::Admin(command, sender));
        // The replica has its own time limit; when its thread is gone the sender is dropped.
        if sent { receiver.await.unwrap_or(Err(AdminError::Unknown)) } else { Err(AdminError::NotProposed) }
    }

    /// The secrets of a key; `None` when there is no such key.
    pub(crate) async fn secrets(&self, key: Name) -> Option<Secrets> {
        let (sender, receiver) = oneshot::channel();
        if self.send(Event::Secrets(key, sender)) { receiver.await.ok()? } else { None }
    }

    /// What this node has applied is applied by all nodes that are heard: the next client may ask any of them. One that
    /// lags is waited for a moment only, and it is done whatever becomes of that.
    pub(crate) async fn everywhere(&self) {
        let _ = self.admin(AdminCommand::WaitAllLive).await;
    }

    /// Waits until this node shows all that was acknowledged before, anywhere, and a majority has said so: a read that
    /// follows is linearizable. `None` when the replica's thread is gone.
    pub(crate) async fn read_index(&self) -> Option<Result<u64, ReadIndexError>> {
        let (sender, receiver) = oneshot::channel();
        // The replica has its own limits, of time and of number.
        if self.send(Event::ReadIndex(sender)) { receiver.await.ok() } else { None }
    }

    /// How the replica is; `None` when its thread is gone.
    pub(crate) async fn status(&self, zones: WithZones) -> Option<Status> {
        let (sender, receiver) = oneshot::channel();
        if self.send(Event::Status(zones, sender)) { receiver.await.ok() } else { None }
    }

    /// The options of a zone as this node has them; `None` if it has no such zone.
    pub(crate) async fn zone_options(&self, id: &ZoneId) -> Option<ZoneOptions> {
        let (sender, receiver) = oneshot::channel();
        if self.send(Event::ZoneOptions(id.clone(), sender)) { receiver.await.ok()? } else { None }
    }

    /// What the replica serves; `None` when its thread is gone.
    pub(crate) async fn frozen(&self) -> Option<Frozen> {
        let (sender, receiver) = oneshot::channel();
        let then = Box::new(move |frozen| {
            // Nobody waits any more.
            let _ = sender.send(frozen);
        });
        if self.send(Event::Freeze(then)) { receiver.await.ok() } else { None }
    }
}

impl Submit for ReplicaHandle {
    fn submit(&self, request: UpdateRequest, flow: &Flow) -> Result<QuotaPermit, Refusal> {
        let is_crowded = self.shared.updates.get() >= UPDATES_PENDING_MAX as u64 / 2;
        let most = is_crowded.then_some(UPDATES_PER_KEY_MAX);
        let permit = self.shared.quota.permit(flow, most).ok_or(Refusal::ShareTaken)?;
        if !self.shared.updates.enter(UPDATES_PENDING_MAX) {
            return Err(Refusal::QueueFull);
        }
        if !self.send(Event::Input(Input::Update(request))) {
            self.shared.updates.leave();
            return Err(Refusal::QueueFull);
        }
        Ok(permit)
    }

    fn rights(&self) -> Arc<Rights> {
        self.shared.rights()
    }

    fn refusals(&self) -> Option<&RefusedLog> {
        Some(&self.shared.refusals)
    }

    fn freeze(&self, then: Box<dyn FnOnce(Frozen) + Send>) {
        self.send(Event::Freeze(then));
    }
}

impl PeerEvents for ReplicaHandle {
    fn frame(&self, from: NodeId, frame: Vec<u8>, permit: OwnedSemaphorePermit) {
        let is_small = frame.len() <= FRAME_AT_ONCE_MAX;
        let event = Event::Frame(from, frame, permit);
        if is_small {
            self.bring(event)
        } else {
            self.send(event)
        };
    }

    fn connected(&self, id: NodeId, boot_id: u64) {
        self.send(Event::Input(Input::PeerConnected { id, boot_id }));
    }

    fn gone(&self, id: NodeId, refused: bool) {
        self.send(Event::Input(Input::PeerGone { id, refused }));
    }

    fn told_removed(&self, by: NodeId) {
        self.send(Event::Input(Input::ReportedRemoved { by }));
    }

    fn vouched(&self, member: Member) {
        self.send(Event::Vouched(member));
    }

    fn membership(&self) -> watch::Receiver<Arc<Membership>> {
        self.shared.membership.subscribe()
    }

    fn trust(&self) -> watch::Receiver<Arc<Trust>> {
        self.shared.trust.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::External;
    use replica::io::Transport;
    use std::sync::mpsc::channel;
    use tsig::{SecretId, Verified};
    use zone::record::ZoneId;

    fn flow(key: &str, zone: &str) -> Flow {
        Flow { key: key.parse().unwrap(), zone: Some(ZoneId { view: 0, apex: zone.parse().unwrap() }) }
    }

    fn submit(handle: &ReplicaHandle, flow: &Flow) -> Result<QuotaPermit, Refusal> {
        let (key_name, secret) = (flow.key.clone(), SecretId([0; 8]));
        let verified = Verified { key_name, secret, identity: [0; 16], time_signed: 1, fudge: 300 };
        let request = UpdateRequest {
            request_id: 1,
            source: ([192, 0, 2, 1], 53).into(),
            transport: Transport::Udp,
            message: Vec::new(),
            verified,
            refused_for: None,
            external: External::default(),
        };
        handle.submit(request, flow)
    }

    #[test]
    fn a_key_has_its_share_of_the_places_once_half_are_taken() {
        let (events, _queue) = channel();
        let handle = ReplicaHandle::new(events, Arc::default());
        let (much, half) = (flow("much.", "a.test."), UPDATES_PENDING_MAX / 2);
        let mut permits: Vec<QuotaPermit> = (0..half).map(|_| submit(&handle, &much).unwrap()).collect();
        assert!(matches!(submit(&handle, &much), Err(Refusal::ShareTaken)));
        // Of two slots that are drawn at random one is nobody else's.
        let others = [flow("much.", "b.test."), flow("little.", "a.test.")];
        let counts = others.map(|other| {
            let taken: Vec<QuotaPermit> = std::iter::from_fn(|| submit(&handle, &other).ok()).collect();
            let count = taken.len();
            permits.extend(taken);
            count
        });
        assert!(counts.contains(&(UPDATES_PER_KEY_MAX as usize)), "{counts:?}");
        // A share is free again when what took it has an outcome.
        permits.drain(..half - UPDATES_PER_KEY_MAX as usize + 1);
        assert!(submit(&handle, &much).is_ok());
        // Nobody gets more places than there are.
        let all = (0..).map_while(|number: u32| {
            let each = (0..UPDATES_PER_KEY_MAX).find_map(|_| {
                match submit(&handle, &flow(&format!("k{number}."), "a.test.")) {
                    Ok(permit) => {
                        permits.push(permit);
                        None
                    }
                    Err(refusal) => Some(refusal),
                }
            });
            (!matches!(each, Some(Refusal::QueueFull))).then_some(())
        });
        assert!(all.count() < 100 && handle.shared.updates.get() == UPDATES_PENDING_MAX as u64);
    }

    #[test]
    fn who_is_out_of_the_rotation_is_waited_for_where_it_answers() {
        let known = Everywhere { of_rotation: 9, heard: 4 };
        assert!(known.shows(9, true) && !known.shows(10, true));
        assert!(known.shows(4, false) && !known.shows(5, false));
    }
}
