//! The planted bugs, their numbers, and whether the simulator or a test must find them.

use std::sync::atomic::{AtomicU32, Ordering};

/// The environment variable with the number of the bug to plant, for tests and daemons.
const VARIABLE: &str = "CATAMARAN_PLANTED";
/// The variable has not been read, and no bug has been set.
const UNREAD: u32 = u32::MAX;

static NUMBER: AtomicU32 = AtomicU32::new(UNREAD);

/// The tool that must find a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// The simulator must find it in at least 1 % of the seeds.
    Simulator,
    /// Tests must find it. The simulator need not.
    Tests,
}

/// One planted bug.
#[derive(Clone, Copy, Debug)]
pub struct Planted {
    /// The bug.
    pub bug: Bug,
    /// What goes wrong.
    pub text: &'static str,
    /// The tool that must find it.
    pub found_by: FoundBy,
}

impl Bug {
    /// The number that plants this bug.
    #[must_use]
    pub const fn number(self) -> u32 {
        self as u32
    }
}

/// Plants the bug with this number; 0 plants none.
pub fn plant(number: u32) {
    NUMBER.store(number, Ordering::Relaxed);
}

/// Whether this bug is planted.
#[must_use]
pub fn is(bug: Bug) -> bool {
    let number = match NUMBER.load(Ordering::Relaxed) {
        UNREAD => read(),
        number => number,
    };
    number == bug.number()
}

fn read() -> u32 {
    let number = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    plant(number);
    number
}

macro_rules! bugs {
    ($(#[doc = $text:literal] $number:literal $bug:ident: $found_by:ident;)+) => {
        /// The bugs that can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Bug {
            $(#[doc = $text] $bug = $number,)+
        }

        /// All planted bugs.
        pub const ALL: &[Planted] = &[
            $(Planted {
                bug: Bug::$bug,
                text: $text.trim_ascii(),
                found_by: FoundBy::$found_by,
            },)+
        ];
    };
}

bugs! {
    /// A member sends every message before its log is on disk.
    1 MessagesBeforeDisk: Simulator;
    /// A member sends votes and requests for votes before the vote is on disk.
    2 VotesBeforeDisk: Simulator;
    /// A leader reports an entry as durable before its own disk has it.
    3 EarlyCommitBeforeDisk: Simulator;
    /// Two nodes commit early in a cluster of any size.
    4 EarlyCommitWithoutMajority: Simulator;
    /// A member commits early although its leader counts other voters.
    5 EarlyCommitOfOtherVoters: Tests;
    /// An early commit does not compare the term of the entry.
    7 EarlyCommitOfAnyTerm: Tests;
    /// A member takes an early commit from any sender and of any term.
    8 EarlyCommitFromAnybody: Tests;
    /// A linearizable read ignores what was committed early.
    9 ReadsForgetEarlyCommit: Simulator;
    /// A leader answers a linearizable read without asking a majority.
    11 ReadWithoutMajority: Simulator;
    /// An update older than the forgotten ones is treated as new.
    12 FloorIgnored: Tests;
    /// A forgotten update leaves no trace.
    13 FloorNotRaised: Tests;
    /// A node remembers a tenth of the repeats that it should remember.
    14 RepeatsForgottenEarly: Tests;
    /// A checkpoint lacks the remembered updates.
    15 CheckpointWithoutRepeats: Simulator;
    /// A checkpoint lacks the floors of keys.
    16 CheckpointWithoutFloors: Tests;
    /// A checkpoint lacks the time of the cluster.
    17 CheckpointWithoutTime: Simulator;
    /// A checkpoint lacks the history of zones.
    18 CheckpointWithoutHistory: Simulator;
    /// The state hash does not cover the remembered updates.
    19 HashWithoutRepeats: Tests;
    /// The state hash does not cover the settings.
    20 HashWithoutSettings: Tests;
    /// The state hash does not cover the zones.
    21 HashWithoutZones: Tests;
    /// The state hash does not cover the history of zones.
    22 HashWithoutHistory: Tests;
    /// The log is compacted beyond its checkpoint.
    23 LogCutTooFar: Simulator;
    /// A lease begins when the grant arrives, not when the question was sent.
    24 LeaseFromArrival: Tests;
    /// A leader grants leases although no majority follows it.
    26 LeaseWithoutMajority: Tests;
    /// A leader does not wait for leases of members that left the rotation.
    27 LeasesOfTheRemovedIgnored: Simulator;
    /// A member answers under a lease of an earlier time in the rotation.
    28 StaleMemberStaysInRotation: Tests;
    /// A repeat is answered before every live member shows the update.
    29 RepeatNotHeld: Simulator;
    /// A membership change may leave fewer voters than a majority that answer.
    32 NeededVoteRemoved: Tests;
    /// A start uses the voters of its checkpoint and ignores later changes in the log.
    33 ConfigurationOfCheckpoint: Tests;
    /// An update sometimes leaves the serial of its zone as it is.
    34 SerialNotStepped: Simulator;
    /// An update whose prerequisite fails is still applied.
    35 PrerequisitesIgnored: Simulator;
    /// A change is applied to a zone that is not the one it was made for.
    36 BaseNotCompared: Tests;
    /// The zones that a leader prepared survive the loss of its leadership.
    37 HeadKept: Simulator;
    /// The time in the log follows the leader's clock backwards.
    38 TimeGoesBack: Tests;
    /// The serial of a removed zone is forgotten.
    39 RetiredSerialsForgotten: Simulator;
    /// An update is applied although its policy changed after it was judged.
    40 PolicyEpochNotCompared: Tests;
    /// An update is applied although its key was replaced after it was judged.
    41 KeyGenerationNotCompared: Tests;
    /// A forwarded update that arrives twice is evaluated twice.
    42 ForwardTakenTwice: Tests;
    /// A client gets SERVFAIL for an update that may have been done.
    43 ServfailForUnknown: Tests;
    /// A node answers queries before it knows that its state is current.
    44 ServesAtStart: Simulator;
    /// A node serves its state, marked stale, although its log holds more.
    45 StaleDespiteLog: Tests;
    /// The vote is not written to the file of votes.
    46 VoteNotInItsFile: Simulator;
    /// A start does not write and sync the end of the log again.
    47 StartWritesNothingAgain: Tests;
    /// A damaged record is cut as a torn tail although valid records follow.
    48 TailCutBeforeValidRecords: Tests;
    /// An installed checkpoint is used before the log names it.
    49 CheckpointInForceEarly: Simulator;
    /// An old checkpoint is removed before the log names the new one.
    50 OldCheckpointRemovedEarly: Simulator;
    /// A leader with a disk that hangs does not hand over.
    52 LeaderKeepsHungDisk: Tests;
    /// A new leader evaluates updates before it applied an entry of its term.
    53 EvaluatesBeforeOwnTerm: Simulator;
    /// A repeat of an update in flight is evaluated as a new update.
    54 RepeatInFlightTakenAgain: Simulator;
    /// A data key is used before every member has it.
    55 DataKeyUsedEarly: Tests;
    /// Sealing secrets again overwrites a secret that changed meanwhile.
    56 ResealOverwritesChange: Tests;
    /// A restore leaves the serials as they were in the backup.
    57 RestoreWithoutSerialGap: Tests;
    /// `recover` drops entries that are not known to be committed.
    58 RecoverTakesCommittedOnly: Tests;
    /// An import is taken although chunks are missing.
    59 ImportWithMissingChunks: Tests;
    /// The feature level rises although a member does not report.
    60 FeatureLevelWithoutSilent: Tests;
    /// A member whose state differs from the majority's keeps running.
    61 NotFenced: Tests;
    /// A repeat from another source address gets the result of the first.
    62 RepeatToStranger: Simulator;
    /// A member refuses by its own copy without asking the leader.
    63 RefusesByOwnCopy: Simulator;
    /// Every fifth record of the log is not synced.
    64 RecordsNotSynced: Simulator;
    /// The directory is not synced after a new segment of the log.
    65 SegmentDirectoryNotSynced: Simulator;
    /// A checkpoint takes its name before it is synced.
    66 CheckpointNotSynced: Simulator;
    /// A recycled segment keeps its old bytes.
    67 SparesNotZeroed: Simulator;
    /// A member ignores that its leader knows of entries that its log lost.
    68 ContradictionIgnored: Tests;
    /// The client gets its answer when the leader has proposed the update.
    69 AcknowledgedWhenProposed: Simulator;
    /// A command whose result is unknown is sent again.
    70 CommandSentAgain: Tests;
    /// A removed member still answers queries.
    71 RemovedMemberAnswers: Tests;
    /// A node that joins again uses its old number in Raft.
    72 RaftIdReused: Tests;
    /// A leader takes an update that no policy allows.
    73 PolicyNotJudgedByLeader: Simulator;
    /// A SOA record in an update may set the serial back.
    74 SoaStepsBack: Tests;
    /// A leader takes an update that was signed with a secret no longer valid.
    75 OldSecretAccepted: Tests;
    /// A record of the log is written past the page cache and stays in the cache of the disk.
    76 LogWithoutDsync: Tests;
    /// A node never syncs the directory of its data.
    77 DirectoryNeverSynced: Tests;
    /// A node never syncs a file of its data.
    78 SyncsSkipped: Tests;
    /// The checksum of a record's body is not compared at a start.
    79 RecordChecksumIgnored: Tests;
    /// A member that cuts a torn record forgets that it may have held entries.
    80 TornTailTrusted: Tests;
    /// A member whose log may lack entries votes for logs without them.
    81 VotesDespiteLoss: Tests;
    /// The growth of a zone by one key has no limit.
    82 KeyGrowthUnlimited: Tests;
    /// A record of one sector has no seal after it.
    83 RecordsNotSealed: Tests;
    /// The state hash does not cover the time of the cluster.
    84 HashWithoutTime: Tests;
    /// The state hash does not cover imports that are not finished.
    85 HashWithoutImports: Tests;
    /// A member answers under a lease that has ended.
    86 LeaseNeverEnds: Tests;
    /// A segment that the log no longer needs is removed, not recycled.
    87 SegmentsNotRecycled: Tests;
    /// A write of the log ends inside a physical block of the disk.
    88 BlocksNotFilled: Tests;
    /// Each vote replaces the only copy in the file of votes.
    89 VoteInOneSlot: Tests;
    /// A repair takes entries that nothing proves to be the missing ones.
    90 UnprovenEntriesTaken: Tests;
    /// A repaired log takes its name before it is synced.
    91 RepairedLogNotSynced: Tests;
    /// A log without new entries never writes the commit index.
    92 IdleCommitNotWritten: Tests;
    /// A log without new entries never writes the time of the last contact with a leader.
    93 ContactNotNoted: Tests;
    /// Entries may leave memory before they are durable and applied.
    94 EntriesLeaveMemoryEarly: Tests;
    /// A follower proposes updates itself.
    95 FollowerProposes: Tests;
    /// A message of an unknown kind is read as one of a known kind.
    96 UnknownMessageTaken: Tests;
    /// A field that is not known is skipped in a change of membership.
    97 UnknownConfChangeFieldSkipped: Tests;
    /// The election timeout is drawn by raft, not from the seed.
    98 ElectionTimeoutNotDrawn: Tests;
    /// The members of a configuration are in the order of a hash map.
    99 ConfigurationNotSorted: Tests;
    /// A leader starts a linearizable read before the first commit of its term.
    100 ReadBeforeOwnTerm: Tests;
    /// A member follows a learner as its leader although another leader may be alive.
    101 LearnerLeadsAtOnce: Tests;
    /// A leader proposes its own removal.
    102 LeaderRemovesItself: Tests;
    /// A leader that applies its own removal continues to lead.
    103 RemovedLeaderLeads: Tests;
    /// A new leader stays in a joint configuration.
    104 JointConfigurationKept: Tests;
    /// A learner becomes a voter without a command.
    105 LearnerPromotedUnasked: Tests;
    /// A leader hands over to a member that does not respond.
    106 TransferToSilentMember: Tests;
    /// A member campaigns without a pre-vote.
    107 ElectionWithoutPreVote: Tests;
    /// The end of the leader's process does not start an election.
    108 EvidenceIgnored: Tests;
    /// A closed connection counts as the end of the leader's process.
    109 CampaignsWithoutEvidence: Tests;
    /// A stopping node does not wait for the outcomes of its updates.
    110 StopForgetsOutcomes: Tests;
    /// A leader without room on its disk does not hand over.
    111 FullLeaderStays: Tests;
    /// A member campaigns before the state of its checkpoint is in use.
    112 CampaignsWhileRestoring: Tests;
    /// Raft learns that entries are durable before the disk has them.
    113 PersistedBeforeDisk: Tests;
    /// A leader takes the rejection of an entry that was acknowledged.
    114 LateRejectionTaken: Tests;
    /// An update that fails adds nothing to the log.
    115 FailureNotLogged: Tests;
    /// All waiting commands share one flow.
    116 QueueNotShared: Tests;
    /// A member fills in the zone options that a command does not name.
    117 OptionsOfOwnCopy: Tests;
    /// A leader does not compare a new secret with the one that the key has.
    118 SecretNotCompared: Tests;
    /// A policy replaces rules that its author has not seen.
    119 RulesNotCompared: Tests;
    /// A leader evaluates any number of updates between two ticks.
    120 EvaluationUnlimited: Tests;
    /// A leader ignores how much memory the other members have.
    121 OnlyOwnMemoryCounts: Tests;
    /// A key may exceed its quotas.
    122 QuotaNotChecked: Tests;
    /// An import proposes its chunks without waiting for earlier ones.
    123 ImportUnlimited: Tests;
    /// A leader does not abandon an import that makes no progress.
    124 IdleImportKept: Tests;
    /// A reload does not see that only the TTL of a record changed.
    125 ReloadMissesTtl: Tests;
    /// A checkpoint is written only on request.
    126 CheckpointNeverDue: Tests;
    /// The checksum of a block is not compared when a checkpoint is read.
    127 BlockChecksumIgnored: Tests;
    /// A damaged checkpoint is not replaced.
    128 DamagedCheckpointStays: Tests;
    /// No entries stay in the log behind a checkpoint.
    129 NoEntriesBehindCheckpoint: Tests;
    /// A transfer of a checkpoint does not keep the log after it.
    130 TransferKeepsNoLog: Tests;
    /// Raft sees a snapshot message before the checkpoint has arrived.
    131 SnapshotSteppedEarly: Tests;
    /// A member that restarts during a transfer does not write its blocks again.
    132 BlocksNotWrittenAgain: Tests;
    /// A member that restarts during a transfer fetches all blocks again.
    133 BlocksFetchedAgain: Tests;
    /// A newer checkpoint of the leader ends a transfer.
    134 NewerCheckpointEndsTransfer: Tests;
    /// A transfer continues although the log has overtaken it.
    135 OvertakenTransferStays: Tests;
    /// Raft does not get the outcome of a snapshot.
    136 SnapshotOutcomeIgnored: Tests;
    /// A checkpoint that takes too long is not abandoned.
    137 LateCheckpointGoesOn: Tests;
    /// A fenced member writes a checkpoint of its wrong state.
    138 FencedWritesCheckpoint: Tests;
    /// A member sends a command above the feature level.
    139 CommandAboveLevelSent: Tests;
    /// A leader adds an entry above the feature level to its batch.
    140 EntryAboveLevel: Tests;
    /// A member skips an entry of newer software.
    141 UnknownEntrySkipped: Tests;
    /// A secret is stored without encryption.
    142 SecretsNotEncrypted: Tests;
    /// The rotation includes members that answer no clients.
    143 MemberWithoutClientsInRotation: Tests;
    /// The leader reports only how far the rotation has applied.
    144 LiveIndexNotReported: Tests;
    /// A member takes a lease that its earlier process requested.
    145 LeaseOfEarlierProcess: Tests;
    /// A lease survives a step of the wall clock.
    146 ClockStepIgnored: Tests;
    /// A member is back in the rotation as soon as it has caught up.
    147 ReturnsToRotationAtOnce: Tests;
    /// Raft gets an append with a hole between its entries.
    148 MalformedAppendTaken: Tests;
    /// The next leader evaluates a change on which a leader panicked.
    149 PanickingChangeSentAgain: Tests;
    /// A member that panics at a committed entry continues after it.
    150 PanickingEntrySkipped: Tests;
    /// A member without memory for an entry continues without it.
    151 EntryWithoutMemorySkipped: Tests;
    /// The history of a zone has no limit.
    152 HistoryUnlimited: Tests;
    /// A CA issues certificates before every member accepts it.
    153 CaUsedEarly: Tests;
    /// A failed sync counts as a success.
    154 FailedSyncIgnored: Tests;
    /// A tick is handled before the frames that arrived during a pause.
    155 TickBeforeFrames: Tests;
    /// Every connection is evidence about the process of a peer.
    156 EveryChannelIsEvidence: Tests;
    /// A refused connection does not show that the process of the peer died.
    157 RefusalIgnored: Tests;
    /// A node numbers a rotation by its own copy of the state, without a linearizable read.
    158 RotationWithoutRead: Tests;
    /// A read takes the answer of a member that was not asked.
    159 UnaskedAnswerTaken: Tests;
    /// A certificate of the cluster counts for every member.
    160 AnyCertificateTaken: Tests;
    /// Only the leader can issue certificates.
    161 OnlyLeaderIssues: Tests;
    /// Frames of a node that is not a member are accepted.
    162 StrangerAdmitted: Tests;
}
