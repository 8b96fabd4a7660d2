//! Random programs of appends, conflicts, installs, compactions and crashes, against a model.

use super::harness::{Contents, Draws, Machine, config_of_blocks, entry, hard_state, small_config};
use crate::log::{CheckpointRef, LogConfig, OpenError};
use crate::testing::MemoryDisk;
use proptest::prelude::*;
use raft::eraftpb::HardState;

/// All requests to the log so far: every state that a crash may leave.
struct Model {
    /// Every state of the entries, one entry at a time, each with its mark.
    states: Vec<(u64, Contents)>,
    /// Term, vote and commit by mark.
    hard_states: Vec<HardState>,
    /// By mark: the first index that it replaced, and whether it restarted the log.
    overwrites: Vec<(u64, bool)>,
    now: Contents,
    hard_state: HardState,
}

impl Model {
    fn new(now: Contents, hard_state: HardState) -> Self {
        Self {
            states: vec![(0, now.clone())],
            hard_states: vec![hard_state.clone()],
            overwrites: vec![(u64::MAX, false)],
            now,
            hard_state,
        }
    }

    fn next_mark(&self) -> u64 {
        self.hard_states.len() as u64
    }

    fn note(&mut self, first: u64, is_install: bool) {
        self.hard_states.push(self.hard_state.clone());
        self.overwrites.push((first, is_install));
    }

    /// Checks the state after a crash, if `acknowledged` was the newest reported mark.
    fn check(&self, acknowledged: u64, found: &Contents, found_state: &HardState) {
        let later = &self.overwrites[acknowledged as usize + 1..];
        let kept_until = later.iter().map(|(first, _)| first - 1).min().unwrap_or(u64::MAX);
        let is_installed = later.iter().any(|(_, is_install)| *is_install);
        let (_, promised) =
            self.states.iter().rev().find(|(mark, _)| *mark <= acknowledged).expect("mark 0 has a state");
        // Compaction is not acknowledged separately, so states are compared after the higher base.
        let matches = |state: &Contents| {
            let from = state.base.max(found.base) + 1;
            state.last() == found.last() && state.from(from) == found.from(from)
        };
        assert!(self.states.iter().any(|(_, state)| matches(state)), "a state that never was: {found:?}");
        let was_cleared = is_installed && found.base > promised.last();
        if !is_installed || !was_cleared && found.last() < promised.last() {
            let from = promised.base.max(found.base) + 1;
            let must: Vec<_> = promised.from(from).iter().take_while(|entry| entry.index <= kept_until).collect();
            let have: Vec<_> = found.from(from).iter().take(must.len()).collect();
            let install_took_them = is_installed && have.len() < must.len();
            assert!(have == must || install_took_them, "acknowledged entries are missing: {found:?}");
        }
        let old = &self.hard_states[acknowledged as usize];
        assert!(found_state.term >= old.term, "the term went back");
        assert!(found_state.term > old.term || old.vote == 0 || found_state.vote == old.vote, "the vote changed");
        assert!(found_state.commit >= old.commit.min(kept_until), "the commit index went back");
        let was_set = |state: &HardState| (state.term, state.vote) == (found_state.term, found_state.vote);
        assert!(self.hard_states.iter().any(was_set), "a vote that never was");
    }
}

/// Sizes of physical blocks: the disk's, and the size to which the log aligns its writes.
#[derive(Clone, Copy)]
struct Blocks {
    disk: usize,
    log: u64,
}

impl Blocks {
    const SECTORS: Self = Self { disk: 512, log: 512 };
    const LARGE: Self = Self { disk: 4096, log: 4096 };
    /// A disk that does not report the size of its blocks.
    const UNKNOWN: Self = Self { disk: 512, log: 4096 };

    fn config(self) -> LogConfig {
        config_of_blocks(self.log)
    }

    fn create(self) -> Machine {
        Machine::create_on(MemoryDisk::with_blocks(self.disk), self.config())
    }
}

/// Runs a random program; returns the number of crashes.
fn run(blocks: Blocks, seed: u64, steps: usize) -> usize {
    let mut draws = Draws(seed);
    let mut machine = blocks.create();
    machine.settle();
    let mut model = Model::new(machine.contents(), machine.log.hard_state().clone());
    let mut crashes = 0;
    for _ in 0..steps {
        match draws.below(20) {
            0..8 => append(&mut machine, &mut model, &mut draws),
            8 => vote(&mut machine, &mut model, &mut draws),
            9 => checkpoint(&mut machine, &model),
            10 if draws.below(4) == 0 => install(&mut machine, &mut model, &mut draws),
            11 => crashes += usize::from(crash(blocks, &mut machine, &mut model, &mut draws)),
            _ => {
                for _ in 0..draws.below(12) {
                    let bulk = draws.below(4) == 0;
                    machine.step(bulk);
                }
            }
        }
        machine.log.set_applied(machine.log.hard_state().commit.min(machine.log.durable_index()));
    }
    machine.settle();
    let next = model.next_mark();
    assert!(machine.mark.is_none_or(|mark| mark + 1 == next), "everything settled is acknowledged");
    assert!(model.now.from(machine.contents().base + 1) == machine.contents().entries);
    crashes
}

fn append(machine: &mut Machine, model: &mut Model, draws: &mut Draws) {
    let log = &mut machine.log;
    let commit = log.hard_state().commit;
    let mut first = log.last_index() + 1;
    if draws.below(5) == 0 && commit < log.last_index() {
        first = commit + 1 + draws.below(log.last_index() - commit);
    }
    let is_conflict = first <= log.last_index();
    let term = model.hard_state.term + u64::from(is_conflict || draws.below(6) == 0);
    let size = if draws.below(12) == 0 { 5000 } else { draws.below(400) as usize };
    let count = 1 + draws.below(6);
    let batch: Vec<_> = (first..first + count).map(|index| entry(index, term, size)).collect();
    let last = first + count - 1;
    let commit = commit + draws.below(last.min(first) - commit + 1).min(first - 1 - commit.min(first - 1));
    let vote = if term > model.hard_state.term { draws.below(3) } else { model.hard_state.vote };
    model.hard_state = hard_state(term, vote, commit);
    let mark = model.next_mark();
    log.append(batch.clone(), Some(&model.hard_state), mark);
    model.now.entries.truncate((first - 1 - model.now.base) as usize);
    for entry in batch {
        model.now.entries.push(entry);
        model.states.push((mark, model.now.clone()));
    }
    // Part of a batch does not reach its mark.
    let parts = model.states.len() - count as usize..model.states.len() - 1;
    model.states[parts].iter_mut().for_each(|(of, _)| *of = u64::MAX);
    model.note(first, false);
}

fn vote(machine: &mut Machine, model: &mut Model, draws: &mut Draws) {
    let HardState { term, commit, .. } = model.hard_state;
    model.hard_state = hard_state(term + 1, draws.below(4), commit);
    machine.log.append(Vec::new(), Some(&model.hard_state), model.next_mark());
    model.states.push((model.next_mark(), model.now.clone()));
    model.note(u64::MAX, false);
}

fn checkpoint(machine: &mut Machine, model: &Model) {
    let log = &mut machine.log;
    let index = log.hard_state().commit.min(log.durable_index());
    let Ok(term) = log.term(index) else { return };
    log.checkpointed(CheckpointRef { index, term, id: [7; 32] });
    log.compact(log.compact_target(None));
    assert!(log.first_index() > model.now.base);
}

fn install(machine: &mut Machine, model: &mut Model, draws: &mut Draws) {
    let index = machine.log.last_index() + 1 + draws.below(5);
    let term = model.hard_state.term;
    model.hard_state.commit = index;
    let mark = model.next_mark();
    machine.log.install(CheckpointRef { index, term, id: [9; 32] }, None, mark);
    model.now = Contents { base: index, entries: Vec::new() };
    model.states.push((mark, model.now.clone()));
    model.note(index, true);
}

/// A loss of power, or the end of the process, either alone or by a failed sync of one or of all unsynced files.
fn fail(disk: &mut MemoryDisk, draws: &mut Draws) {
    match draws.below(8) {
        0 => {}
        1 | 2 => {
            for file in disk.unsynced() {
                if draws.below(2) == 0 {
                    disk.fail_sync(&file, &mut |bound| draws.below(bound));
                }
            }
        }
        _ => _ = disk.crash(&mut |bound| draws.below(bound)),
    }
}

/// Crashes or kills the process and opens the log again, twice, to check that opening changes nothing.
fn crash(blocks: Blocks, machine: &mut Machine, model: &mut Model, draws: &mut Draws) -> bool {
    let had_unsynced = !machine.disk.is_synced();
    fail(&mut machine.disk, draws);
    let disk = std::mem::take(&mut machine.disk);
    let acknowledged = machine.mark.unwrap_or(0);
    let (opened, _) = Machine::open(disk, blocks.config()).unwrap_or_else(|error| panic!("{error}"));
    *machine = opened;
    let (found, found_state) = (machine.contents(), machine.log.hard_state().clone());
    model.check(acknowledged, &found, &found_state);
    // The first job may be cut short as well.
    for _ in 0..draws.below(6) {
        machine.step(false);
    }
    if !machine.log.is_durable() && draws.below(2) == 0 {
        let mut disk = machine.disk.clone();
        fail(&mut disk, draws);
        let (again, _) = Machine::open(disk, blocks.config()).unwrap_or_else(|error| panic!("again: {error}"));
        model.check(acknowledged, &again.contents(), again.log.hard_state());
        *machine = again;
    }
    machine.settle();
    assert!(machine.log.is_durable());
    // Data that is durable by now is on the disk, whether or not earlier syncs failed.
    let mut disk = machine.disk.clone();
    disk.crash(&mut |_| 0);
    let (dark, _) =
        Machine::open(disk, blocks.config()).unwrap_or_else(|error| panic!("after a loss of power: {error}"));
    assert_eq!(dark.contents(), machine.contents());
    assert_eq!(dark.log.hard_state(), machine.log.hard_state());
    let (again, repairs) = Machine::open(machine.disk.clone(), blocks.config()).unwrap();
    assert_eq!(repairs, [], "a repair is needed only once");
    assert_eq!(again.contents(), machine.contents());
    assert_eq!(again.log.hard_state(), machine.log.hard_state());
    *model = Model::new(machine.contents(), machine.log.hard_state().clone());
    had_unsynced
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_acknowledged_is_lost_in_any_crash(seed: u64) {
        for blocks in [Blocks::SECTORS, Blocks::LARGE, Blocks::UNKNOWN] {
            run(blocks, seed, 120);
        }
    }
}

#[test]
fn the_random_programs_have_many_crashes_with_unsynced_writes() {
    for blocks in [Blocks::SECTORS, Blocks::LARGE, Blocks::UNKNOWN] {
        let crashes: usize = (0..200).map(|seed| run(blocks, seed, 150)).sum();
        assert!(crashes > 200, "{crashes}");
    }
}

/// A fixed program, interrupted after every operation, with several outcomes for unsynced data: 10,000 points.
#[test]
fn ten_thousand_cut_points() {
    cut_points(Blocks::SECTORS);
}

#[test]
fn ten_thousand_cut_points_on_a_disk_with_large_physical_blocks() {
    cut_points(Blocks::LARGE);
    cut_points(Blocks::UNKNOWN);
}

fn cut_points(blocks: Blocks) {
    let mut cuts = 0;
    for program in 0.. {
        if cuts >= 10_000 {
            break;
        }
        let mut draws = Draws(program * 7919);
        let mut machine = blocks.create();
        machine.settle();
        let mut model = Model::new(machine.contents(), machine.log.hard_state().clone());
        for _ in 0..60 {
            match draws.below(8) {
                0 => vote(&mut machine, &mut model, &mut draws),
                1 => checkpoint(&mut machine, &model),
                _ => append(&mut machine, &mut model, &mut draws),
            }
            while machine.step(draws.below(3) == 0) {
                let acknowledged = machine.mark.unwrap_or(0);
                for _ in 0..2 {
                    let mut disk = machine.disk.clone();
                    disk.crash(&mut |bound| draws.below(bound));
                    let (found, _) = Machine::open(disk, blocks.config()).unwrap_or_else(|error| panic!("{error}"));
                    model.check(acknowledged, &found.contents(), found.log.hard_state());
                    cuts += 1;
                }
            }
            machine.log.set_applied(machine.log.hard_state().commit);
        }
    }
}

#[test]
fn a_crash_while_the_log_is_made_leaves_none_or_a_whole_one() {
    for seed in 0..300 {
        let mut draws = Draws(seed);
        let mut machine = Machine::create(small_config());
        for _ in 0..draws.below(14) {
            machine.step(false);
        }
        let was_durable = machine.log.is_durable();
        let mut disk = machine.disk.clone();
        disk.crash(&mut |bound| draws.below(bound));
        match Machine::open(disk, small_config()) {
            Ok((found, _)) => assert_eq!(found.log.last_index(), 0),
            Err(OpenError::Uninitialised) => assert!(!was_durable, "seed {seed}"),
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
}

/// A failed sync ends the process, and nothing reaches the disk. The next process reads the data from the kernel's
/// memory.
#[test]
fn data_of_a_failed_sync_is_durable_before_it_is_acknowledged() {
    // The sync of the segment or of the vote fails, in the present segment or in the next one.
    for (is_vote, size) in [(false, 100), (false, 4_000), (true, 100)] {
        let mut machine = Machine::create(small_config());
        machine.settle();
        machine.log.append(vec![entry(1, 1, 100)], Some(&hard_state(1, 1, 1)), 1);
        machine.settle();
        machine.log.append(vec![entry(2, 2, size)], Some(&hard_state(2, 2, 1)), 2);
        let is_there = |machine: &Machine| {
            let (found, _) = Machine::open(machine.disk.clone(), small_config()).unwrap();
            if is_vote { found.log.hard_state().term == 2 } else { found.log.last_index() == 2 }
        };
        while !is_there(&machine) {
            assert!(machine.step(false), "nothing is written");
        }
        for file in machine.disk.unsynced() {
            machine.disk.fail_sync(&file, &mut |_| 0);
        }
        let (mut machine, _) = Machine::open(machine.disk, small_config()).unwrap();
        let (found, state) = (machine.contents(), machine.log.hard_state().clone());
        assert_eq!((found.last(), state.term), (if is_vote { 1 } else { 2 }, 2));
        machine.settle();
        machine.disk.crash(&mut |_| 0);
        let (machine, _) = Machine::open(machine.disk, small_config()).unwrap();
        assert_eq!((machine.contents(), machine.log.hard_state()), (found, &state));
    }
}
