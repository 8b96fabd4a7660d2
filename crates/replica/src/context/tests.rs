//! Components of a follower that knows no leader.

use super::*;
use crate::DataKey;
use crate::background::IdleTime;
use crate::clock::Clocks;
use crate::disk::{DiskOp, DiskQueue};
use crate::failover::Evidence;
use crate::io::{AdminReply, FatalReason, Member, Output, ReadIndexError, Serving};
use crate::limits::{BACKGROUND_WAIT_MS, CAMPAIGN_RANK_MS, CLOCK_REPORT_MS, READ_WAIT_MS};
use crate::log::{CheckpointRef, Log, LogId};
use crate::log_jobs::LogJobs;
use crate::machine::empty_machine;
use crate::raft::LogStorage;
use crate::reads::{ReadPurpose, Reads};
use ::raft::eraftpb::ConfState;
use zone::set::StoreConfig;

/// Member 1 of three voters, before any election.
struct Follower {
    local: Local,
    driver: Driver,
    machine: Machine,
    outputs: Outputs,
}

fn driver_of(config: &ReplicaConfig) -> Driver {
    let id = LogId { cluster: config.cluster_id, member: config.id, group: 0 };
    let log = Log::create(id, CheckpointRef::default(), config.log.clone());
    let mut conf_state = ConfState::default();
    conf_state.set_voters(vec![1, 2, 3]);
    Driver::new(config.id, config.seed, LogStorage::new(log, conf_state), 0)
}

impl Follower {
    fn new() -> Self {
        let mut config = ReplicaConfig::new([7; 16], 1, 1 << 32, 5, DataKey::new(1, &[9; 32]));
        config.store = StoreConfig { reserve_bytes: 64 << 20, huge_pages: false };
        let members: Vec<_> = (1..=3).map(|id| Member { id, address: format!("[::1]:{}", 7_000 + id) }).collect();
        let settings = Settings::genesis(config.cluster_id, &members, config.feature_level);
        let machine = empty_machine(&config, settings).unwrap();
        let driver = driver_of(&config);
        let local = Local::new(config, Now { monotonic_ms: 1_000, wall_ms: 1_800_000_000_000 }, 0);
        Self { local, driver, machine, outputs: Outputs::new(0) }
    }

    /// The outputs since the last call.
    fn take(&mut self) -> Vec<Output> {
        core::iter::from_fn(|| self.outputs.pop()).collect()
    }

    fn receivers(&mut self) -> Vec<NodeId> {
        let sent = self.take().into_iter().map(|output| match output {
            Output::Send { to, .. } => to,
            other => panic!("{other:?}"),
        });
        sent.collect()
    }
}

#[test]
fn fenced_or_removed_member_never_answers_again() {
    let (mut fenced, mut removed, mut outputs) = (Lifecycle::default(), Lifecycle::default(), Outputs::new(0));
    for lifecycle in [&mut fenced, &mut removed] {
        lifecycle.set_serving(Serving::Yes, &mut outputs);
        assert_eq!(lifecycle.serving(), Serving::Yes);
    }
    fenced.is_fenced_by_hash = true;
    fenced.set_serving(Serving::Yes, &mut outputs);
    removed.set_removal(Removal::Out, &mut outputs);
    removed.set_removal(Removal::Decided, &mut outputs);
    removed.set_serving(Serving::Stale, &mut outputs);
    assert_eq!((fenced.serving(), removed.serving()), (Serving::No, Serving::No));
    let reported = core::iter::from_fn(|| outputs.pop()).filter(|output| matches!(output, Output::Removed { .. }));
    assert_eq!(reported.count(), 1, "a removal does not go back");
}

#[test]
fn end_is_reported_once_and_a_pending_reason_delays_it() {
    let (mut lifecycle, mut outputs) = (Lifecycle::default(), Outputs::new(0));
    lifecycle.pending_fatal = Some(FatalReason::MemoryFull);
    lifecycle.stopped(&mut outputs);
    assert_eq!((lifecycle.stop, outputs.pop().is_none()), (Stop::Written, true));
    lifecycle.end(FatalReason::MemoryFull, &mut outputs);
    lifecycle.end(FatalReason::Damaged, &mut outputs);
    assert_eq!(lifecycle.fatal_reason(), Some(FatalReason::MemoryFull));
    let fatal = core::iter::from_fn(|| outputs.pop()).filter(|output| matches!(output, Output::Fatal { .. }));
    assert_eq!(fatal.count(), 1);
}

#[test]
fn clean_up_has_no_reply_and_files_are_removed_before_the_directory_is_synced() {
    let mut outputs = Outputs::new(0);
    outputs.admin_done(NO_REQUEST, Ok(AdminReply::Done));
    outputs.remove_files(Vec::new());
    assert!(outputs.is_empty());
    outputs.remove_files(vec!["old".to_owned()]);
    let Some(Output::Disk(job)) = outputs.pop() else { panic!("no job") };
    assert_eq!(job.queue, DiskQueue::Bulk);
    assert!(matches!(&job.ops[..], [DiskOp::Remove { file }, DiskOp::SyncDir] if file == "old"), "{:?}", job.ops);
}

#[test]
fn background_step_waits_for_idle_time_but_not_forever() {
    let (mut background, mut outputs) = (IdleTime::default(), Outputs::new(0));
    assert!(!background.start_step(|| false, 0, &mut outputs) && outputs.is_empty());
    assert!(background.start_step(|| true, 0, &mut outputs));
    assert!(matches!(outputs.pop(), Some(Output::AwaitIdle)));
    background.tick(BACKGROUND_WAIT_MS - 1);
    assert!(!background.start_step(|| true, BACKGROUND_WAIT_MS - 1, &mut outputs));
    background.tick(BACKGROUND_WAIT_MS);
    assert!(background.start_step(|| true, BACKGROUND_WAIT_MS, &mut outputs));
    assert!(outputs.is_empty(), "the shell was asked already");
    background.note_idle();
    assert!(background.start_step(|| true, BACKGROUND_WAIT_MS, &mut outputs) && !outputs.is_empty());
}

#[test]
fn log_jobs_report_the_age_of_the_oldest() {
    let follower = Follower::new();
    let mut jobs = LogJobs::new(0, follower.driver.log().contact_wall_ms());
    assert_eq!(jobs.oldest_ms(50), None);
    jobs.issued(follower.driver.log(), 100);
    jobs.issued(follower.driver.log(), 150);
    assert_eq!(jobs.oldest_ms(400), Some(300));
    jobs.written();
    assert_eq!(jobs.oldest_ms(400), Some(250));
    jobs.restart(380);
    assert_eq!(jobs.oldest_ms(400), Some(20), "waiting for room is not a disk fault");
    assert!(!jobs.is_fetch(1) && jobs.take_fetched(1).is_empty());
    assert!((0..100).all(|_| !jobs.tick(follower.driver.log(), false)), "nothing new to record");
}

#[test]
fn clock_is_reported_to_the_others_at_an_interval() {
    let (mut clocks, mut follower) = (Clocks::default(), Follower::new());
    let mut tick = |follower: &mut Follower| {
        let context = Context::new(&follower.local, &follower.driver, &follower.machine);
        assert!(!clocks.tick(&context, &mut follower.outputs), "only a leader moves entry times");
        follower.receivers()
    };
    assert_eq!(tick(&mut follower), [2, 3]);
    follower.local.now.monotonic_ms += CLOCK_REPORT_MS - 1;
    assert_eq!(tick(&mut follower), []);
    follower.local.now.monotonic_ms += 1;
    assert_eq!(tick(&mut follower), [2, 3]);
}

#[test]
fn follower_campaigns_in_its_slot_after_the_leader_died() {
    let (mut evidence, mut follower) = (Evidence::default(), Follower::new());
    assert!(!evidence.connected(3, 7) && !evidence.connected(3, 7));
    assert!(evidence.connected(3, 8), "another process");
    // This member is the first of the voters that remain.
    for dead in [3, 2] {
        evidence.plan_campaign(&Context::new(&follower.local, &follower.driver, &follower.machine), dead);
        let mut takes = |follower: &Follower, may| {
            evidence.takes_campaign(&Context::new(&follower.local, &follower.driver, &follower.machine), may)
        };
        assert!(!takes(&follower, false), "a fenced member waits");
        assert!(takes(&follower, true));
        assert!(!takes(&follower, true), "once");
    }
    // Voter 1 of the others comes first.
    follower.local.config.id = 2;
    follower.driver = driver_of(&follower.local.config);
    evidence.plan_campaign(&Context::new(&follower.local, &follower.driver, &follower.machine), 3);
    let mut takes = |follower: &Follower| {
        evidence.takes_campaign(&Context::new(&follower.local, &follower.driver, &follower.machine), true)
    };
    assert!(!takes(&follower), "its slot has not come");
    follower.local.now.monotonic_ms += CAMPAIGN_RANK_MS;
    assert!(takes(&follower));
}

#[test]
fn read_without_a_leader_expires() {
    let (mut reads, mut follower) = (Reads::new(1), Follower::new());
    let Follower { local, driver, machine, outputs, .. } = &mut follower;
    let context = Context::new(local, driver, machine);
    assert_eq!(reads.begin(&context, outputs, ReadPurpose::Shell(9)), None);
    assert!(outputs.is_empty(), "there is no leader to ask");
    assert!(reads.take_applied(u64::MAX).is_empty() && reads.take_expired(1_000).is_empty());
    let expired = reads.take_expired(1_000 + READ_WAIT_MS);
    assert_eq!(expired.len(), 1);
    assert!(matches!(expired[0].purpose, ReadPurpose::Shell(9)));
    assert_eq!(expired[0].result, Err(ReadIndexError::TimedOut));
    // An answer that nobody asked for changes nothing, and one from a peer that was not asked is counted.
    reads.handle_peer_answer(2, 1, 5, outputs);
    assert_eq!(outputs.invariant_violations.refused_messages, 0);
    assert_eq!(reads.begin(&context, outputs, ReadPurpose::Shell(10)), None);
    reads.handle_peer_answer(2, 2, 5, outputs);
    assert_eq!(outputs.invariant_violations.refused_messages, 1);
    assert!(reads.take_applied(u64::MAX).is_empty());
}
