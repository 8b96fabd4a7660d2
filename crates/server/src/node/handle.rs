//! The handle that other threads use to send events to the replica thread.

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

/// An event for the replica thread.
pub(crate) enum Event {
    /// An input of the replica.
    Input(Input),
    /// A member that this node does not know; a known member confirmed it.
    Confirmed(Member),
    /// A frame of a peer, with its share of the inbound budget.
    Frame(NodeId, Vec<u8>, OwnedSemaphorePermit),
    /// A command of an administrator.
    Admin(AdminCommand, oneshot::Sender<Result<AdminReply, AdminError>>),
    /// Request for the index of all updates acknowledged so far. The answer is sent once this node has applied it.
    ReadIndex(oneshot::Sender<Result<u64, ReadIndexError>>),
    /// Request for the status. With zones, it walks over all of them.
    Status(WithZones, oneshot::Sender<Status>),
    /// Request for the secrets of a key. They are shown once the audit log has a record of the request.
    Secrets(Name, oneshot::Sender<Option<Secrets>>),
    /// Request for the options of a zone.
    ZoneOptions(ZoneId, oneshot::Sender<Option<ZoneOptions>>),
    /// Request for a frozen version of the served zones.
    Freeze(Box<dyn FnOnce(Frozen) + Send>),
    /// Another thread ran an event inline, and the replica has more work.
    Continue,
}

/// The secrets of a key, the newest first, and the receiver of the audit result.
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

/// A permit of a pending administrative command. It is released on drop, also if the client disconnects.
struct AdminPermit<'s>(&'s Shared);

impl Drop for AdminPermit<'_> {
    fn drop(&mut self) {
        self.0.admins.leave();
    }
}

/// The sending end of the queue to the replica thread. The queue is unbounded; each kind of sender has its own limit:
/// updates and commands here, frames by the budget of their channel, disk results by the jobs that the replica gave
/// out.
#[derive(Clone)]
pub(crate) struct ReplicaHandle {
    events: Sender<Event>,
    pub(super) shared: Arc<Shared>,
}

/// State that the replica thread shares with other threads.
#[derive(Default)]
pub(crate) struct Shared {
    /// Pending updates.
    pub(crate) updates: Gauge,
    /// Pending updates by key and zone.
    quota: Arc<FairQuota>,
    /// Pending administrative commands.
    pub(crate) admins: Gauge,
    /// Events in the queue.
    pub(crate) waiting: Gauge,
    /// The replica, locked by the thread that runs it.
    pub(super) combiner: Combiner<ReplicaThread>,
    rights: RwLock<Arc<Rights>>,
    /// The members of the cluster, for the connections between nodes.
    pub(super) membership: watch::Sender<Arc<Membership>>,
    /// Changes when queries see newer data.
    pub(crate) published: watch::Sender<u64>,
    /// The CAs, certificates and pinned keys of the cluster.
    pub(crate) trust: watch::Sender<Arc<Trust>>,
    /// The indexes that other nodes have applied, as far as this node knows.
    pub(crate) everywhere: watch::Sender<Everywhere>,
    /// The memory use of the zones.
    pub(crate) zone_memory: Arc<ZoneMemory>,
    /// The cluster's time.
    pub(crate) clock: ClusterClock,
    /// Addresses of members besides those in the state.
    pub(crate) hints: Arc<AddressHints>,
    /// Whether this node was removed.
    pub(crate) removal: Removal,
    /// Refused requests, for the audit log.
    pub(crate) refusals: RefusedLog,
}

/// The indexes that other nodes have applied.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Everywhere {
    /// The index applied by all nodes that may answer for zones with `ack = all-live`.
    pub(crate) of_rotation: u64,
    /// The index applied by all nodes that the leader can reach. They may answer for all other zones.
    pub(crate) reachable: u64,
}

impl Everywhere {
    /// Whether all nodes that may answer for a zone have applied this index. A node out of the rotation answers only
    /// for zones that need no lease.
    pub(crate) const fn shows(self, index: u64, is_leased: bool) -> bool {
        index <= if is_leased { self.of_rotation } else { self.reachable }
    }
}

impl Shared {
    pub(super) fn with_hints(hints: AddressHints) -> Arc<Self> {
        Arc::new(Self { hints: Arc::new(hints), ..Self::default() })
    }

    pub(super) fn set_everywhere(&self, index: u64, of_rotation: bool) {
        self.everywhere.send_modify(|known| match of_rotation {
            true => known.of_rotation = index,
            false => known.reachable = index,
        });
    }

    pub(super) fn set_rights(&self, rights: Rights) {
        let rights = Arc::new(rights);
        let before = std::mem::replace(&mut *self.rights.write().unwrap_or_else(PoisonError::into_inner), rights);
        // Dropping a hundred thousand keys takes a while, and must not delay the readers of the new ones.
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

    /// Sends an event. Returns false if the replica thread has ended.
    pub(crate) fn send(&self, event: Event) -> bool {
        self.shared.waiting.enter(usize::MAX);
        let sent = self.events.send(event).is_ok();
        if !sent {
            self.shared.waiting.leave();
        }
        sent
    }

    /// Runs an event on this thread if the replica is idle and nothing is queued. Otherwise sends it.
    pub(crate) fn run_inline(&self, event: Event) -> bool {
        match self.shared.combiner.run_inline(event, &self.shared.waiting, ReplicaThread::run_inline) {
            Ok(Work::None) => true,
            // The replica thread does the remaining work.
            Ok(Work::More) => self.send(Event::Continue),
            Err(event) => self.send(event),
        }
    }

    /// Runs an administrative command. `Busy` if too many are pending.
    pub(crate) async fn admin(&self, command: AdminCommand) -> Result<AdminReply, AdminError> {
        if !self.shared.admins.enter(ADMIN_PENDING_MAX) {
            return Err(AdminError::Busy);
        }
        let _permit = AdminPermit(&self.shared);
        let (sender, receiver) = oneshot::channel();
        let sent = self.send(Event::Admin(command, sender));
        // The replica has its own time limit; when its thread is gone the sender is dropped.
        if sent { receiver.await.unwrap_or(Err(AdminError::Unknown)) } else { Err(AdminError::NotProposed) }
    }

    /// The secrets of a key; `None` if there is no such key.
    pub(crate) async fn secrets(&self, key: Name) -> Option<Secrets> {
        let (sender, receiver) = oneshot::channel();
        if self.send(Event::Secrets(key, sender)) { receiver.await.ok()? } else { None }
    }

    /// Waits until all reachable nodes have applied what this node has applied, because the next client may query any
    /// of them. Waits only briefly for a node that lags; the command is done in any case.
    pub(crate) async fn everywhere(&self) {
        let _ = self.admin(AdminCommand::WaitAllLive).await;
    }

    /// Waits until this node has applied all updates acknowledged anywhere so far, as confirmed by a majority. A
    /// following read is linearizable. `None` if the replica thread has ended.
    pub(crate) async fn read_index(&self) -> Option<Result<u64, ReadIndexError>> {
        let (sender, receiver) = oneshot::channel();
        // The replica has its own limits, of time and of number.
        if self.send(Event::ReadIndex(sender)) { receiver.await.ok() } else { None }
    }

    /// The status of the replica; `None` if its thread has ended.
    pub(crate) async fn status(&self, zones: WithZones) -> Option<Status> {
        let (sender, receiver) = oneshot::channel();
        if self.send(Event::Status(zones, sender)) { receiver.await.ok() } else { None }
    }

    /// The options of a zone as this node has them; `None` if it has no such zone.
    pub(crate) async fn zone_options(&self, id: &ZoneId) -> Option<ZoneOptions> {
        let (sender, receiver) = oneshot::channel();
        if self.send(Event::ZoneOptions(id.clone(), sender)) { receiver.await.ok()? } else { None }
    }

    /// A frozen version of the served zones; `None` if the replica thread has ended.
    pub(crate) async fn frozen(&self) -> Option<Frozen> {
        let (sender, receiver) = oneshot::channel();
        let then = Box::new(move |frozen| {
            // The receiver may be gone.
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
            self.run_inline(event)
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

    fn reported_removed(&self, by: NodeId) {
        self.send(Event::Input(Input::ReportedRemoved { by }));
    }

    fn confirmed(&self, member: Member) {
        self.send(Event::Confirmed(member));
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
    fn a_key_is_limited_to_its_share_once_the_queue_is_half_full() {
        let (events, _queue) = channel();
        let handle = ReplicaHandle::new(events, Arc::default());
        let (much, half) = (flow("much.", "a.test."), UPDATES_PENDING_MAX / 2);
        let mut permits: Vec<QuotaPermit> = (0..half).map(|_| submit(&handle, &much).unwrap()).collect();
        assert!(matches!(submit(&handle, &much), Err(Refusal::ShareTaken)));
        // One of the two randomly chosen slots is not shared with another flow.
        let others = [flow("much.", "b.test."), flow("little.", "a.test.")];
        let counts = others.map(|other| {
            let taken: Vec<QuotaPermit> = std::iter::from_fn(|| submit(&handle, &other).ok()).collect();
            let count = taken.len();
            permits.extend(taken);
            count
        });
        assert!(counts.contains(&(UPDATES_PER_KEY_MAX as usize)), "{counts:?}");
        // A share is released when its updates are done.
        permits.drain(..half - UPDATES_PER_KEY_MAX as usize + 1);
        assert!(submit(&handle, &much).is_ok());
        // The total limit holds.
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
    fn zones_without_a_lease_wait_for_nodes_out_of_the_rotation() {
        let known = Everywhere { of_rotation: 9, reachable: 4 };
        assert!(known.shows(9, true) && !known.shows(10, true));
        assert!(known.shows(4, false) && !known.shows(5, false));
    }
}
