//! Chooses the faults and commands of a run. Each seed draws its own subset (swarm testing), so that frequent
//! combinations do not hide rare ones.

use crate::rng::Rng;
use replica::io::{AdminCommand, TrustCommand};

/// Defines an enumeration with a list of its variants and their names.
macro_rules! kinds {
    ($(#[$of:meta])* $name:ident { $($(#[$doc:meta])* $kind:ident = $text:literal,)+ }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$doc])* $kind,)+ }

        impl $name {
            /// All variants.
            pub const ALL: &'static [Self] = &[$(Self::$kind),+];

            /// The name in the coverage table.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $text),+ }
            }
        }
    };
}

kinds! {
    /// The faults.
    FaultKind {
        /// The leader loses power in the middle of a write.
        CrashInWrite = "crash-in-write",
        /// A machine loses power.
        PowerLoss = "power-loss",
        /// A process is killed.
        Kill = "kill",
        /// A machine is off for so much time that its member needs a checkpoint.
        LongAbsence = "long-absence",
        /// All machines lose power at once.
        PowerLossAll = "power-loss-all",
        /// The network is cut, in one direction or both.
        Partition = "partition",
        /// A connection between two members breaks.
        LinkBreak = "link-break",
        /// A disk completes nothing for a while.
        DiskHang = "disk-hang",
        /// A disk has no room for a while.
        DiskFull = "disk-full",
        /// A process does not run for a while.
        Pause = "pause",
        /// A machine is suspended: its process and its monotonic clock both stand still.
        ClockStop = "clock-stop",
        /// A wall clock is wrong by minutes or hours.
        WallJump = "wall-jump",
        /// A wall clock is wrong by years.
        WallYears = "wall-years",
        /// A process is asked to stop.
        Stop = "stop",
        /// A bit on a disk changes.
        BitFlip = "bit-flip",
        /// A sector of a disk is overwritten with zeros.
        ZeroedSector = "zeroed-sector",
        /// A sector was written to the wrong offset of its file.
        MisdirectedSector = "misdirected-sector",
        /// A synced sector has its old contents again.
        LostSector = "lost-sector",
        /// A disk reports an error for a read.
        ReadError = "read-error",
        /// A disk reports an error for a sync.
        SyncError = "sync-error",
        /// A disk has its contents from some seconds ago, for example after a snapshot was restored.
        RolledBack = "rolled-back",
    }
}

kinds! {
    /// The administrator's commands.
    CommandKind {
        /// `AdminCommand::AddZone`.
        AddZone = "add-zone",
        /// `AdminCommand::ReplaceZone`.
        ReplaceZone = "replace-zone",
        /// `AdminCommand::SetZoneOptions` without a change of `ack`.
        SetZoneOptions = "set-zone-options",
        /// `AdminCommand::SetZoneOptions` that changes `ack`.
        SetAck = "set-ack",
        /// `AdminCommand::RemoveZone`.
        RemoveZone = "remove-zone",
        /// `AdminCommand::AddKey`.
        AddKey = "add-key",
        /// `AdminCommand::RollKey`.
        RollKey = "roll-key",
        /// `AdminCommand::RetireKey`.
        RetireKey = "retire-key",
        /// `AdminCommand::SetPolicy`.
        SetPolicy = "set-policy",
        /// `AdminCommand::RemoveKey`.
        RemoveKey = "remove-key",
        /// `AdminCommand::Grant`.
        Grant = "grant",
        /// `AdminCommand::Revoke`.
        Revoke = "revoke",
        /// `AdminCommand::AddNode`.
        AddNode = "add-node",
        /// `AdminCommand::RemoveNode`.
        RemoveNode = "remove-node",
        /// `AdminCommand::MoveNode`.
        MoveNode = "move-node",
        /// `AdminCommand::SetVote`.
        SetVote = "set-vote",
        /// `AdminCommand::ReplaceNode`.
        ReplaceNode = "replace-node",
        /// `AdminCommand::RaiseFeatureLevel`.
        RaiseFeatureLevel = "raise-level",
        /// `AdminCommand::TransferLeader`.
        TransferLeader = "transfer-leader",
        /// `AdminCommand::Checkpoint`.
        Checkpoint = "checkpoint",
        /// `AdminCommand::WaitAllLive`.
        WaitAllLive = "wait-all-live",
        /// `AdminCommand::CreateToken`.
        CreateToken = "create-token",
        /// `AdminCommand::RevokeToken`.
        RevokeToken = "revoke-token",
        /// `AdminCommand::Join`.
        Join = "join",
        /// `TrustCommand::AddCa`.
        AddCa = "add-ca",
        /// `TrustCommand::UseCa`.
        UseCa = "use-ca",
        /// `TrustCommand::RemoveCa`.
        RemoveCa = "remove-ca",
        /// `TrustCommand::Renew`.
        Renew = "renew",
        /// `TrustCommand::BeginDataKey`.
        BeginDataKey = "begin-data-key",
        /// `TrustCommand::UseDataKey`.
        UseDataKey = "use-data-key",
        /// `TrustCommand::Reseal`.
        Reseal = "reseal",
        /// `TrustCommand::ReportCredentials`.
        ReportCredentials = "report-credentials",
        /// `TrustCommand::AddPin`.
        AddPin = "add-pin",
        /// `TrustCommand::SeePins`.
        SeePins = "see-pins",
        /// `TrustCommand::UsePin`.
        UsePin = "use-pin",
        /// A member gets the newer of two builds.
        Upgrade = "upgrade",
        /// A separate cluster is made from a backup.
        Restore = "restore",
        /// A separate cluster is made from the disk of one member.
        Recover = "recover",
    }
}

impl CommandKind {
    /// The kind of a command. The match is exhaustive, so a new command needs a kind to compile.
    #[must_use]
    pub const fn of(command: &AdminCommand) -> Self {
        match command {
            AdminCommand::AddZone { .. } => Self::AddZone,
            AdminCommand::ReplaceZone { .. } => Self::ReplaceZone,
            AdminCommand::SetZoneOptions { change, .. } if change.ack.is_some() => Self::SetAck,
            AdminCommand::SetZoneOptions { .. } => Self::SetZoneOptions,
            AdminCommand::RemoveZone { .. } => Self::RemoveZone,
            AdminCommand::AddKey { .. } => Self::AddKey,
            AdminCommand::RollKey { .. } => Self::RollKey,
            AdminCommand::RetireKey { .. } => Self::RetireKey,
            AdminCommand::SetPolicy { .. } => Self::SetPolicy,
            AdminCommand::RemoveKey { .. } => Self::RemoveKey,
            AdminCommand::Grant { .. } => Self::Grant,
            AdminCommand::Revoke { .. } => Self::Revoke,
            AdminCommand::AddNode { .. } => Self::AddNode,
            AdminCommand::RemoveNode { .. } => Self::RemoveNode,
            AdminCommand::MoveNode { .. } => Self::MoveNode,
            AdminCommand::SetVote { .. } => Self::SetVote,
            AdminCommand::ReplaceNode { .. } => Self::ReplaceNode,
            AdminCommand::RaiseFeatureLevel => Self::RaiseFeatureLevel,
            AdminCommand::TransferLeader { .. } => Self::TransferLeader,
            AdminCommand::Checkpoint => Self::Checkpoint,
            AdminCommand::WaitAllLive => Self::WaitAllLive,
            AdminCommand::RevokeToken { .. } => Self::RevokeToken,
            AdminCommand::CreateToken { .. } => Self::CreateToken,
            AdminCommand::Join { .. } => Self::Join,
            AdminCommand::Trust(command) => Self::of_trust(command),
        }
    }

    const fn of_trust(command: &TrustCommand) -> Self {
        match command {
            TrustCommand::AddCa { .. } => Self::AddCa,
            TrustCommand::UseCa { .. } => Self::UseCa,
            TrustCommand::RemoveCa { .. } => Self::RemoveCa,
            TrustCommand::Renew { .. } => Self::Renew,
            TrustCommand::BeginDataKey { .. } => Self::BeginDataKey,
            TrustCommand::UseDataKey { .. } => Self::UseDataKey,
            TrustCommand::Reseal { .. } => Self::Reseal,
            TrustCommand::ReportCredentials { .. } => Self::ReportCredentials,
            TrustCommand::AddPin { .. } => Self::AddPin,
            TrustCommand::SeePins { .. } => Self::SeePins,
            TrustCommand::UsePin { .. } => Self::UsePin,
        }
    }
}

/// A critical moment at which a run aims its faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// A member's lease to answer begins or ends.
    LeaseEnd,
    /// A member campaigns or begins to lead.
    Election,
    /// A member votes.
    Vote,
    /// The table of repeats forgets its oldest session.
    Eviction,
    /// The members or voters change.
    ConfChange,
    /// A checkpoint is written or installed.
    Checkpoint,
}

impl Boundary {
    const ALL: [Self; 6] =
        [Self::LeaseEnd, Self::Election, Self::Vote, Self::Eviction, Self::ConfChange, Self::Checkpoint];
}

/// Minimum number of kinds of faults in a run.
const FAULTS_MIN: usize = 4;
/// Share of runs that aim at critical moments, in parts of a million.
const AIMED_PPM: u64 = 333_333;
/// Share of runs that draw from all faults and all commands, in parts of a million.
const ALL_PPM: u64 = 100_000;

/// The choices of one seed.
#[derive(Clone, Debug)]
pub struct Swarm {
    faults: Vec<FaultKind>,
    commands: Vec<CommandKind>,
    /// The critical moment that the faults hit.
    pub(crate) target: Option<Boundary>,
}

impl Swarm {
    /// Draws the subset of a seed.
    pub(crate) fn random(seed: u64) -> Self {
        let rng = &mut Rng::new(seed).fork("swarm");
        let target = if rng.happens(AIMED_PPM) { rng.pick(&Boundary::ALL).copied() } else { None };
        if rng.happens(ALL_PPM) {
            return Self { faults: FaultKind::ALL.to_vec(), commands: CommandKind::ALL.to_vec(), target };
        }
        let mut faults: Vec<_> = FaultKind::ALL.iter().copied().filter(|_| rng.happens(450_000)).collect();
        while faults.len() < FAULTS_MIN {
            faults.extend(rng.pick(FaultKind::ALL));
        }
        let mut commands: Vec<_> = CommandKind::ALL.iter().copied().filter(|_| rng.happens(500_000)).collect();
        // A run that removes zones must also add zones.
        if commands.contains(&CommandKind::RemoveZone) && !commands.contains(&CommandKind::AddZone) {
            commands.push(CommandKind::AddZone);
        }
        Self { faults, commands, target }
    }

    /// Whether the run has this fault.
    pub(crate) fn has_fault(&self, kind: FaultKind) -> bool {
        self.faults.contains(&kind)
    }

    /// Whether the run has this command.
    pub(crate) fn has_command(&self, kind: CommandKind) -> bool {
        self.commands.contains(&kind)
    }

    /// Draws the next fault.
    pub(crate) fn pick_fault(&self, rng: &mut Rng) -> Option<FaultKind> {
        let total: u64 = self.faults.iter().map(|kind| weight(*kind)).sum();
        let mut draw = rng.below(total.max(1));
        self.faults.iter().copied().find(|kind| {
            let weight = weight(*kind);
            let is_it = draw < weight;
            draw = draw.saturating_sub(weight);
            is_it
        })
    }

    /// Draws the next command.
    pub(crate) fn pick_command(&self, rng: &mut Rng) -> Option<CommandKind> {
        rng.pick(&self.commands).copied()
    }
}

/// Weight of a fault in the draw among the faults of the run.
const fn weight(kind: FaultKind) -> u64 {
    match kind {
        FaultKind::CrashInWrite | FaultKind::Partition => 14,
        FaultKind::PowerLoss | FaultKind::Kill | FaultKind::LinkBreak | FaultKind::DiskHang => 9,
        FaultKind::LongAbsence | FaultKind::PowerLossAll | FaultKind::Pause | FaultKind::ClockStop => 7,
        FaultKind::WallJump | FaultKind::WallYears | FaultKind::Stop => 7,
        FaultKind::BitFlip | FaultKind::ZeroedSector | FaultKind::MisdirectedSector => 9,
        FaultKind::LostSector | FaultKind::RolledBack => 9,
        FaultKind::ReadError | FaultKind::SyncError | FaultKind::DiskFull => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_command_and_boundary_is_drawn_and_left_out_by_some_seed() {
        let swarms: Vec<_> = (1..=100).map(Swarm::random).collect();
        let some = |has: &dyn Fn(&Swarm) -> bool| swarms.iter().any(has) && !swarms.iter().all(has);
        assert!(FaultKind::ALL.iter().all(|kind| some(&|swarm| swarm.has_fault(*kind))));
        assert!(CommandKind::ALL.iter().all(|kind| some(&|swarm| swarm.has_command(*kind))));
        assert!(Boundary::ALL.iter().all(|target| some(&|swarm| swarm.target == Some(*target))));
        let aimed = swarms.iter().filter(|swarm| swarm.target.is_some()).count();
        assert!((20..=46).contains(&aimed), "{aimed} of 100");
    }

    #[test]
    fn only_faults_of_the_subset_are_picked_and_each_of_them() {
        let (swarm, mut rng) = (Swarm::random(7), Rng::new(7));
        let picked: std::collections::BTreeSet<_> = (0..2_000).filter_map(|_| swarm.pick_fault(&mut rng)).collect();
        assert_eq!(picked, swarm.faults.iter().copied().collect());
    }
}
