//! Limits of this crate (units last).

/// Bytes of one encoded entry; larger changes are refused at evaluation.
pub const ENTRY_BYTES_MAX: usize = 6 << 20;
/// Bytes of entries in one append message to send, unless a single entry is larger.
pub const MESSAGE_BYTES: usize = 1 << 20;
/// Bytes of one peer frame: an append message that ends with the largest entry, and its envelope.
pub const FRAME_BYTES_MAX: usize = MESSAGE_BYTES + ENTRY_BYTES_MAX + (1 << 20);
/// Bytes of the manifest in a snapshot message.
pub const SNAPSHOT_DATA_BYTES_MAX: usize = 1 << 20;
/// Entries of one append message.
pub const MESSAGE_ENTRIES_MAX: usize = 65_536;
/// Bytes of a `context` of a raft message.
pub const MESSAGE_CONTEXT_BYTES_MAX: usize = 64;
/// Bytes of the context of a raft entry (membership changes).
pub const ENTRY_CONTEXT_BYTES_MAX: usize = 512;
/// Largest term or index that a peer may send. Normal operation never reaches it.
pub const RAFT_NUMBER_MAX: u64 = 1 << 62;
/// Members in one configuration, learners included.
pub const MEMBERS_MAX: usize = 64;
/// Unknown peers that a replica accepts because a member confirms their membership.
pub const CONFIRMED_PEERS_MAX: usize = MEMBERS_MAX;
/// A member that has heard no leader for this long also accepts a leader that it knows as a learner. The learner may
/// have become a voter in the meantime, and may be the only member that can lead.
pub const LEADERLESS_MS: u64 = 3_000;
/// How often the leader of a term must contradict this member's log before the member ends.
pub const CONTRADICTIONS_MIN: u32 = 5;
/// How long it must continue: about 20 heartbeats.
pub const CONTRADICTED_MS: u64 = 1_000;
/// How long a contradiction counts if it is not repeated.
pub const CONTRADICTION_KEPT_MS: u64 = 1_000;
/// How long a member with a torn last record must know no leader before it reports the end of its log. It repeats the
/// report to the other voters at the same interval.
pub const POSITION_SENT_MS: u64 = 500;
/// Interval between reports that a member waits because of a torn record, while it waits for the same members.
pub const LOSS_REPORTED_MS: u64 = 60_000;
/// Largest number of voters for which two are a majority, so that a follower can commit with its leader
/// (`docs/internals/decisions/0022`).
pub const FOLLOWER_COMMIT_VOTERS_MAX: usize = 3;
/// Entries that a learner may lag behind and still become a voter.
pub const LEARNER_LAG_MAX: u64 = 100;
/// Bytes of a member's address.
pub const ADDRESS_BYTES_MAX: usize = 255;
/// Grants of all keys.
pub const GRANTS_MAX: usize = 1_000_000;
/// Keys that a member may use in its certificate: the present one, and the next during a renewal.
pub const PINS_PER_MEMBER_MAX: usize = 2;
/// CAs whose certificates are accepted: the one that issues, and one that is being added or removed.
pub const CAS_MAX: usize = 2;
/// Bytes of a CA's certificate.
pub const CERTIFICATE_BYTES_MAX: usize = 8 << 10;
/// Bytes of a CA's private key.
pub const CA_KEY_BYTES_MAX: usize = 4 << 10;
/// Owners and types that the audit record of one update names.
pub const AUDIT_NAMES_MAX: usize = 8;
/// Bytes of the names of those owners.
pub const AUDIT_NAMES_BYTES_MAX: usize = 512;
/// Secrets that one entry reseals.
pub const RESEALED_MAX: usize = 1_024;
/// Data keys that a member holds: the current one, the next one, and earlier ones that still seal something.
pub const DATA_KEYS_MAX: usize = 16;
/// Unused join tokens.
pub const TOKENS_MAX: usize = 1_024;
/// Zones.
pub const ZONES_MAX: usize = 10_000_000;
/// Serials of removed zones that are remembered, so the serial of a zone that is added again does not go back.
pub const RETIRED_ZONES_MAX: usize = 100_000;
/// Bytes of an UPDATE message.
pub const UPDATE_BYTES_MAX: usize = 65_535;

/// Executed updates that are remembered to recognize repeats (`session_count_max`): 300 s at 20,000 updates per
/// second, longer than a client repeats one (290 s). They take 290 MB (`docs/internals/decisions/0019`).
pub const SESSION_COUNT_MAX: usize = 6_000_000;
/// Updates signed within this many seconds of the present count as signed now. While the oldest remembered update is
/// that recent, updates signed further ahead are forgotten first. Updates of twice this time fill the table at 50,000
/// per second.
pub const SESSION_NEAR_S: u64 = 60;
/// Sessions per page. A page is copied as a whole.
pub const SESSION_PAGE_MAX: usize = 256;
/// The largest possible Time Signed: it has 48 bits (RFC 8945 4.2).
pub const TIME_SIGNED_MAX: u64 = (1 << 48) - 1;
/// Floors of single keys. Beyond this number, the lowest are merged into the floor of all keys.
pub const SESSION_FLOORS_MAX: usize = 100_000;
/// Differences that one zone keeps for IXFR.
pub const HISTORY_COUNT_MAX: usize = 1_000;
/// Bytes of differences that one zone keeps for IXFR.
pub const HISTORY_BYTES_MAX: usize = 1 << 20;
/// Bytes of differences that all zones together keep for IXFR; the oldest are dropped first.
pub const HISTORY_TOTAL_BYTES_MAX: usize = 256 << 20;
/// State hashes of recent indexes kept for comparison.
pub const HASH_RING_MAX: usize = 8_192;
/// The hash at every multiple of this index is kept longer, so that far-lagging members can be compared too.
pub const SPARSE_HASH_STEP: u64 = 1_024;
/// Number of those hashes to keep. A member that lags further behind gets a checkpoint.
pub const SPARSE_HASHES_MAX: usize = 1_024;

/// Records of one owner up to which two versions of a zone are compared pairwise; more use a table.
pub const SIDE_BY_SIDE_MAX: usize = 16;
/// Bytes of records in one import chunk.
pub const IMPORT_CHUNK_BYTES_MAX: usize = 256 << 10;
/// Bytes of records in an import chunk that this version writes, small enough for one background step.
pub const IMPORT_CHUNK_BYTES: usize = 64 << 10;
/// Chunks of one import.
pub const IMPORT_CHUNKS_MAX: u32 = 1 << 20;
/// Chunks of one import that are proposed and not yet applied, so that updates interleave.
pub const IMPORT_CHUNKS_IN_FLIGHT_MAX: usize = 4;
/// Imports staged at the same time.
pub const IMPORT_STAGES_MAX: usize = 16;
/// Entries after which an abandoned stage expires, counted from its latest chunk.
pub const IMPORT_STAGE_ENTRIES_MAX: u64 = 1_000_000;
/// Time without an entry after which an import counts as abandoned. One step may be logged at the start of its
/// driver's wait and the next at the end of the following wait. The rest allows for different clock rates.
pub const IMPORT_IDLE_MS: u64 = 2 * ADMIN_WAIT_MS + ADMIN_WAIT_MS / 10;

/// Evaluated requests that are proposed and not applied. Others wait in the shared queue. With 20 ms from proposal to
/// application this allows 200,000 per second.
pub const PROPOSALS_IN_FLIGHT_MAX: usize = 4_096;
/// Bytes of these entries. Raft drops proposals above a limit that is higher by more than one entry.
pub const PROPOSALS_IN_FLIGHT_BYTES_MAX: usize = 32 << 20;
/// Bytes that proposals in flight have copied in the memory of zones. Unapplied versions keep these copies. The
/// largest possible number of small updates in flight takes half of this.
pub const COPIED_IN_FLIGHT_BYTES_MAX: u64 = 32 << 20;
/// Copied bytes after which a batch ends. The largest possible number of small updates in a batch takes half of this.
pub const BATCH_COPIED_BYTES_MAX: u64 = 8 << 20;
/// Evaluation work between two ticks, in bytes read and copied: about 5 ms, half of a tick. The rest waits in the
/// shared queue.
pub const EVALUATION_WORK_MAX: u64 = 4 << 20;
/// Work per update that is not counted, so that small updates are never delayed.
pub const EVALUATION_WORK_FREE: u64 = 16 << 10;
/// Work counted for each record that an update reads, in addition to its bytes.
pub const EVALUATION_WORK_RECORD: u64 = 128;
/// Bytes that applied entries may copy before their changes are published. Unpublished versions only take memory.
pub const UNPUBLISHED_BYTES_MAX: u64 = 8 << 20;
/// Pairs of key and zone whose growth is counted at the same time; the smallest are forgotten.
pub const GROWTH_ACCOUNTS_MAX: usize = 10_000;
/// Interval between a member's reports of its zones' memory.
pub const MEMORY_REPORT_MS: u64 = 500;
/// Interval between a member's reports on whether its log is short of room.
pub const DISK_REPORT_MS: u64 = 500;
/// How long such a report is valid.
pub const DISK_FRESH_MS: u64 = 4 * DISK_REPORT_MS;
/// Number of bytes of a join token's digest in the token's id.
pub const TOKEN_ID_BYTES: usize = 6;
/// Interval between a member's reports of its clock.
pub const CLOCK_REPORT_MS: u64 = 1_000;
/// How long such a report is valid.
pub const CLOCK_FRESH_MS: u64 = 10 * CLOCK_REPORT_MS;
/// Largest difference between a member's clock and the median of all, and between entry times and the clocks. TSIG
/// allows 300 s (RFC 8945 10).
pub const CLOCK_DIFFERENCE_MS_MAX: u64 = 60_000;
/// The beginning of 2023. A clock that shows an earlier time was never set.
pub const WALL_MS_MIN: u64 = 1_672_531_200_000;
/// Delay before a leader again proposes to move entry times back.
pub const PROPOSE_CLOCK_MS: u64 = 1_000;
/// Longest lifetime of a join token.
pub const TOKEN_LIFE_MS_MAX: u64 = 3_600_000;
/// Entries proposed in one batch.
pub const PROPOSAL_BATCH_MAX: usize = 1_024;
/// Requests that wait for evaluation at the leader.
pub const EVALUATION_QUEUE_MAX: usize = 16_384;
/// Bytes of the large requests among them.
pub const LARGE_COMMANDS_BYTES_MAX: usize = 64 << 20;
/// Bytes of an update that still counts as small: some tens of records.
pub const SMALL_UPDATE_BYTES_MAX: usize = 4 << 10;
/// Updates of this replica's clients that wait for their outcome.
pub const UPDATES_WAITING_MAX: usize = 65_536;
/// Clients that wait for the same update. A client repeats its message a few times.
pub const UPDATE_CLIENTS_MAX: usize = 64;
/// Administrators' commands that wait for their outcome.
pub const ADMIN_WAITING_MAX: usize = 64;
/// Reads that wait for a confirmed index.
pub const READS_WAITING_MAX: usize = 1_024;
/// Updates to be refused that first wait for a confirmed index.
pub const REFUSALS_WAITING_MAX: usize = 1_024;
/// How long an update waits for its outcome, elections included.
pub const UPDATE_WAIT_MS: u64 = 2_500;
/// How long an unanswered forward or read index request waits before it is sent again.
pub const FORWARD_AGAIN_MS: u64 = 400;
/// Window of forwarded commands per peer, back from the newest, in which repeats are detected. Older ones are rejected.
pub const FORWARDS_SEEN_MAX: usize = 4_096;
/// Peers with such a window: members, removed members that do not know it yet, and new members that this one does not
/// know yet.
pub const FORWARDS_SEEN_PEERS_MAX: usize = 2 * MEMBERS_MAX;
/// How long a change waits for lagging members before it is reported as done.
pub const ALL_LIVE_WAIT_MS: u64 = 2_000;
/// Requests that wait for all live members at a leader.
pub const ALL_LIVE_WAITING_MAX: usize = ADMIN_WAITING_MAX * MEMBERS_MAX;
/// How long a step of an administrator's command waits for its outcome.
pub const ADMIN_WAIT_MS: u64 = 30_000;
/// How long a leadership transfer may take: several attempts, each as long as an election.
pub const TRANSFER_WAIT_MS: u64 = 3_000;
/// How long a read waits for a confirmed index.
pub const READ_WAIT_MS: u64 = 2_500;

/// Default step by which the serials of a restored cluster jump ahead; half of [`SERIAL_GAP_MAX`]. The old cluster may
/// have made a billion changes that the backup lacks. A secondary may be behind by as many.
pub const RESTORE_SERIAL_GAP: u32 = 1 << 30;
/// Largest serial step whose result is still newer (RFC 1982 3.1).
pub const SERIAL_GAP_MAX: u32 = (1 << 31) - 1;

/// Time after which a background step runs even if the machine was never idle.
pub const BACKGROUND_WAIT_MS: u64 = 50;

/// How long an administrator waits for a requested checkpoint.
pub const CHECKPOINT_WAIT_MS: u64 = 600_000;

/// Waiting reads of older entries. Raft asks again for more.
pub const LOG_FETCHES_WANTED_MAX: usize = 64;
/// Upper limit of the random election timeout, in ticks.
pub const ELECTION_TICK_MAX: usize = 60;
/// Ticks without a leader's message after which a learner knows of no leader. By then voters would have elected
/// another.
pub const LEARNER_SILENCE_TICKS: usize = 2 * ELECTION_TICK_MAX;

/// If the oldest unwritten entry of a leader is older, it transfers the leadership.
pub const DISK_HUNG_TRANSFER_MS: u64 = 500;
/// If the oldest unwritten entry of a replica is older, the replica stops.
pub const DISK_HUNG_ABORT_MS: u64 = 10_000;
/// The most that one tick adds to this process's running time. If the process was stopped or suspended, that time must
/// not count against its disk or its leader.
pub const RUNNING_STEP_MS_MAX: u64 = 100;
/// Wait between the campaigns of two voters after a leader's death, times their rank.
pub const CAMPAIGN_RANK_MS: u64 = 30;
/// A restarted replica that hears no leader answers after this time, marked stale.
pub const START_STALE_AFTER_MS: u64 = 5_000;
/// The same delay for a replica whose log holds more entries than it knows to be committed. It answers without those
/// entries, so its serials may be older than before. Therefore it waits longer for a leader.
pub const START_BEHIND_AFTER_MS: u64 = 15_000;
/// Interval between reports of the leader (commit index, state hash, time).
pub const REPORT_MS: u64 = 50;
/// The number of reports per comparison of the state at an index that all members have reached.
pub const REPORTS_PER_COMPARISON: u64 = 20;
/// A member gets the leadership only if it answered within this time: four reports, which is less than raft's timeout
/// of a transfer.
pub const SUCCESSOR_ALIVE_MS: u64 = 4 * REPORT_MS;
/// How long a member may answer for zones of `ack = all-live` after it requested a lease.
pub const LEASE_MS: u64 = 1_000;
/// Largest difference between the wall clock and the monotonic clock over the length of a lease. The difference is
/// larger on a machine that was paused, once its wall clock is corrected. The leader waits this much longer than a
/// lease.
pub const LEASE_CLOCK_STEP_MS_MAX: u64 = LEASE_MS / 10;
/// Lease requests that a member remembers: one per report, as long as a grant is valid.
pub const LEASES_REQUESTED_MAX: usize = (2 * LEASE_MS / REPORT_MS) as usize;
/// How long the leader assumes that a member answers after its last granted request: the lease, plus a margin for clock
/// drift.
pub const LEASE_GUARD_MS: u64 = LEASE_MS + LEASE_MS / 10;
/// Entries that a member outside the rotation may lag behind and still join it.
pub const ROTATION_LAG_MAX: u64 = 100;
/// How long a member must have caught up before it joins the rotation.
pub const ROTATION_CAUGHT_UP_MS: u64 = 5_000;
/// How long a rotation stays after the last zone needed it.
pub const ROTATION_UNUSED_MS: u64 = 10_000;
/// Batches of updates that a leader tracks until all members show them.
pub const ROTATION_BATCHES_MAX: usize = 4_096;
/// Reports whose send time a leader remembers. Answers to older ones are ignored.
pub const REPORTS_SENT_MAX: usize = 20;
/// Interval at which the last leader contact is written to disk if nothing else is. A restarted replica may
/// overestimate its staleness by this much.
pub const CONTACT_NOTE_MS: u64 = 10_000;
/// How long a stopping replica waits for a new leader, if it leads, and for the outcomes of its clients' updates.
pub const STOP_WAIT_MS: u64 = 2_000;
