//! Counts which faults overlapped with which other faults and commands, in one run and in all runs.
//!
//! A pair counts if one began during the other, or at most `AFTERMATH_US` after its end, while the cluster recovers.

use crate::swarm::{CommandKind, FaultKind};
use std::collections::BTreeMap;
use std::fmt::Write;

/// How long a cluster recovers from a fault.
const AFTERMATH_US: u64 = 2_000_000;

/// The number of runs in which each pair occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Pairs of faults, the smaller kind first.
    faults: BTreeMap<(FaultKind, FaultKind), u64>,
    /// Pairs of a fault and a command.
    commands: BTreeMap<(FaultKind, CommandKind), u64>,
    /// Runs with each command, with or without a fault.
    alone: BTreeMap<CommandKind, u64>,
}

/// The faults and the command in progress in one run.
#[derive(Debug, Default)]
pub(crate) struct CoverageTracker {
    /// The end of each kind of fault.
    lasting: BTreeMap<FaultKind, u64>,
    /// The command in progress.
    command: Option<CommandKind>,
    seen: Coverage,
}

impl CoverageTracker {
    /// Records a fault that begins now and lasts this long.
    pub(crate) fn on_fault(&mut self, now_us: u64, kind: FaultKind, lasts_us: u64) {
        self.lasting.retain(|_, until_us| *until_us >= now_us);
        for &other in self.lasting.keys().filter(|&&other| other != kind) {
            self.seen.faults.insert((kind.min(other), kind.max(other)), 1);
        }
        if let Some(command) = self.command {
            self.seen.commands.insert((kind, command), 1);
        }
        let until_us = now_us.saturating_add(lasts_us).saturating_add(AFTERMATH_US);
        let known_us = self.lasting.entry(kind).or_default();
        *known_us = until_us.max(*known_us);
    }

    /// Records the start of a command.
    pub(crate) fn on_command(&mut self, now_us: u64, kind: CommandKind) {
        self.lasting.retain(|_, until_us| *until_us >= now_us);
        self.command = Some(kind);
        self.seen.alone.insert(kind, 1);
        self.seen.commands.extend(self.lasting.keys().map(|&fault| ((fault, kind), 1)));
    }

    /// Records the end of a command.
    pub(crate) fn on_command_done(&mut self) {
        self.command = None;
    }

    /// Returns the pairs seen so far.
    pub(crate) const fn seen(&self) -> &Coverage {
        &self.seen
    }
}

impl Coverage {
    /// Adds the pairs of another run.
    pub fn add(&mut self, other: &Self) {
        for (pair, count) in &other.faults {
            *self.faults.entry(*pair).or_default() += count;
        }
        for (pair, count) in &other.commands {
            *self.commands.entry(*pair).or_default() += count;
        }
        for (kind, count) in &other.alone {
            *self.alone.entry(*kind).or_default() += count;
        }
    }

    /// Returns the number of pairs that occurred, and of all pairs.
    #[must_use]
    pub fn pairs(&self) -> (usize, usize) {
        let (faults, commands) = (FaultKind::ALL.len(), CommandKind::ALL.len());
        (self.faults.len() + self.commands.len(), faults * (faults - 1) / 2 + faults * commands)
    }

    /// Returns one line with the share of pairs that occurred.
    #[must_use]
    pub fn summary(&self) -> String {
        let (seen, all) = self.pairs();
        let percent = seen as f64 * 100.0 / all as f64;
        format!("{seen} of {all} pairs of fault x fault and fault x command overlapped ({percent:.1} %)")
    }

    /// Returns the whole table, by fault, and the missing pairs.
    #[must_use]
    pub fn table(&self) -> String {
        let (mut text, mut missing) = (String::new(), Vec::new());
        for &fault in FaultKind::ALL {
            let others = FaultKind::ALL.iter().filter(|&&other| other != fault);
            let others = others.map(|&other| (other.name(), self.faults.get(&(fault.min(other), fault.max(other)))));
            let commands = CommandKind::ALL.iter().map(|&kind| (kind.name(), self.commands.get(&(fault, kind))));
            _ = write!(text, "{}:", fault.name());
            for (name, count) in others.chain(commands) {
                _ = write!(text, " {name}={}", count.copied().unwrap_or(0));
                if count.is_none() {
                    missing.push(format!("{} x {name}", fault.name()));
                }
            }
            text.push('\n');
        }
        let never = CommandKind::ALL.iter().filter(|kind| !self.alone.contains_key(kind));
        missing.extend(never.map(|kind| format!("{} in any run", kind.name())));
        _ = writeln!(text, "missing: {}", if missing.is_empty() { "none".into() } else { missing.join(", ") });
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_counts_when_the_two_overlap_or_nearly_do() {
        let mut watch = CoverageTracker::default();
        watch.on_fault(0, FaultKind::Kill, 1_000);
        watch.on_command(1_000, CommandKind::Grant);
        watch.on_fault(AFTERMATH_US + 1_000, FaultKind::Pause, 0);
        watch.on_command_done();
        watch.on_fault(AFTERMATH_US + 1_001, FaultKind::Stop, 0);
        watch.on_command(9 * AFTERMATH_US, CommandKind::Revoke);
        let seen = watch.seen();
        assert_eq!(
            seen.faults.keys().copied().collect::<Vec<_>>(),
            [(FaultKind::Kill, FaultKind::Pause), (FaultKind::Pause, FaultKind::Stop)]
        );
        let commands = [(FaultKind::Kill, CommandKind::Grant), (FaultKind::Pause, CommandKind::Grant)];
        assert_eq!(seen.commands.keys().copied().collect::<Vec<_>>(), commands);
        assert_eq!(seen.pairs().0, 4);
        let mut sum = Coverage::default();
        sum.add(seen);
        sum.add(seen);
        let table = sum.table();
        assert!(table.contains("kill: ") && table.contains(" pause=2"), "{table}");
        let missing = table.lines().last().unwrap();
        assert!(missing.contains("kill x stop") && !missing.contains("kill x pause"), "{missing}");
        assert!(missing.contains("restore in any run") && !missing.contains("revoke in any run"), "{missing}");
    }
}
