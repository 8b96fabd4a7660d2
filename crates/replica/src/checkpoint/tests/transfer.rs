//! Transfers over connections that break, and from sources that repeat or falsify blocks.

use super::{Items, write};
use crate::checkpoint::limits::{BAD_BLOCKS_MAX, FETCH_STALL_MS, FETCH_WINDOW_MAX, OFFER_LEASE_MS};
use crate::checkpoint::{
    CheckpointFetcher, CheckpointReader, CheckpointServer, DamageKind, FetchError, FetchOutput, FetchState, Manifest,
    ServerOutput, TransferFrame,
};
use crate::disk::{DiskOp, DiskRead, Tickets};
use crate::testing::MemoryDisk;
use proptest::prelude::*;

const FOLLOWER: u64 = 7;

/// A member that has the checkpoint.
struct Source {
    id: u64,
    disk: MemoryDisk,
    server: CheckpointServer,
    tickets: Tickets,
}

impl Source {
    fn new(id: u64, small: usize, large: usize) -> (Self, Manifest) {
        let (mut disk, mut tickets) = (MemoryDisk::default(), Tickets::default());
        let (manifest, table) = write(&mut disk, Items::new(small, large), &mut tickets);
        let mut server = CheckpointServer::default();
        server.offer(manifest.clone(), table);
        (Self { id, disk, server, tickets }, manifest)
    }

    /// Answers a frame.
    fn answer(&mut self, frame: &TransferFrame) -> Vec<TransferFrame> {
        self.server.handle(FOLLOWER, frame, 0);
        let mut frames = Vec::new();
        while let Some(output) = self.server.poll(&mut self.tickets) {
            match output {
                ServerOutput::Read(read) => {
                    let bytes = self.disk.read(&read.file, read.offset, read.len).unwrap();
                    assert_eq!(self.server.file_read(read.ticket, bytes), Ok(true));
                }
                ServerOutput::Send { to, frame } => {
                    assert_eq!(to, FOLLOWER);
                    frames.push(frame);
                }
            }
        }
        frames
    }
}

/// Runs a transfer over a network whose faults `fate` decides; returns the receiver's disk and the number of blocks
/// sent.
fn transfer(sources: &mut [Source], manifest: &Manifest, mut fate: impl FnMut(u64) -> u64) -> (MemoryDisk, usize) {
    let (mut disk, mut tickets) = (MemoryDisk::default(), Tickets::default());
    let mut fetcher = CheckpointFetcher::new(manifest.clone(), sources[0].id, false, 0);
    let mut at = 0;
    let mut flying: Vec<TransferFrame> = Vec::new();
    let mut blocks = 0;
    let mut now_ms = 0;
    for _ in 0..100_000 {
        match fetcher.poll(&mut tickets) {
            Some(FetchOutput::Send { to, frame }) => {
                assert_eq!(to, sources[at].id);
                let answers = sources[at].answer(&frame);
                blocks += answers.len();
                flying.extend(answers);
                assert!(flying.len() <= 4 * FETCH_WINDOW_MAX);
            }
            Some(FetchOutput::Disk(job)) => {
                job.ops.iter().for_each(|op| disk.execute(op));
                assert!(fetcher.persisted(job.ticket));
            }
            Some(FetchOutput::Read(read)) => panic!("nothing is left of an earlier transfer: {read:?}"),
            None if fetcher.state() == FetchState::Whole => {
                assert!(fetcher.into_parts().is_some());
                return (disk, blocks);
            }
            None if flying.is_empty() => {
                now_ms += FETCH_STALL_MS;
                fetcher.tick(now_ms);
            }
            None => {}
        }
        let Some(frame) = flying.pop() else { continue };
        match fate(20) {
            // The frame is lost: the receiver asks again after a while.
            0 => {}
            // The connection breaks, and another source continues.
            1 => {
                flying.clear();
                fetcher.peer_gone(sources[at].id);
                assert_eq!(
                    fetcher.poll(&mut tickets).filter(|output| matches!(output, FetchOutput::Send { .. })),
                    None
                );
                at = (at + 1) % sources.len();
                fetcher.set_source(sources[at].id, now_ms);
            }
            2 => {
                fetcher.handle(sources[at].id, frame.clone(), now_ms);
                fetcher.handle(sources[at].id, frame, now_ms);
            }
            3 => fetcher.handle(99, frame, now_ms),
            _ => fetcher.handle(sources[at].id, frame, now_ms),
        }
    }
    panic!("no end: {:?}", fetcher.state());
}

fn assert_same(disk: &MemoryDisk, source: &Source, manifest: &Manifest) {
    assert!(disk.is_synced());
    assert_eq!(disk.bytes(&manifest.file()), source.disk.bytes(&manifest.file()));
    assert!(CheckpointReader::open(disk, &manifest.reference()).is_ok());
}

#[test]
fn a_good_connection_carries_each_block_once() {
    for (small, large) in [(0, 0), (4000, 30), (0, 1)] {
        let (source, manifest) = Source::new(1, small, large);
        let mut sources = [source];
        let (disk, blocks) = transfer(&mut sources, &manifest, |bound| bound - 1);
        assert_same(&disk, &sources[0], &manifest);
        assert_eq!(blocks as u32, manifest.block_count + 1);
    }
}

#[test]
fn a_checkpoint_without_blocks_arrives_too() {
    let manifest = Manifest::new(super::header(), &super::Table::new());
    let mut server = CheckpointServer::default();
    server.offer(manifest.clone(), super::Table::new());
    let source = Source { id: 1, disk: MemoryDisk::default(), server, tickets: Tickets::default() };
    let (disk, blocks) = transfer(&mut [source], &manifest, |bound| bound - 1);
    assert_eq!(blocks, 0);
    assert!(CheckpointReader::open(&disk, &manifest.reference()).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bad_connections_only_delay_it(seed: u64) {
        let (first, manifest) = Source::new(1, 2000, 12);
        let (second, same) = Source::new(2, 2000, 12);
        prop_assert_eq!(&manifest, &same);
        let mut sources = [first, second];
        let mut draw = seed;
        let (disk, blocks) = transfer(&mut sources, &manifest, |bound| {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (draw >> 33) % bound
        });
        assert_same(&disk, &sources[0], &manifest);
        // Blocks that arrived are not requested again: a broken connection costs at most one window.
        prop_assert!(blocks < 40 * FETCH_WINDOW_MAX, "{} blocks", blocks);
    }
}

/// Runs a receiver until its disk has done `jobs_max` jobs, or to the end; returns the number of blocks sent to it.
fn take(source: &mut Source, manifest: &Manifest, disk: &mut MemoryDisk, jobs_max: usize) -> usize {
    let mut tickets = Tickets::default();
    let has_remains = crate::checkpoint::has_remains(disk.list().unwrap().iter().map(|(file, _)| file.as_str()));
    let mut fetcher = CheckpointFetcher::new(manifest.clone(), 1, has_remains, 0);
    let (mut blocks, mut jobs) = (0, 0);
    while let FetchState::UnderWay { .. } = fetcher.state() {
        match fetcher.poll(&mut tickets) {
            Some(FetchOutput::Send { frame, .. }) => {
                for answer in source.answer(&frame) {
                    let is_data = matches!(answer, TransferFrame::Block { part: crate::checkpoint::Part::Data, .. });
                    blocks += usize::from(is_data);
                    fetcher.handle(1, answer, 0);
                }
            }
            Some(FetchOutput::Disk(job)) if jobs < jobs_max => {
                jobs += 1;
                job.ops.iter().for_each(|op| disk.execute(op));
                assert!(fetcher.persisted(job.ticket));
            }
            Some(FetchOutput::Disk(_)) => return blocks,
            Some(FetchOutput::Read(read)) => {
                let bytes = disk.read(&read.file, read.offset, read.len).unwrap();
                assert_eq!(fetcher.file_read(read.ticket, bytes), Ok(()));
                assert_eq!(fetcher.file_read(read.ticket, vec![1]), Err(vec![1]));
            }
            None => panic!("it has nothing to do"),
        }
    }
    assert_eq!(fetcher.state(), FetchState::Whole);
    blocks
}

#[test]
fn restarted_receiver_fetches_only_missing_blocks() {
    let (mut source, manifest) = Source::new(1, 2000, 30);
    let all = manifest.block_count as usize;
    assert!(all > 3 * FETCH_WINDOW_MAX);
    let mut disk = MemoryDisk::default();
    // The last window was fetched but not written.
    let first = take(&mut source, &manifest, &mut disk, 2);
    assert_eq!(first, 3 * FETCH_WINDOW_MAX);
    // The last block is an empty item, four zero bytes, so an unwritten block reads the same.
    let missing = all - 2 * FETCH_WINDOW_MAX - 1;
    let mut untouched = disk.clone();
    assert_eq!(take(&mut source, &manifest, &mut untouched, usize::MAX), missing);
    assert_same(&untouched, &source, &manifest);
    // Only a block that does not match its table line is fetched again.
    let mut damaged = disk.clone();
    let file = crate::checkpoint::INCOMING_FILE.to_owned();
    damaged.execute(&DiskOp::Write { file, offset: 4096 + 100, data: vec![0x5A; 8] });
    assert_eq!(take(&mut source, &manifest, &mut damaged, usize::MAX), missing + 1);
    assert_same(&damaged, &source, &manifest);
    // A partial file of another checkpoint is not used.
    let (mut other, another) = Source::new(1, 2001, 30);
    assert_eq!(take(&mut other, &another, &mut disk, usize::MAX), another.block_count as usize);
    assert_same(&disk, &other, &another);
}

#[test]
fn receiver_completes_the_checkpoint_after_power_loss() {
    let (mut source, manifest) = Source::new(1, 2000, 12);
    let mut state = 88_172_645_463_325_252u64;
    let mut draw = |count: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % count.max(1)
    };
    let mut saved = 0;
    for jobs in 0..60 {
        let mut disk = MemoryDisk::default();
        take(&mut source, &manifest, &mut disk, jobs % 6);
        disk.crash(&mut draw);
        let blocks = take(&mut source, &manifest, &mut disk, usize::MAX);
        assert_same(&disk, &source, &manifest);
        saved += manifest.block_count as usize - blocks;
    }
    assert!(saved > 0, "no block was ever reused");
}

#[test]
fn blocks_are_rewritten_after_a_failed_sync() {
    let (mut source, manifest) = Source::new(1, 2000, 30);
    let mut disk = MemoryDisk::default();
    take(&mut source, &manifest, &mut disk, 2);
    // A failed sync ends the process, and nothing reaches the disk. The written data can be read until power is lost.
    disk.fail_sync(crate::checkpoint::INCOMING_FILE, &mut |_| 0);
    let missing = manifest.block_count as usize - 2 * FETCH_WINDOW_MAX - 1;
    assert_eq!(take(&mut source, &manifest, &mut disk, usize::MAX), missing);
    disk.crash(&mut |_| 0);
    assert_same(&disk, &source, &manifest);
}

#[test]
fn transfer_fails_if_the_source_sends_bad_blocks() {
    let (mut source, manifest) = Source::new(1, 2000, 12);
    let mut tickets = Tickets::default();
    let mut fetcher = CheckpointFetcher::new(manifest, 1, false, 0);
    let mut lies = 0;
    while let FetchState::UnderWay { .. } = fetcher.state() {
        match fetcher.poll(&mut tickets) {
            Some(FetchOutput::Send { frame, .. }) => {
                for mut answer in source.answer(&frame) {
                    if let TransferFrame::Block { part: crate::checkpoint::Part::Data, bytes, .. } = &mut answer {
                        bytes[0] ^= 1;
                        lies += 1;
                    }
                    fetcher.handle(1, answer, 0);
                }
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(fetcher.state(), FetchState::Failed(FetchError::BadBlocks));
    assert!(lies > BAD_BLOCKS_MAX);
    assert!(fetcher.into_parts().is_none());
}

#[test]
fn bad_table_or_removed_checkpoint_fails_the_transfer() {
    let (mut source, manifest) = Source::new(1, 100, 0);
    let mut tickets = Tickets::default();
    let other = Manifest { id: [9; 32], ..manifest.clone() };
    let mut fetcher = CheckpointFetcher::new(other.clone(), 1, false, 0);
    let Some(FetchOutput::Send { frame, .. }) = fetcher.poll(&mut tickets) else { panic!("no request") };
    let [gone] = &source.answer(&frame)[..] else { panic!("no answer") };
    let mut late = CheckpointFetcher::new(manifest.clone(), 1, false, 0);
    late.handle(1, gone.clone(), 0);
    assert!(matches!(late.state(), FetchState::UnderWay { .. }), "that was another checkpoint");
    let TransferFrame::Gone { checkpoint } = gone else { panic!("{gone:?}") };
    assert_eq!(checkpoint, &other.id);
    let table = vec![0; manifest.block_count as usize * 10];
    let part = crate::checkpoint::Part::Table;
    let lie = TransferFrame::Block { checkpoint: other.id, part, number: 0, bytes: table };
    fetcher.handle(1, lie, 0);
    assert_eq!(fetcher.state(), FetchState::Failed(FetchError::BadTable));
    let mut fetcher = CheckpointFetcher::new(other, 1, false, 0);
    fetcher.handle(1, gone.clone(), 0);
    assert_eq!(fetcher.state(), FetchState::Failed(FetchError::Gone));
}

#[test]
fn unrequested_blocks_are_dropped() {
    let (mut source, manifest) = Source::new(1, 2000, 20);
    let part = crate::checkpoint::Part::Data;
    let unasked = TransferFrame::Get { checkpoint: manifest.id, part, from: 12, count: 1 };
    let [block] = &source.answer(&unasked)[..] else { panic!("no block") };
    let mut tickets = Tickets::default();
    let mut fetcher = CheckpointFetcher::new(manifest.clone(), 1, false, 0);
    let Some(FetchOutput::Send { frame, .. }) = fetcher.poll(&mut tickets) else { panic!("no request") };
    source.answer(&frame).into_iter().for_each(|table| fetcher.handle(1, table, 0));
    let Some(FetchOutput::Send { frame, .. }) = fetcher.poll(&mut tickets) else { panic!("no request") };
    fetcher.handle(1, block.clone(), 0);
    assert_eq!(fetcher.state(), FetchState::UnderWay { have: 0, of: manifest.block_count });
    source.answer(&frame).into_iter().for_each(|block| fetcher.handle(1, block, 0));
    assert_eq!(fetcher.state(), FetchState::UnderWay { have: 8, of: manifest.block_count });
}

#[test]
fn damaged_checkpoint_is_no_longer_offered() {
    let (mut source, manifest) = Source::new(1, 100, 0);
    let part = crate::checkpoint::Part::Data;
    let get = TransferFrame::Get { checkpoint: manifest.id, part, from: 0, count: 1 };
    source.server.handle(FOLLOWER, &get, 0);
    let Some(ServerOutput::Read(read)) = source.server.poll(&mut source.tickets) else { panic!("no read") };
    let mut bytes = source.disk.read(&read.file, read.offset, read.len).unwrap();
    bytes[3] ^= 8;
    let damage = source.server.file_read(read.ticket, bytes).unwrap_err();
    assert_eq!((damage.file, damage.what), (manifest.file(), DamageKind::Block(0)));
    let gone = TransferFrame::Gone { checkpoint: manifest.id };
    assert_eq!(source.server.poll(&mut source.tickets), Some(ServerOutput::Send { to: FOLLOWER, frame: gone }));
    assert!(source.server.newest().is_none());
}

#[test]
fn old_checkpoint_is_kept_while_a_member_fetches_it() {
    let (mut source, manifest) = Source::new(1, 100, 0);
    let (mut disk, mut tickets) = (MemoryDisk::default(), Tickets::default());
    let (newer, table) = write(&mut disk, Items::new(101, 0), &mut tickets);
    let part = crate::checkpoint::Part::Table;
    let get = TransferFrame::Get { checkpoint: manifest.id, part, from: 0, count: 1 };
    source.server.handle(FOLLOWER, &get, 1000);
    assert_eq!(source.server.pinned_index(1000), Some(manifest.header.index));
    source.server.offer(newer.clone(), table);
    assert_eq!(source.server.newest(), Some(&newer));
    assert_eq!(source.server.retire(2000), Vec::<String>::new());
    assert_eq!(source.server.retire(1000 + OFFER_LEASE_MS), [manifest.file()]);
    assert_eq!(source.server.pinned_index(1000 + OFFER_LEASE_MS), None);
    source.server.peer_gone(FOLLOWER);
    assert_eq!(source.server.poll(&mut source.tickets), None);
}
