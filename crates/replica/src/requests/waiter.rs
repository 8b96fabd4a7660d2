//! Requests that wait for the outcome of an update or a command.

use super::step::AdminStep;
use crate::command::Command;
use crate::entry::{Body, PinChange, SettingsChange, TrustChange};
use crate::io::NodeId;
use crate::limits::UPDATE_CLIENTS_MAX;
use crate::state::Identity;
use std::collections::{BTreeMap, BTreeSet};
use wire::number::Rcode;

/// A client that sent an update.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    pub(crate) request_id: u64,
    pub(crate) source: [u8; 16],
}

/// The purpose of a command.
#[derive(Debug)]
pub(crate) enum Purpose {
    /// An update, with all clients that sent it.
    Update { identity: Identity, clients: Vec<Client> },
    /// A step of an administrator's command.
    Admin(AdminStep),
}

/// A command without an outcome yet.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) command: Command,
    pub(crate) purpose: Purpose,
    deadline_ms: u64,
    /// The leader that got it last, and when; `None` if none has it.
    sent: Option<(NodeId, u64)>,
    /// Numbers of all attempts.
    attempts: Vec<u64>,
    /// Attempts with an unknown outcome.
    open_count: u32,
    /// The only term in which a leader puts its only open attempt into the log, if it is known.
    term: Option<u64>,
    /// Its position in the log: index and term.
    position: Option<(u64, u64)>,
    /// It was executed at this index or earlier.
    done_at: Option<u64>,
    pub(crate) rcode: Option<Rcode>,
    pub(crate) joined: Option<NodeId>,
}

impl Waiter {
    pub(crate) const fn position(&self) -> Option<(u64, u64)> {
        self.position
    }

    pub(crate) const fn done_at(&self) -> Option<u64> {
        self.done_at
    }

    /// Whether an applied entry of a later term took the place of its log position.
    pub(crate) fn is_superseded(&self, (index, term): (u64, u64)) -> bool {
        self.position.is_some_and(|(position, of_term)| position > index && of_term < term)
    }

    /// The time at which an update was signed, for finding its session; zero for other commands.
    pub(crate) const fn time_signed(&self) -> u64 {
        match &self.command {
            Command::Update(update) => update.time_signed,
            _ => 0,
        }
    }

    /// The first index at which it must be checked.
    fn due_at(&self) -> Option<u64> {
        let position = self.position.map(|(index, _)| index);
        [position, self.done_at].into_iter().flatten().min()
    }

    pub(crate) fn sent(&mut self, to: NodeId, attempt: u64, now_ms: u64, term: Option<u64>) {
        self.term = term.filter(|_| self.open_count == 0);
        self.sent = Some((to, now_ms));
        self.attempts.push(attempt);
        self.open_count += 1;
    }

    fn not_proposed(&mut self) {
        self.open_count = self.open_count.saturating_sub(1);
        self.sent = None;
        self.position = None;
        self.term = None;
    }

    pub(crate) const fn is_certainly_not_proposed(&self) -> bool {
        self.open_count == 0
    }

    /// Whether it may be sent again while its outcome is unknown. A repeat must change nothing, even if other commands
    /// were executed in between. Most commands do not qualify: another administrator may have undone the first
    /// attempt, and a repeat would restore a removed key, a revoked right or replaced rules. Those commands are sent
    /// again only if they were certainly not proposed.
    pub(super) fn may_repeat(&self) -> bool {
        match &self.command {
            // An update has an identity, so it is executed once.
            Command::Update(_) => true,
            Command::Propose(body) => matches!(body, Body::ImportBegin(_) | Body::ImportChunk(_)),
            // The member may have given up on this key and use another one.
            Command::Settings(SettingsChange::Trust(TrustChange::Pin { change: PinChange::Only(_), .. })) => false,
            // Levels and numbers only rise, and a member repeats its report until it is applied.
            Command::Settings(SettingsChange::FeatureLevel { .. } | SettingsChange::Trust(_)) => true,
            Command::Settings(_) | Command::ZoneSet { .. } | Command::KeyRoll { .. } | Command::PolicySet { .. } => {
                planted!(CommandSentAgain)
            }
            // It changes nothing.
            Command::WaitAllLive { .. } => true,
            Command::NodeAdd { .. } | Command::NodeRemove { .. } | Command::TransferLeader { .. } => false,
        }
    }

    /// Whether the leader only puts it into the log.
    pub(super) const fn is_for_log(&self) -> bool {
        !matches!(self.command, Command::TransferLeader { .. } | Command::WaitAllLive { .. })
    }

    fn is_due(&self, leader: NodeId, now_ms: u64, again_ms: u64) -> bool {
        match self.sent {
            None => self.open_count == 0 || self.may_repeat(),
            Some((to, at_ms)) => self.may_repeat() && (to != leader || now_ms >= at_ms + again_ms),
        }
    }
}

/// All waiting commands, by token.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    waiters: BTreeMap<u64, Waiter>,
    /// Waiters with a known position or index, by the index at which they must be checked. So applying a batch need
    /// not scan all waiters.
    due: BTreeSet<(u64, u64)>,
    /// Waiters without a known position.
    without_position: BTreeSet<u64>,
    /// All waiters, by deadline.
    deadlines: BTreeSet<(u64, u64)>,
    identities: BTreeMap<Identity, u64>,
    /// Unanswered attempts, each with its token and the leader that must answer. Each is answered once, so a repeated
    /// answer counts once.
    attempts: BTreeMap<u64, (u64, NodeId)>,
    next_token: u64,
    /// The latest term of an entry that was applied.
    applied_term: u64,
}

impl Waiters {
    /// Starts with a token that no earlier process used, so that late answers match no new waiter.
    pub(crate) fn new(first_token: u64) -> Self {
        Self { next_token: first_token, ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Whether clients wait for updates.
    pub(crate) fn has_updates(&self) -> bool {
        !self.identities.is_empty()
    }

    const fn draw(&mut self) -> u64 {
        let number = self.next_token;
        self.next_token = number.wrapping_add(1);
        number
    }

    /// The number of an attempt without a waiter.
    pub(crate) const fn token_without_waiter(&mut self) -> u64 {
        self.draw()
    }

    /// The number of a new attempt for `token`, which the answer of that leader names.
    pub(crate) fn attempt(&mut self, token: u64, leader: NodeId) -> u64 {
        let attempt = self.draw();
        self.attempts.insert(attempt, (token, leader));
        attempt
    }

    /// The leader that must answer an attempt, if it has not answered yet.
    pub(crate) fn responder_of(&self, attempt: u64) -> Option<NodeId> {
        self.attempts.get(&attempt).map(|&(_, leader)| leader)
    }

    /// Marks an attempt as answered; returns its token, unless it was answered before or its waiter is gone.
    pub(crate) fn answered(&mut self, attempt: u64) -> Option<u64> {
        self.attempts.remove(&attempt).map(|(token, _)| token)
    }

    pub(crate) fn insert(&mut self, command: Command, purpose: Purpose, deadline_ms: u64) -> u64 {
        let token = self.draw();
        if let Purpose::Update { identity, .. } = &purpose {
            self.identities.insert(*identity, token);
        }
        let waiter = Waiter {
            command,
            purpose,
            deadline_ms,
            sent: None,
            attempts: Vec::new(),
            open_count: 0,
            term: None,
            position: None,
            done_at: None,
            rcode: None,
            joined: None,
        };
        self.waiters.insert(token, waiter);
        self.without_position.insert(token);
        self.deadlines.insert((deadline_ms, token));
        token
    }

    /// The leader put it at this position of the log.
    pub(crate) fn set_position(&mut self, token: u64, position: (u64, u64)) {
        self.change(token, |waiter| waiter.position = Some(position));
    }

    /// It was done at this index or earlier.
    pub(crate) fn set_done_at(&mut self, token: u64, index: u64) {
        self.change(token, |waiter| waiter.done_at = Some(index));
    }

    /// Its position is no longer known.
    pub(crate) fn clear_position(&mut self, token: u64) {
        self.change(token, |waiter| waiter.position = None);
    }

    /// An attempt was certainly not proposed, or is certainly lost.
    pub(crate) fn not_proposed(&mut self, token: u64) {
        self.change(token, Waiter::not_proposed);
    }

    /// Changes a waiter and keeps the index of due waiters up to date.
    fn change(&mut self, token: u64, change: impl FnOnce(&mut Waiter)) {
        let Some(waiter) = self.waiters.get_mut(&token) else { return };
        let before = waiter.due_at();
        change(waiter);
        let after = waiter.due_at();
        if before != after {
            self.take_out(token, before);
            match after {
                Some(index) => _ = self.due.insert((index, token)),
                None => _ = self.without_position.insert(token),
            }
        }
    }

    fn take_out(&mut self, token: u64, due_at: Option<u64>) {
        match due_at {
            Some(index) => _ = self.due.remove(&(index, token)),
            None => _ = self.without_position.remove(&token),
        }
    }

    /// Adds a client to a request on its way; `None` if it is not on its way, `Some(false)` if too many clients wait
    /// for it.
    pub(crate) fn join(&mut self, identity: &Identity, client: Client) -> Option<bool> {
        let token = self.identities.get(identity)?;
        let Purpose::Update { clients, .. } = &mut self.waiters.get_mut(token)?.purpose else { return None };
        let has_room = clients.len() < UPDATE_CLIENTS_MAX;
        if has_room {
            clients.push(client);
        }
        Some(has_room)
    }

    /// Later answers to earlier attempts do not count; unknown outcomes stay unknown.
    pub(crate) fn forget_attempts(&mut self, token: u64) {
        let attempts = self.waiters.get_mut(&token).map(|waiter| core::mem::take(&mut waiter.attempts));
        for attempt in attempts.into_iter().flatten() {
            self.attempts.remove(&attempt);
        }
    }

    pub(crate) fn get(&self, token: u64) -> Option<&Waiter> {
        self.waiters.get(&token)
    }

    pub(crate) fn get_mut(&mut self, token: u64) -> Option<&mut Waiter> {
        self.waiters.get_mut(&token)
    }

    pub(crate) fn of_identity(&self, identity: &Identity) -> Option<u64> {
        self.identities.get(identity).copied()
    }

    pub(crate) fn remove(&mut self, token: u64) -> Option<Waiter> {
        let waiter = self.waiters.remove(&token)?;
        self.take_out(token, waiter.due_at());
        self.deadlines.remove(&(waiter.deadline_ms, token));
        for attempt in &waiter.attempts {
            self.attempts.remove(attempt);
        }
        if let Purpose::Update { identity, .. } = &waiter.purpose {
            self.identities.remove(identity);
        }
        Some(waiter)
    }

    /// Waiters whose position or index is at most `index`.
    pub(crate) fn due(&self, index: u64) -> Vec<u64> {
        in_order(self.due.range(..=(index, u64::MAX)).map(|&(_, token)| token))
    }

    /// Waiters whose position has an older term than an applied entry and a higher index; each is returned once.
    /// Terms in a log never decrease, and every later leader has that entry, so no entry of an older term can follow
    /// it.
    pub(crate) fn superseded(&mut self, (index, term): (u64, u64)) -> Vec<u64> {
        // Once per term. A position that is learned later is checked then.
        if term <= self.applied_term {
            return Vec::new();
        }
        self.applied_term = term;
        let behind = self.due.range((index + 1, 0)..).map(|&(_, token)| token);
        let is_void = |token: &u64| self.waiters.get(token).is_some_and(|waiter| waiter.is_superseded((index, term)));
        in_order(behind.filter(is_void))
    }

    /// Waiters without a position whose attempt was for the leader of an older term than an applied entry's. All
    /// surviving entries of that leader are applied here and were checked. Called before [`Waiters::superseded`]; each
    /// waiter is returned once.
    pub(crate) fn never_proposed(&self, term: u64) -> Vec<u64> {
        // Once per term. Later commands are sent to the leader of that term or of a later one.
        if term <= self.applied_term {
            return Vec::new();
        }
        let is_over = |waiter: &Waiter| waiter.term.is_some_and(|of| of < term) && waiter.open_count == 1;
        let without_position = self.without_position.iter().copied();
        without_position.filter(|token| self.waiters.get(token).is_some_and(is_over)).collect()
    }

    /// Entries were applied without being checked.
    pub(crate) fn forget_terms(&mut self) {
        self.waiters.values_mut().for_each(|waiter| waiter.term = None);
    }

    pub(crate) fn expired(&self, now_ms: u64) -> Vec<u64> {
        in_order(self.deadlines.range(..=(now_ms, u64::MAX)).map(|&(_, token)| token))
    }

    /// Waiters that this leader does not have.
    pub(crate) fn to_send(&self, leader: Option<NodeId>, now_ms: u64, again_ms: u64) -> Vec<u64> {
        let Some(leader) = leader else { return Vec::new() };
        let is_due = |waiter: &Waiter| waiter.is_due(leader, now_ms, again_ms);
        let without_position = self.without_position.iter().copied();
        without_position.filter(|token| self.waiters.get(token).is_some_and(is_due)).collect()
    }
}

/// In the order of arrival.
fn in_order(tokens: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut tokens: Vec<u64> = tokens.collect();
    tokens.sort_unstable();
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::UpdateCommand;
    use proptest::prelude::*;

    /// The result of scanning all waiters.
    fn scanned(waiters: &Waiters, is_wanted: impl Fn(&Waiter) -> bool) -> Vec<u64> {
        waiters.waiters.iter().filter(|(_, waiter)| is_wanted(waiter)).map(|(&token, _)| token).collect()
    }

    fn update(number: u8) -> (Command, Purpose) {
        let identity = [number; 16];
        let command = Command::Update(UpdateCommand {
            external: Default::default(),
            reception: None,
            identity,
            key_name: "key.".parse().unwrap(),
            time_signed: 0,
            fudge: 300,
            source: [0; 16],
            message: Vec::new(),
        });
        (command, Purpose::Update { identity, clients: Vec::new() })
    }

    proptest! {
        /// The indexes always find the same waiters as a scan of all.
        #[test]
        fn indexes_find_the_same_waiters_as_a_scan(
            steps in proptest::collection::vec((0u8..8, 0u64..12, 0u64..20), 0..120),
        ) {
            let mut waiters = Waiters::new(u64::MAX - 20);
            let mut tokens = Vec::new();
            for (number, (step, which, value)) in steps.into_iter().enumerate() {
                let token = tokens.get(which as usize % tokens.len().max(1)).copied().unwrap_or(0);
                match step {
                    0 | 1 => {
                        let (command, purpose) = update(number as u8);
                        tokens.push(waiters.insert(command, purpose, value));
                    }
                    2 => waiters.set_position(token, (value, 1)),
                    3 => waiters.set_done_at(token, value),
                    4 => waiters.not_proposed(token),
                    5 => waiters.clear_position(token),
                    6 => {
                        // A position that is learned after the term began is checked then.
                        let superseded = |waiter: &Waiter| waiter.position.is_some_and(|(position, _)| position > value)
                            && waiter.due_at() > Some(value);
                        let expected = scanned(&waiters, superseded);
                        prop_assert_eq!(waiters.superseded((value, 2)), expected);
                        waiters.applied_term = 0;
                    }
                    _ => _ = waiters.remove(token),
                }
                let due = |waiter: &Waiter| {
                    waiter.position.is_some_and(|(position, _)| position <= value)
                        || waiter.done_at.is_some_and(|done| done <= value)
                };
                prop_assert_eq!(waiters.due(value), scanned(&waiters, due));
                prop_assert_eq!(waiters.expired(value), scanned(&waiters, |waiter| value >= waiter.deadline_ms));
                let without_position = |waiter: &Waiter| waiter.position.is_none() && waiter.done_at.is_none();
                prop_assert_eq!(waiters.to_send(Some(1), 0, 0), scanned(&waiters, without_position));
                prop_assert_eq!(waiters.deadlines.len(), waiters.len());
                prop_assert_eq!(waiters.due.len() + waiters.without_position.len(), waiters.len());
            }
        }
    }
}
