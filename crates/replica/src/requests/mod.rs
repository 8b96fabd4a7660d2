//! The receiving side of requests: keeps this replica's client requests until their outcomes are known.
//!
//! Any replica accepts an update. It forwards the update to the leader, repeatedly under one identity, and answers
//! once it has applied the entry itself. SERVFAIL means that this copy was certainly not proposed (RFC 2136 3.4.2,
//! `docs/internals/decisions/0014`). If that is uncertain, the client gets no answer and repeats its message.

pub(crate) mod admin;
mod reason;
mod seen;
mod step;
mod waiter;

pub(crate) use seen::SeenForwards;
pub(crate) use waiter::{Purpose, Waiter, Waiters};

use crate::command::{Answer, Command, Reception, UpdateCommand};
use crate::context::{Context, Outputs};
use crate::io::{AdminError, NodeId, Transport, UpdateRequest, Verdict};
use crate::limits::{FORWARD_AGAIN_MS, UPDATE_BYTES_MAX, UPDATE_WAIT_MS, UPDATES_WAITING_MAX};
use crate::machine::Applied;
use crate::peer::Frame;
use crate::propose::{Head, Origin};
use crate::rotation::Rotation;
use crate::state::{Identity, Known};
use crate::update::prescan;
use admin::AdminJobs;
use core::net::{IpAddr, SocketAddr};
use policy::Requestor;
use waiter::Client;
use wire::parse::{Parsed, parse_request};
use zone::ZoneId;

/// The source address that identifies the sender of a repeat. The port does not count, as knsupdate uses a new one each
/// time.
fn source_bytes(source: SocketAddr) -> [u8; 16] {
    match source.ip() {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// The requests of this member's clients: updates, and commands of administrators.
pub(crate) struct Requests {
    pub(crate) waiters: Waiters,
    pub(crate) admin: AdminJobs,
    /// Refusals whose reason may still be computed before the next tick.
    pub(crate) explanations_left: u32,
}

/// What requests read and write besides their own state.
pub(crate) struct Shared<'r> {
    pub(crate) context: Context<'r>,
    pub(crate) outputs: &'r mut Outputs,
    /// A leader queues the requests of its own clients.
    pub(crate) head: &'r mut Head,
    /// Outcomes may wait until all live members show them.
    pub(crate) rotation: &'r mut Rotation,
    /// Whether a record of the log is waiting for room on the disk.
    pub(crate) is_log_full: bool,
}

impl Requests {
    /// The first token is one that no earlier process used.
    pub(crate) fn new(first_token: u64) -> Self {
        Self { waiters: Waiters::new(first_token), admin: AdminJobs::default(), explanations_left: 0 }
    }

    /// Handles an update from a client. First checks whether it was executed before, because the answer to a repeat
    /// must not depend on later changes of the key's grants or of the zone.
    ///
    /// Returns the request if this replica's state refuses it. See [`Self::refuse_or_forward`].
    pub(crate) fn handle_update(&mut self, shared: &mut Shared<'_>, request: UpdateRequest) -> Option<UpdateRequest> {
        // This replica's state may be wrong, or its cluster may have continued without it.
        if shared.context.local.lifecycle.is_fenced() || shared.context.local.lifecycle.is_removed() {
            shared.outputs.verdict(request.request_id, Verdict::NotProposed);
            return None;
        }
        let source = source_bytes(request.source);
        let UpdateRequest { request_id, verified, .. } = &request;
        let request_id = *request_id;
        let key_name = verified.key_name.as_ref().to_canonical();
        match shared.context.machine.sessions.known(&verified.identity, &key_name, verified.time_signed, &source) {
            Known::Repeat(rcode) => {
                let applied = shared.context.machine.applied.0;
                let verdict = Verdict::Answer(rcode);
                shared.rotation.report_outcome(
                    &shared.context,
                    shared.outputs,
                    request_id,
                    verdict,
                    &request.message,
                    applied,
                );
                return None;
            }
            Known::BadTime => {
                shared.outputs.verdict(request_id, Verdict::BadTime);
                return None;
            }
            Known::New => {}
        }
        let client = Client { request_id, source };
        match self.waiters.join(&verified.identity, client) {
            Some(true) => return None,
            Some(false) => {
                shared.outputs.verdict(request_id, Verdict::Unknown);
                return None;
            }
            None => {}
        }
        if request.refused_for.is_some() {
            return Some(request);
        }
        self.forward_update(shared, request);
        None
    }

    /// Forwards an update to the leader after all local checks passed.
    fn forward_update(&mut self, shared: &mut Shared<'_>, request: UpdateRequest) {
        let UpdateRequest { request_id, source, message, verified, transport, refused_for: _, external } = request;
        let source = source_bytes(source);
        let client = Client { request_id, source };
        // A member whose log is full applies nothing, so it could not send its client the outcome.
        let takes_updates = !shared.context.local.lifecycle.is_stopping() && !shared.is_log_full;
        if self.waiters.len() >= UPDATES_WAITING_MAX || message.len() > UPDATE_BYTES_MAX || !takes_updates {
            return shared.outputs.verdict(request_id, Verdict::NotProposed);
        }
        let command = Command::Update(UpdateCommand {
            identity: verified.identity,
            key_name: verified.key_name.as_ref().to_canonical(),
            time_signed: verified.time_signed,
            fudge: verified.fudge,
            source,
            // A leader below that level knows neither; no rules can ask for external decisions there.
            reception: (shared.context.machine.settings.feature_level() >= 2)
                .then_some(Reception { transport, secret: verified.secret }),
            external,
            message,
        });
        let purpose = Purpose::Update { identity: verified.identity, clients: vec![client] };
        self.wait(shared, command, purpose, UPDATE_WAIT_MS);
    }

    /// All that was acknowledged when the update arrived is applied here; `false` if nobody confirmed that in time.
    pub(crate) fn refuse_or_forward(&mut self, shared: &mut Shared<'_>, request: UpdateRequest, is_confirmed: bool) {
        let UpdateRequest { request_id, verified, refused_for, .. } = &request;
        if !is_confirmed {
            return shared.outputs.verdict(*request_id, Verdict::NotProposed);
        }
        let is_refused = refused_for.as_ref().is_some_and(|zone| refuses(&shared.context, &request, zone));
        let source = source_bytes(request.source);
        let key_name = verified.key_name.as_ref().to_canonical();
        let known = shared.context.machine.sessions.known(&verified.identity, &key_name, verified.time_signed, &source);
        if is_refused && known == Known::New && self.waiters.of_identity(&verified.identity).is_none() {
            return shared.outputs.verdict(*request_id, Verdict::Refused);
        }
        self.handle_update(shared, UpdateRequest { refused_for: None, ..request });
    }

    /// Starts to wait for the outcome of a command, and sends it.
    pub(crate) fn wait(&mut self, shared: &mut Shared<'_>, command: Command, purpose: Purpose, wait_ms: u64) {
        let deadline_ms = shared.context.local.now.monotonic_ms + wait_ms;
        let token = self.waiters.insert(command, purpose, deadline_ms);
        self.dispatch(shared, token);
    }

    /// Sends a command to the leader, if one is known.
    fn dispatch(&mut self, shared: &mut Shared<'_>, token: u64) {
        let Some(waiter) = self.waiters.get_mut(token) else { return };
        let own = shared.context.driver.id();
        let leader = if shared.context.driver.is_leader() { Some(own) } else { shared.context.driver.leader() };
        let Some(leader) = leader else { return };
        let command = waiter.command.clone();
        // If a command may not be repeated while its outcome is unknown, its outcome is known once that term is over.
        let is_of_term =
            !waiter.may_repeat() && waiter.is_for_log() && shared.context.machine.settings.feature_level() >= 2;
        let term = is_of_term.then(|| shared.context.driver.term());
        let attempt = self.waiters.attempt(token, leader);
        if leader == own {
            let is_queued = shared.head.enqueue(Origin { peer: None, token: attempt }, command);
            self.sent(shared, token, leader, attempt, None);
            if !is_queued {
                self.handle_answer(shared, attempt, Answer::Overloaded);
            }
        } else {
            shared.outputs.send(leader, &Frame::Forward { token: attempt, term, command });
            self.sent(shared, token, leader, attempt, term);
        }
    }

    fn sent(&mut self, shared: &mut Shared<'_>, token: u64, leader: NodeId, attempt: u64, term: Option<u64>) {
        if let Some(waiter) = self.waiters.get_mut(token) {
            waiter.sent(leader, attempt, shared.context.local.now.monotonic_ms, term);
        }
    }

    /// Handles a peer's answer to an attempt. Only the peer that got the attempt can answer it.
    pub(crate) fn handle_peer_answer(&mut self, shared: &mut Shared<'_>, from: NodeId, attempt: u64, answer: Answer) {
        match self.waiters.responder_of(attempt) {
            Some(leader) if leader == from => self.handle_answer(shared, attempt, answer),
            Some(_) => shared.outputs.refuse(),
            // It was answered already.
            None => {}
        }
    }

    /// Handles the leader's answer to an attempt; the first answer counts.
    pub(crate) fn handle_answer(&mut self, shared: &mut Shared<'_>, attempt: u64, answer: Answer) {
        let Some(token) = self.waiters.answered(attempt) else { return };
        let Some(waiter) = self.waiters.get_mut(token) else { return };
        match answer {
            Answer::Proposed { .. }
                if planted!(AcknowledgedWhenProposed) && matches!(waiter.purpose, Purpose::Update { .. }) =>
            {
                return self.finish_update(shared, token, Verdict::Answer(wire::number::Rcode::NOERROR));
            }
            Answer::Proposed { index, term } => self.waiters.set_position(token, (index, term)),
            Answer::Joined { index, term, id } => {
                waiter.joined = Some(id);
                self.waiters.set_position(token, (index, term));
            }
            Answer::Done { index } => self.waiters.set_done_at(token, index),
            Answer::Repeat { rcode, index } => {
                waiter.rcode = Some(rcode);
                self.waiters.set_done_at(token, index);
            }
            Answer::BadTime => return self.bad_time(shared, token),
            Answer::NotProposed => return self.waiters.not_proposed(token),
            Answer::Overloaded => return self.overloaded(shared, token),
            Answer::Refused(error) => return self.refused(shared, token, error),
        }
        self.settle(shared, token);
    }

    /// The leader refuses this attempt. That ends a command; another attempt at an update may still be carried out.
    fn refused(&mut self, shared: &mut Shared<'_>, token: u64, error: AdminError) {
        self.waiters.not_proposed(token);
        let Some(waiter) = self.waiters.get(token) else { return };
        match waiter.purpose {
            Purpose::Update { .. } if waiter.is_certainly_not_proposed() => {
                // For an update, a leader sends this error only for lack of memory.
                let is_short = error == AdminError::TooLarge;
                self.finish_update(shared, token, if is_short { Verdict::NoMemory } else { Verdict::NotProposed });
            }
            Purpose::Update { .. } => {}
            Purpose::Admin(step) => {
                self.waiters.remove(token);
                self.admin_step_done(shared, step, Err(error));
            }
        }
    }

    /// The leader has no room for this attempt. If no other attempt at the update can be open, the update is refused
    /// immediately, because repeated attempts would prolong an overload. Commands are repeated: there are few of
    /// them.
    fn overloaded(&mut self, shared: &mut Shared<'_>, token: u64) {
        self.waiters.not_proposed(token);
        let Some(waiter) = self.waiters.get(token) else { return };
        if waiter.is_certainly_not_proposed() && matches!(waiter.purpose, Purpose::Update { .. }) {
            shared.outputs.counters.updates_overloaded += 1;
            self.finish_update(shared, token, Verdict::NotProposed);
        }
    }

    /// The leader executed the update for another address than the first. Clients at the first address are told. A
    /// client at another address may be the original sender, so its copy is sent anew.
    fn bad_time(&mut self, shared: &mut Shared<'_>, token: u64) {
        let Some(waiter) = self.waiters.get_mut(token) else { return };
        let (Purpose::Update { clients, .. }, Command::Update(command)) = (&mut waiter.purpose, &mut waiter.command)
        else {
            return;
        };
        let (others, rest): (Vec<_>, Vec<_>) = clients.iter().partition(|client| client.source == command.source);
        let Some(next) = rest.first().map(|client: &Client| client.source).filter(|_| !others.is_empty()) else {
            return self.finish_update(shared, token, Verdict::BadTime);
        };
        command.source = next;
        *clients = rest;
        self.waiters.not_proposed(token);
        self.waiters.forget_attempts(token);
        for Client { request_id, .. } in others {
            shared.outputs.verdict(request_id, Verdict::BadTime);
        }
        self.dispatch(shared, token);
    }

    /// Settles a waiter whose position or index is applied here.
    fn settle(&mut self, shared: &mut Shared<'_>, token: u64) {
        let Some(waiter) = self.waiters.get(token) else { return };
        let applied = shared.context.machine.applied.0;
        if let Some((index, term)) = waiter.position()
            && index <= applied
        {
            return match shared.context.driver.log().term(index) {
                Ok(there) if there == term => self.settled(shared, token),
                Ok(_) => self.lost(shared, token),
                // A checkpoint replaced that part of the log.
                Err(_) => self.unsettled(shared, token),
            };
        }
        if waiter.done_at().is_some_and(|index| index <= applied) {
            return self.settled(shared, token);
        }
        if waiter.is_superseded(shared.context.machine.applied) {
            self.lost(shared, token);
        }
    }

    /// Settles all waiters whose position or index is applied, or can no longer be.
    fn settle_due(&mut self, shared: &mut Shared<'_>) {
        let applied = shared.context.machine.applied;
        for token in self.waiters.never_proposed(applied.1) {
            self.waiters.forget_attempts(token);
            self.lost(shared, token);
        }
        for token in self.waiters.due(applied.0) {
            self.settle(shared, token);
        }
        for token in self.waiters.superseded(applied) {
            self.settle(shared, token);
        }
    }

    /// The command is done and applied here.
    fn settled(&mut self, shared: &mut Shared<'_>, token: u64) {
        let Some(waiter) = self.waiters.get(token) else { return };
        match &waiter.purpose {
            Purpose::Update { identity, .. } => {
                let session = shared.context.machine.sessions.get(identity, waiter.time_signed());
                let rcode = session.map(|session| session.rcode).or(waiter.rcode);
                match rcode {
                    Some(rcode) => self.finish_update(shared, token, Verdict::Answer(rcode)),
                    // It was applied and already evicted from the table, or it did not fit.
                    None => self.finish_update(shared, token, Verdict::Unknown),
                }
            }
            Purpose::Admin(_) => {
                let unchanged = waiter.position().is_none();
                if let Some(Waiter { purpose: Purpose::Admin(step), joined, .. }) = self.waiters.remove(token) {
                    self.admin_step_done(shared, step, Ok((unchanged, joined)));
                }
            }
        }
    }

    /// A command's position left the log before it could be checked. For an update its session tells the outcome;
    /// without a session it is sent again. For anything else the outcome is unknown.
    fn unsettled(&mut self, shared: &mut Shared<'_>, token: u64) {
        self.waiters.clear_position(token);
        let Some(waiter) = self.waiters.get(token) else { return };
        match &waiter.purpose {
            Purpose::Update { identity, .. } => {
                if let Some(session) = shared.context.machine.sessions.get(identity, waiter.time_signed()) {
                    self.finish_update(shared, token, Verdict::Answer(session.rcode));
                }
            }
            Purpose::Admin(_) => {
                if let Some(Waiter { purpose: Purpose::Admin(step), .. }) = self.waiters.remove(token) {
                    self.admin_step_expired(shared, step, false);
                }
            }
        }
    }

    /// A checkpoint replaced the state, so everything in it is settled. It does not tell whose entries it holds.
    pub(crate) fn settle_installed(&mut self, shared: &mut Shared<'_>) {
        shared.rotation.report_lease(&shared.context, shared.outputs);
        self.waiters.forget_terms();
        self.settle_due(shared);
    }

    /// Another entry is or will be at this position, or the command has none: it was certainly not executed.
    fn lost(&mut self, shared: &mut Shared<'_>, token: u64) {
        self.waiters.not_proposed(token);
        self.dispatch(shared, token);
    }

    /// Reports an applied and published entry to the clients that wait for it.
    pub(crate) fn settle_applied(&mut self, shared: &mut Shared<'_>, applied: Vec<(u64, Applied)>) {
        for (index, applied) in applied {
            match applied {
                Applied::Update { identity, rcode } => {
                    self.finish_identity(shared, &identity, Verdict::Answer(rcode), index)
                }
                // It did not fit and was not executed, unless another entry had done it.
                Applied::Mismatch { identity: Some(identity) } => {
                    let waiter = self.waiters.of_identity(&identity).and_then(|token| self.waiters.get(token));
                    let signed = waiter.map(Waiter::time_signed);
                    let executed = signed.and_then(|signed| shared.context.machine.sessions.get(&identity, signed));
                    let verdict = executed.map_or(Verdict::NotProposed, |session| Verdict::Answer(session.rcode));
                    self.finish_identity(shared, &identity, verdict, index);
                }
                Applied::Mismatch { identity: None } | Applied::Settings(_) | Applied::Other | Applied::Full => {}
            }
        }
        self.settle_due(shared);
    }

    fn finish_identity(&mut self, shared: &mut Shared<'_>, identity: &Identity, verdict: Verdict, index: u64) {
        if let Some(token) = self.waiters.of_identity(identity) {
            self.finish_update_at(shared, token, verdict, index);
        }
    }

    fn finish_update(&mut self, shared: &mut Shared<'_>, token: u64, verdict: Verdict) {
        self.finish_update_at(shared, token, verdict, shared.context.machine.applied.0);
    }

    /// Answers all clients of an update that was done at this index or earlier. Only the address that the update was
    /// executed for gets the outcome.
    fn finish_update_at(&mut self, shared: &mut Shared<'_>, token: u64, verdict: Verdict, index: u64) {
        let Some(waiter) = self.waiters.remove(token) else { return };
        let signed = waiter.time_signed();
        let Purpose::Update { identity, clients } = waiter.purpose else { return };
        let verdict = self.explained(shared, verdict, &waiter.command);
        let message = if let Command::Update(update) = waiter.command { update.message } else { Default::default() };
        let executed_for = shared.context.machine.sessions.get(&identity, signed).map(|session| session.source);
        for Client { request_id, source } in clients {
            let is_other = executed_for.is_some_and(|executed_for| executed_for != source);
            let verdict = if is_other { Verdict::BadTime } else { verdict };
            shared.rotation.report_outcome(&shared.context, shared.outputs, request_id, verdict, &message, index);
        }
    }

    /// Repeats commands that the leader does not have, and gives up after their deadline.
    pub(crate) fn tick_waiters(&mut self, shared: &mut Shared<'_>) {
        let now = shared.context.local.now.monotonic_ms;
        for token in self.waiters.expired(now) {
            let Some(waiter) = self.waiters.get(token) else { continue };
            let is_certain = waiter.is_certainly_not_proposed();
            match &waiter.purpose {
                Purpose::Update { .. } => {
                    let verdict = if is_certain || planted!(ServfailForUnknown) {
                        Verdict::NotProposed
                    } else {
                        Verdict::Unknown
                    };
                    self.finish_update(shared, token, verdict);
                }
                Purpose::Admin(_) => {
                    if let Some(Waiter { purpose: Purpose::Admin(step), .. }) = self.waiters.remove(token) {
                        self.admin_step_expired(shared, step, is_certain);
                    }
                }
            }
        }
        let leader = if shared.context.driver.is_leader() {
            Some(shared.context.driver.id())
        } else {
            shared.context.driver.leader()
        };
        for token in self.waiters.to_send(leader, now, FORWARD_AGAIN_MS) {
            self.dispatch(shared, token);
        }
    }
}

/// Whether the applied state forbids an update. The leader checks the same at evaluation.
fn refuses(context: &Context<'_>, request: &UpdateRequest, id: &ZoneId) -> bool {
    let published = context.machine.zones.published();
    let Some(zone) = published.zone(id).filter(|zone| !zone.is_presigned()) else { return true };
    let key = request.verified.key_name.as_ref().to_canonical();
    let requestor =
        Requestor { key: key.as_ref(), source: request.source.ip(), is_connected: request.transport == Transport::Tcp };
    let evaluator = context.machine.settings.rules(&key, id).evaluator(requestor).with_external(&request.external);
    let Parsed::Request(parsed) = parse_request(&request.message) else { return false };
    // The leader answers errors of form.
    let Ok(parsed) = prescan(&parsed) else { return !evaluator.may_grant() };
    evaluator.permit(&parsed.steps, request.message.len(), Some(&zone)).is_err()
}
