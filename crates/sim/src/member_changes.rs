//! Members that join and leave: machines join as future voters or as learners, members are removed, and machines die
//! for good. The vote of a dead machine goes to a learner.

use crate::clock::MachineClock;
use crate::disk::SimDisk;
use crate::event::Event;
use crate::invariants::Checked;
use crate::machine::Machine;
use crate::simulation::Simulation;
use crate::swarm::CommandKind;
use replica::Replica;
use replica::io::{AdminCommand, NodeId};

/// Time from a member's entry to the first start of its machine.
const JOIN_US: (u64, u64) = (1_000, 400_000);
/// Minimum number of voters at which a machine may die for good, so that a majority continues without it.
const VOTERS_MIN: usize = 3;
/// Lifetime of a token. It is long because clocks may be wrong.
const TOKEN_MS: u64 = 10_000_000;

impl Simulation {
    /// Founders and joined members whose machines may run.
    pub(crate) fn ids(&self) -> Vec<NodeId> {
        self.machines.values().filter(|machine| !machine.is_gone).map(|machine| machine.id).collect()
    }

    /// The members among them, by the leader's settings.
    pub(crate) fn members_here(&self) -> Vec<NodeId> {
        let leader = self.leader().and_then(|id| self.machines[&id].replica.as_ref());
        let members = leader.map(|leader| leader.brief_status().members).unwrap_or_default();
        let here = self.ids();
        members.into_iter().map(|member| member.member.id).filter(|id| here.contains(id)).collect()
    }

    /// The next change of the members, if one is useful now.
    pub(crate) fn choose_membership(&mut self) -> Option<AdminCommand> {
        let leader = self.machines[&self.leader()?].replica.as_ref()?.brief_status();
        let (here, founders) = (self.ids(), self.setup.members as usize);
        let members: Vec<NodeId> = leader.members.iter().map(|member| member.member.id).collect();
        let of = |votes: bool| {
            let wanted = leader.members.iter().filter(move |member| member.is_voter == votes);
            wanted.map(|member| member.member.id).filter(|id| here.contains(id)).collect::<Vec<_>>()
        };
        let (voters, learners) = (of(true), of(false));
        // The response to its join was lost, so no machine will ever run under this id.
        if let Some(&ghost) = members.iter().find(|id| self.is_ghost(**id)) {
            return Some(AdminCommand::RemoveNode { id: ghost });
        }
        self.membership.dead = self.membership.dead.filter(|dead| members.contains(dead));
        self.forget_damaged(&members);
        if let Some(gone) = self.membership.dead {
            return match learners.first() {
                Some(&new) => Some(AdminCommand::ReplaceNode { gone, new }),
                None => self.join(),
            };
        }
        let draw = self.administrator.draw(4);
        match (draw, learners.first()) {
            (0 | 1, _) if here.len() <= founders => self.join(),
            (2, _) if here.len() > founders => {
                let id = self.administrator.pick(&here)?;
                Some(AdminCommand::RemoveNode { id })
            }
            (3, Some(&new)) if self.can_spare_one() && self.damaged.is_none() => {
                let gone = self.administrator.pick(&voters)?;
                self.die_for_good(gone);
                self.membership.dead = Some(gone);
                Some(AdminCommand::ReplaceNode { gone, new })
            }
            (_, Some(&id)) => Some(AdminCommand::SetVote { id, votes: true }),
            _ => None,
        }
    }

    /// Whether the voters known to any member have a majority without any one of them.
    pub(crate) fn can_spare_one(&self) -> bool {
        let views = self.machines.values().filter_map(|machine| machine.replica.as_ref()).map(Replica::brief_status);
        let count = |status: replica::Status| {
            let here = |id: NodeId| self.machines.get(&id).is_some_and(|machine| !machine.is_gone);
            status.members.iter().filter(|member| member.is_voter && here(member.member.id)).count()
        };
        let is_member = |status: &replica::Status| !status.members.is_empty();
        !self.membership.is_uncertain && views.filter(is_member).map(count).all(|voters| voters >= VOTERS_MIN)
    }

    fn is_ghost(&self, id: NodeId) -> bool {
        !self.machines.contains_key(&id) && !self.membership.coming.contains(&id)
    }

    /// Adds a member: with a node number as a future voter, or with a token as a learner.
    pub(crate) fn join(&mut self) -> Option<AdminCommand> {
        if let Some(digest) = self.membership.token {
            let number = self.setup.members as u32 + self.membership.node + 1;
            return Some(AdminCommand::Join { digest, address: format!("[::1]:{}", 7_000 + number) });
        }
        Some(if self.administrator.draw(2) == 0 { self.add_node() } else { self.create_token() })
    }

    pub(crate) fn add_node(&mut self) -> AdminCommand {
        self.membership.node += 1;
        let node = self.setup.members as u32 + self.membership.node;
        AdminCommand::AddNode { node, address: format!("[::1]:{}", 7_000 + node) }
    }

    pub(crate) fn create_token(&mut self) -> AdminCommand {
        self.membership.tokens += 1;
        let digest = [self.membership.tokens; 32];
        self.membership.token = Some(digest);
        AdminCommand::CreateToken { digest, life_ms: TOKEN_MS, is_learner: true }
    }

    /// Chooses a member to remove: one above the initial number, or a dying voter with a successor.
    pub(crate) fn choose_leaving(&mut self, kind: CommandKind) -> Option<AdminCommand> {
        let here = self.ids();
        let is_whole = self.damaged.is_none() && !self.membership.has_dead();
        if kind == CommandKind::RemoveNode {
            let may_go = is_whole && here.len() > self.setup.members as usize;
            let id = self.administrator.pick(&here).filter(|_| may_go)?;
            return Some(AdminCommand::RemoveNode { id });
        }
        let leader = self.machines[&self.leader()?].replica.as_ref()?.brief_status();
        let of = |votes: bool| {
            let wanted = leader.members.iter().filter(move |member| member.is_voter == votes);
            wanted.map(|member| member.member.id).filter(|id| here.contains(id)).collect::<Vec<_>>()
        };
        let new = self.administrator.pick(&of(false)).filter(|_| is_whole && self.can_spare_one())?;
        let gone = self.administrator.pick(&of(true))?;
        self.die_for_good(gone);
        self.membership.dead = Some(gone);
        Some(AdminCommand::ReplaceNode { gone, new })
    }

    fn die_for_good(&mut self, id: NodeId) {
        self.trace.note(self.events.now_us(), id, "dies for good", &[], &[]);
        self.lose_power(id);
        self.machine(id).is_gone = true;
        self.count.machines_dead += 1;
    }

    /// The administrator learned of a new member. Sets up its machine.
    pub(crate) fn joined(&mut self, id: NodeId) {
        let in_us = self.administrator.draw(JOIN_US.1) + JOIN_US.0;
        self.membership.node = self.membership.node.max((id as u32).saturating_sub(self.setup.members as u32));
        self.membership.coming.insert(id);
        self.events.after(in_us, Event::Join(id));
    }

    /// Starts an empty machine as a member.
    pub(crate) fn begin_joining(&mut self, id: NodeId) -> Checked {
        if self.machines.contains_key(&id) {
            return Ok(());
        }
        let disk = SimDisk::new(self.setup.disk.clone(), self.rng.fork("disk"));
        let clock =
            MachineClock::random(&mut self.rng.fork("clock"), self.setup.rate_error_ppm, self.setup.wall_error_ms);
        let mut machine = Machine::new(id, disk, clock);
        machine.data_key = self.machines.values().map(|machine| machine.data_key).max().unwrap_or(1);
        let ops = Replica::init_joining(&self.setup.config(id, 0));
        ops.iter().for_each(|op| machine.disk.contents_mut().execute(op));
        self.machines.insert(id, machine);
        self.count.joined += 1;
        self.start(id)?;
        self.links_to_new(id);
        Ok(())
    }

    /// A process learns that its member was removed. The removal must have been requested.
    pub(crate) fn removed(&mut self, id: NodeId, is_out: bool) -> Checked {
        if !self.membership.may_leave(id) {
            return Err(self.violation("members_stay_sound", format!("{id} was removed without a request")));
        }
        self.trace.note(self.events.now_us(), id, "removed", &[u64::from(is_out)], &[]);
        if is_out {
            self.kill(id);
            self.machine(id).is_gone = true;
            self.count.removed += 1;
        }
        Ok(())
    }

    /// Switches off machines of members that were removed before they got any state. Such a member cannot learn of its
    /// removal.
    pub(crate) fn give_up_on_strangers(&mut self) {
        let members = self.members_here();
        for id in self.ids() {
            let has_state = self.machines[&id].replica.as_ref().is_none_or(|replica| replica.state_hash().0 > 0);
            if !members.contains(&id) && !has_state && self.membership.may_leave(id) {
                self.kill(id);
                self.machine(id).is_gone = true;
            }
        }
    }
}
