//! The handle that other threads use to send events to the replica thread.

use super::event::{Event, Secrets, WithZones};
use super::replica_thread::{ReplicaThread, Work};
use super::shared::Shared;
use crate::answer::counters::Refusal;
use crate::audit_log::refused::RefusedLog;
use crate::combiner::Combiner;
use crate::limits::{ADMIN_PENDING_MAX, UPDATES_PENDING_MAX, UPDATES_PER_KEY_MAX};
use crate::published::rights::Rights;
use crate::update::{Flow, Submit};
use crate::update_queue::fair_quota::QuotaPermit;
use replica::Status;
use replica::io::{AdminCommand, AdminError, AdminReply, Input, ReadIndexError, UpdateRequest, ZoneOptions};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use tokio::sync::oneshot;
use wire::Name;
use zone::record::ZoneId;
use zone::set::Frozen;

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
    pub(crate) shared: Arc<Shared>,
    /// The replica, locked by the thread that runs it.
    pub(crate) combiner: Arc<Combiner<ReplicaThread>>,
}

impl ReplicaHandle {
    pub(crate) fn new(events: Sender<Event>, shared: Arc<Shared>) -> Self {
        Self { events, shared, combiner: Arc::default() }
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
        match self.combiner.run_inline(event, &self.shared.waiting, ReplicaThread::run_inline) {
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
        self.freeze().await.ok()
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

    fn freeze(&self) -> oneshot::Receiver<Frozen> {
        let (sender, receiver) = oneshot::channel();
        self.send(Event::Freeze(sender));
        receiver
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::DaemonAnswers;
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
            external: DaemonAnswers::default(),
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
}
