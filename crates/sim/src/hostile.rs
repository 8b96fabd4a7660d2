//! An attacker that is not a member and sends arbitrary frames: with the id of a removed member, with an incarnation
//! that no member has, or with an unknown id.
//!
//! Some frames pass the check that guards connections. Others bypass it, as if it had failed, and the replica must
//! refuse them itself. A removal counts at a member once the member has applied it. Until then, the frames count as a
//! member's.

use crate::event::Event;
use crate::invariants::Checked;
use crate::simulation::Simulation;
use replica::io::{Input, NodeId};
use replica::testing::forge::{ForgeTarget, forge};

/// Time between two rounds of frames.
const PAUSE_US: (u64, u64) = (1_000, 60_000);
/// Frames of one round.
const FRAMES_MAX: u64 = 4;
/// An id that no member ever had.
const NEVER_KNOWN: NodeId = 0x00C0_FFEE;

impl Simulation {
    /// Sends a frame to a member, which must refuse it.
    pub(crate) fn attack(&mut self) -> Checked {
        if !self.has_faults {
            return Ok(());
        }
        for _ in 0..=self.attacker.rng.below(FRAMES_MAX) {
            let alive = self.alive();
            let (Some(&to), Some(from)) = (self.attacker.rng.pick(&alive), self.false_id()) else { continue };
            if !self.machines[&to].is_paused {
                self.forge_frame(to, from)?;
            }
        }
        let in_us = self.attacker.rng.between(PAUSE_US.0, PAUSE_US.1);
        self.events.after(in_us, Event::Attacker);
        Ok(())
    }

    /// An id that no running member accepts as a member's.
    fn false_id(&mut self) -> Option<NodeId> {
        let gone: Vec<_> = self.machines.values().filter(|machine| machine.is_gone).map(|machine| machine.id).collect();
        let members = self.ids();
        let rng = &mut self.attacker.rng;
        let id = match rng.below(4) {
            0 | 1 if !gone.is_empty() => *rng.pick(&gone)?,
            0..=2 => 1 << 32 | *rng.pick(&members)?,
            _ => NEVER_KNOWN,
        };
        let mut replicas = self.machines.values().filter_map(|machine| machine.replica.as_ref());
        replicas.all(|replica| !replica.membership().is_member(id) && !replica.admits(id)).then_some(id)
    }

    fn forge_frame(&mut self, to: NodeId, from: NodeId) -> Checked {
        let Self { attacker, machines, .. } = self;
        let Some(replica) = &machines[&to].replica else { return Ok(()) };
        let Some(&kind) = attacker.rng.pick(&attacker.kinds) else { return Ok(()) };
        let is_through_links = attacker.rng.happens(250_000);
        let frame = forge(kind, &ForgeTarget::at(replica, from), &mut |bound| attacker.rng.below(bound));
        let before = replica.brief_status();
        self.count.frames_forged += 1;
        let is_welcome = self.is_welcome(to, from);
        if is_welcome {
            return Err(self.violation("strangers_are_refused", format!("{from} is welcome at {to}")));
        }
        if is_through_links {
            return Ok(());
        }
        self.trace.note(self.events.now_us(), to, "forged", &[from], &frame);
        self.deliver(to, Input::Peer { from, frame });
        let Some(replica) = &self.machines[&to].replica else { return Ok(()) };
        let after = replica.brief_status();
        let is_counted = after.counters.non_member_frames == before.counters.non_member_frames + 1;
        let is_same = (after.role, after.term, after.leader, after.commit_index, after.last_index, after.state_hash)
            == (before.role, before.term, before.leader, before.commit_index, before.last_index, before.state_hash);
        if !is_counted
            || !is_same
            || after.fatal != before.fatal
            || after.invariant_violations != before.invariant_violations
        {
            let what = format!("{to} took {kind:?} of {from}: {before:?} became {after:?}");
            return Err(self.violation("strangers_are_refused", what));
        }
        Ok(())
    }
}
