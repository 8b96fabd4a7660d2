//! The administrator: imports, replaces and removes zones, changes options, keys and policies, takes the clients' right
//! to update away for a while, gives votes and takes them, lets members join and go, hands the leadership over, one
//! command after the other, through any member. And those who ask for linearizable reads.

use crate::commands::{LARGE, Next};
use crate::decided::DecidedSettings;
use crate::membership;
use crate::policies::POLICIES;
use crate::rng::Rng;
use crate::simulation::{Event, Simulation};
use crate::swarm::{CommandKind, Swarm};
use crate::updates::{
    self, FIRST_SERIAL, KEY, OTHER_KEY, RULED_KEY, SECRETS, apex_records, churn_zone, main_records, main_zone, name,
};
use replica::io::{AckOption, AdminCommand, AdminError, AdminReply, Contents, Input, NodeId, Right, ZoneOptions};
use tsig::KeyAlgorithm;
use wire::number::Rtype;
use zone::Record;

/// Pause between two commands.
const PAUSE_US: (u64, u64) = (100_000, 900_000);
/// Pause between two reads.
const READ_PAUSE_US: (u64, u64) = (20_000, 200_000);
/// Commands that are about members, in parts of a million, in runs that have such.
const MEMBERS_PPM: u64 = 450_000;

/// The administrator, and the command that is under way.
pub(crate) struct Administrator {
    current: Option<Current>,
    /// The command in progress.
    in_flight: Option<AdminCommand>,
    /// Settings whose value is known from the outcomes of commands.
    decided: DecidedSettings,
    /// The clients' key may have lost its grant.
    is_revoked: bool,
    /// It was so at some time.
    was_revoked: bool,
    /// The policy that is asked for next, or was last.
    policy: u64,
    /// The clients' key is known to have its second secret.
    is_rolled: bool,
    /// The first may be void: that was asked for.
    is_retired: bool,
    rng: Rng,
}

/// A zone by its apex, and how many records it has when the command is done; `None`: it is gone.
pub(crate) type ZoneAim = (String, Option<u64>);

struct Current {
    request_id: u64,
    to: NodeId,
    zone: Option<ZoneAim>,
    /// Whether only this command can have led to that.
    is_news: bool,
    /// Whether no other command follows by itself.
    is_single: bool,
    /// Whether it gives the clients' key its grant.
    grants: bool,
    /// Whether it takes somebody's vote.
    takes_vote: bool,
    /// The policy that it sets.
    policy: Option<u64>,
    /// Whether it gives the clients' key its second secret.
    rolls: bool,
    /// Whether the command turns `ack = all-live` on or off for the clients' zone; `None` for other commands.
    ack: Option<bool>,
}

/// What the clients' key may do.
pub(crate) fn grant() -> AdminCommand {
    AdminCommand::Grant { key: name(KEY), zone: None, right: Right::Update }
}

pub(crate) fn revoke() -> AdminCommand {
    AdminCommand::Revoke { key: name(KEY), zone: None, right: Right::Update }
}

impl Administrator {
    pub(crate) fn new(rng: Rng) -> Self {
        Self {
            current: None,
            in_flight: None,
            decided: DecidedSettings::default(),
            is_revoked: false,
            was_revoked: false,
            policy: 0,
            is_rolled: false,
            is_retired: false,
            rng,
        }
    }

    /// Whether the clients' key is not known to have its grant.
    pub(crate) const fn is_revoked(&self) -> bool {
        self.is_revoked
    }

    /// Whether the clients' key may have been without its grant at any time.
    pub(crate) const fn was_revoked(&self) -> bool {
        self.was_revoked
    }

    /// What clients sign with: the second secret as soon as it is known to be there, and so before the first is void.
    pub(crate) const fn secret(&self) -> &'static [u8] {
        SECRETS[self.is_rolled as usize]
    }

    /// Whether an update of the clients' key that was signed so may be refused, since that is no secret of the key any
    /// more: the node that took it did not know yet, the leader did.
    pub(crate) fn may_have_voided(&self, secret: &[u8]) -> bool {
        self.is_retired && secret == SECRETS[0]
    }

    fn note_settled(&mut self, is_done: Option<bool>) {
        let in_flight = self.in_flight.take();
        in_flight.iter().for_each(|command| self.decided.settled(command, is_done));
    }

    /// Settings whose value is known from the outcomes of commands.
    pub(crate) const fn decided(&self) -> &DecidedSettings {
        &self.decided
    }

    /// Whether the clients' key certainly has its second secret.
    pub(crate) const fn is_rolled(&self) -> bool {
        self.is_rolled
    }

    /// Chooses the next policy to request.
    pub(crate) fn choose_policy(&mut self, salt: u8) -> u64 {
        self.policy = u64::from(salt) % POLICIES;
        self.policy
    }

    /// Chooses the kind of the next command.
    pub(crate) fn pick_kind(&mut self, swarm: &Swarm) -> Option<CommandKind> {
        swarm.pick_command(&mut self.rng)
    }

    /// Random bytes to seal a secret.
    pub(crate) fn nonce(&mut self) -> [u8; 12] {
        self.rng.bytes()
    }

    /// A number below `below`.
    pub(crate) fn draw(&mut self, below: u64) -> u64 {
        self.rng.below(below)
    }

    /// One of these.
    pub(crate) fn pick(&mut self, ids: &[NodeId]) -> Option<NodeId> {
        self.rng.pick(ids).copied()
    }

    /// Whether a command that takes away a vote is in progress.
    pub(crate) fn takes_vote(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.takes_vote)
    }

    /// Whether a command waits for its outcome.
    pub(crate) fn is_busy(&self) -> bool {
        self.current.is_some()
    }
}

/// Returns whether a command sets `ack = all-live` for the clients' zone; `None` if it does not set `ack`.
fn ack_of_main(command: &AdminCommand) -> Option<bool> {
    match command {
        AdminCommand::SetZoneOptions { zone, change } if *zone == main_zone() => {
            change.ack.map(|ack| ack == AckOption::AllLive)
        }
        _ => None,
    }
}

/// What a cluster is prepared with before anything goes wrong, in order.
pub(crate) fn preparations(all_live: bool) -> Vec<AdminCommand> {
    let ack = if all_live { AckOption::AllLive } else { AckOption::Majority };
    let zone = main_zone();
    let contents = Contents::new(&zone, main_records()).expect("the zone that updates are sent to is a zone");
    let churn = apex_records("churn.test.", FIRST_SERIAL);
    let churn = Contents::new(&churn_zone(), churn).expect("the zone of the model is a zone");
    let key = |key: &str, nonce| AdminCommand::AddKey {
        name: name(key),
        algorithm: KeyAlgorithm::HmacSha256,
        secret: SECRETS[0].to_vec(),
        nonce: [nonce; 12],
    };
    vec![
        AdminCommand::AddZone { zone, options: ZoneOptions { ack, ..ZoneOptions::default() }, contents },
        AdminCommand::AddZone { zone: churn_zone(), options: ZoneOptions::default(), contents: churn },
        key(KEY, 1),
        key(OTHER_KEY, 2),
        key(RULED_KEY, 3),
        grant(),
    ]
}

pub(crate) fn imported_records(apex: &str, count: u64, salt: u8) -> Vec<Record> {
    let rdata = if count >= LARGE { vec![200; 201] } else { vec![3, salt, salt, salt] };
    let owner = |number: u64| name(&format!("host-{number}.{apex}"));
    let record = |number| Record { owner: owner(number), rtype: Rtype::TXT, ttl: 60, rdata: rdata.clone().into() };
    apex_records(apex, 1).into_iter().chain((2..count).map(record)).collect()
}

impl Simulation {
    /// Gives a command to a member, whose outcome is awaited by looking at [`Administrator::is_busy`].
    pub(crate) fn command(&mut self, to: NodeId, command: AdminCommand) {
        self.send_command(to, command, None, true);
    }

    fn send_command(&mut self, to: NodeId, command: AdminCommand, zone: Option<ZoneAim>, is_single: bool) {
        self.requests += 1;
        let request_id = self.requests;
        self.trace.note(self.events.now_us(), to, "command", &[request_id], &[]);
        self.trace.say(self.events.now_us(), || {
            let text = format!("{command:?}");
            format!("{to} gets {}", text.get(..120).unwrap_or(&text))
        });
        let mut is_news = false;
        if let Some((apex, count)) = &zone {
            let imported = self.oracle.imported_mut(&name(apex));
            is_news = imported.now.insert(*count);
            imported.ever.extend(*count);
        }
        let is_of_clients = |key: &wire::name::Name, right: Right| *key == name(KEY) && right == Right::Update;
        let grants = matches!(&command, AdminCommand::Grant { key, right, .. } if is_of_clients(key, *right));
        if matches!(&command, AdminCommand::Revoke { key, right, .. } if is_of_clients(key, *right)) {
            (self.administrator.is_revoked, self.administrator.was_revoked) = (true, true);
        }
        self.watch.on_command(self.events.now_us(), CommandKind::of(&command));
        let ack = ack_of_main(&command);
        ack.into_iter().for_each(|is_all_live| self.oracle.ack_mut().requested(is_all_live));
        let takes_vote = membership::takes_vote(&command);
        self.membership.on_command(&command);
        let policy = matches!(command, AdminCommand::SetPolicy { .. }).then_some(self.administrator.policy);
        policy.into_iter().for_each(|policy| self.oracle.policy_asked(policy));
        let is_clients_key = |key: &wire::name::Name| *key == name(KEY);
        self.administrator.is_retired |= matches!(&command, AdminCommand::RetireKey { name } if is_clients_key(name));
        let rolls = matches!(&command, AdminCommand::RollKey { name, .. } if is_clients_key(name));
        let current = Current { request_id, to, zone, is_news, is_single, grants, takes_vote, policy, rolls, ack };
        self.administrator.current = Some(current);
        self.administrator.in_flight = Some(command.clone());
        self.boundary_of_command(&command, to);
        if self.machines[&to].replica.is_some() {
            self.deliver(to, Input::Admin { request_id, command });
        }
    }

    /// The administrator does the next thing, unless the last one is not done yet.
    pub(crate) fn administrate(&mut self) {
        if self.administrator.is_busy() || !self.has_faults {
            return;
        }
        let alive = self.alive();
        let next = self.administrator.rng.pick(&alive).copied().and_then(|to| self.choose_command(to));
        self.carry_on(next);
    }

    fn carry_on(&mut self, next: Option<Next>) {
        match next {
            // The choice may have stopped the machine that was to get the command.
            Some(Next::Send(to, command, zone)) if self.machines[&to].replica.is_some() => {
                self.send_command(to, command, zone, false);
            }
            Some(Next::Done(kind)) => {
                self.watch.on_command(self.events.now_us(), kind);
                self.watch.on_command_done();
                self.next_command();
            }
            Some(Next::Send(..)) | None => self.next_command(),
        }
    }

    /// Whether the next command must be about members: some must be replaced, or members come and go in this seed.
    pub(crate) fn must_change_members(&mut self) -> bool {
        (self.setup.changes_members || self.membership.has_dead()) && self.administrator.rng.happens(MEMBERS_PPM)
    }

    fn next_command(&mut self) {
        let in_us = self.administrator.rng.between(PAUSE_US.0, PAUSE_US.1);
        self.events.after(in_us, Event::Administrator);
    }

    /// A member says what became of a command.
    pub(crate) fn command_done(&mut self, id: NodeId, request_id: u64, result: Result<AdminReply, AdminError>) {
        self.trace.note(self.events.now_us(), id, "commanded", &[request_id, u64::from(result.is_ok())], &[]);
        self.trace.say(self.events.now_us(), || format!("{id} says {result:?} to command {request_id}"));
        let is_current = |current: &mut Current| current.request_id == request_id;
        let Some(current) = self.administrator.current.take_if(is_current) else { return };
        self.watch.on_command_done();
        self.count.commands_done += u64::from(result.is_ok());
        let is_done = if result == Err(AdminError::Unknown) { None } else { Some(result.is_ok()) };
        current.ack.into_iter().for_each(|is_all_live| self.oracle.ack_mut().settled(is_all_live, is_done));
        // The key already has this secret, so no second one was added.
        if result == Ok(AdminReply::Unchanged) {
            self.administrator.in_flight.take_if(|in_flight| matches!(in_flight, AdminCommand::RollKey { .. }));
        }
        self.administrator.note_settled(is_done);
        self.administrator.is_revoked &= !(current.grants && result.is_ok());
        self.administrator.is_rolled |= current.rolls && result.is_ok();
        if let Some(policy) = current.policy {
            self.oracle.policy_settled(policy, is_done);
        }
        match result {
            Ok(AdminReply::Joined { id }) => self.joined(id),
            Err(AdminError::Unknown) if current.takes_vote => self.membership.note_uncertain(),
            _ => {}
        }
        if let Some((apex, count)) = current.zone {
            let imported = self.oracle.imported_mut(&name(&apex));
            match result {
                Ok(_) => imported.now = [count].into(),
                Err(AdminError::Unknown) => {}
                // It was certainly not done.
                Err(_) if current.is_news => {
                    imported.now.remove(&count);
                }
                Err(_) => {}
            }
        }
        if !current.is_single {
            self.next_command();
        }
    }

    /// A member died: what it was told to do has an unknown outcome.
    pub(crate) fn administrator_forgets(&mut self, id: NodeId) {
        let Some(current) = self.administrator.current.take_if(|current| current.to == id) else { return };
        self.watch.on_command_done();
        current.ack.into_iter().for_each(|is_all_live| self.oracle.ack_mut().settled(is_all_live, None));
        self.administrator.note_settled(None);
        if current.takes_vote {
            self.membership.note_uncertain();
        }
        current.policy.into_iter().for_each(|policy| self.oracle.policy_settled(policy, None));
        if !current.is_single {
            self.next_command();
        }
    }

    /// Somebody asks a member for everything that was acknowledged so far.
    pub(crate) fn read(&mut self) {
        if !self.has_faults {
            return;
        }
        let alive = self.alive();
        if let Some(id) = self.administrator.rng.pick(&alive).copied() {
            self.requests += 1;
            let request_id = self.requests;
            self.reads.insert(request_id, (id, self.applied_max));
            self.deliver(id, Input::ReadIndex { request_id });
        }
        let in_us = self.administrator.rng.between(READ_PAUSE_US.0, READ_PAUSE_US.1);
        self.events.after(in_us, Event::Read);
    }

    /// What a member shows of the zones that come and go, by number of records.
    pub(crate) fn check_imported_at_end(&self, id: NodeId) -> Result<(), String> {
        let Some(replica) = &self.machines[&id].replica else { return Err(format!("{id} is down")) };
        let published = replica.zones().published();
        let count_of = |apex: &wire::name::Name| {
            let zone = zone::ZoneId { view: 0, apex: apex.clone() };
            published.zone(&zone).map(|zone| zone.record_count())
        };
        self.oracle.check_imported_at_end(id, count_of)?;
        let zone = published.zone(&updates::main_zone());
        zone.map(|_| ()).ok_or_else(|| format!("{id} lost its zone"))
    }
}
