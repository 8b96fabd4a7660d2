//! The administrator sends commands through any member, one at a time. The commands import, replace and remove zones,
//! change options, keys and policies, temporarily revoke the clients' right to update, change votes and members, and
//! transfer the leadership. This file also has the readers that request linearizable reads.

use crate::administrator::{Current, ZoneTarget};
use crate::commands::Next;
use crate::event::Event;
use crate::membership;
use crate::plan::name;
use crate::simulation::Simulation;
use crate::swarm::CommandKind;
use crate::updates::{self, KEY, main_zone};
use replica::io::{AckOption, AdminCommand, AdminError, AdminReply, Input, NodeId, Right};

/// Pause between two commands.
const PAUSE_US: (u64, u64) = (100_000, 900_000);
/// Pause between two reads.
const READ_PAUSE_US: (u64, u64) = (20_000, 200_000);
/// Share of commands about members in runs with such commands, in parts of a million.
const MEMBERS_PPM: u64 = 450_000;

impl Simulation {
    /// Sends a command to a member. [`is_busy`](crate::administrator::Administrator::is_busy) returns false once it is
    /// done.
    pub(crate) fn command(&mut self, to: NodeId, command: AdminCommand) {
        self.send_command(to, command, None, true);
    }

    fn send_command(&mut self, to: NodeId, command: AdminCommand, zone: Option<ZoneTarget>, is_single: bool) {
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

    /// Sends the next command, unless the last one is in progress.
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
            // Choosing the command may have stopped the machine that would receive it.
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

    /// Whether the next command must be about members: some must be replaced, or members join and leave in this seed.
    pub(crate) fn must_change_members(&mut self) -> bool {
        (self.setup.changes_members || self.membership.has_dead()) && self.administrator.rng.happens(MEMBERS_PPM)
    }

    fn next_command(&mut self) {
        let in_us = self.administrator.rng.between(PAUSE_US.0, PAUSE_US.1);
        self.events.after(in_us, Event::Administrator);
    }

    /// Handles a member's response to a command.
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
                // The command was certainly not done.
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

    /// A member died: the outcomes of its commands are unknown.
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

    /// Sends a linearizable read to a member.
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

    /// Checks the number of records of each imported zone that a member shows.
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

/// Returns whether a command sets `ack = all-live` for the clients' zone. `None` if it does not set `ack`.
fn ack_of_main(command: &AdminCommand) -> Option<bool> {
    match command {
        AdminCommand::SetZoneOptions { zone, change } if *zone == main_zone() => {
            change.ack.map(|ack| ack == AckOption::AllLive)
        }
        _ => None,
    }
}
