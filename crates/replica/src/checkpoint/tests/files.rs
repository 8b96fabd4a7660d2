//! Writing and reading checkpoints: the result is equal, or it is reported as damage.

use super::{Items, header, write};
use crate::checkpoint::limits::BLOCK_BYTES_MAX;
use crate::checkpoint::{
    CheckpointError, CheckpointLoader, CheckpointReader, CheckpointWriter, DamageKind, Section, Written, has_remains,
    items, stale_files,
};
use crate::disk::{DiskError, DiskOp, DiskRead, Tickets};
use crate::log::CheckpointRef;
use crate::testing::MemoryDisk;

fn read_all(disk: &MemoryDisk, checkpoint: &CheckpointRef) -> Result<Vec<(Section, Vec<u8>)>, CheckpointError> {
    let mut found = Vec::new();
    let reader = CheckpointReader::open(disk, checkpoint)?;
    reader.for_each_item(disk, |section, item| found.push((section, item.to_vec())))?;
    Ok(found)
}

#[test]
fn checkpoint_round_trips_in_small_jobs() {
    for (small, large) in [(0, 0), (1, 0), (5000, 0), (100, 9), (0, 3)] {
        let (mut disk, mut tickets) = (MemoryDisk::default(), Tickets::default());
        let mut writer = CheckpointWriter::new(header());
        let mut source = Items::new(small, large);
        let manifest = loop {
            let job = writer.poll(&mut source, &mut tickets).unwrap();
            assert_eq!(writer.poll(&mut source, &mut tickets), None, "one at a time");
            let written = |op: &DiskOp| if let DiskOp::Write { data: bytes, .. } = op { bytes.len() } else { 0 };
            assert!(job.ops.iter().map(written).sum::<usize>() <= BLOCK_BYTES_MAX);
            job.ops.iter().for_each(|op| disk.execute(op));
            assert_eq!(writer.persisted(job.ticket + 1), Written::NotOurs);
            if let Written::Whole(whole) = writer.persisted(job.ticket) {
                break whole.0;
            }
        };
        assert_eq!(disk.list().unwrap(), [(manifest.file(), manifest.file_bytes())]);
        assert!(disk.is_synced());
        assert_eq!(read_all(&disk, &manifest.reference()).unwrap(), Items::new(small, large).all());
        assert!(large == 0 || manifest.block_count > large as u32 / 2);
    }
}

#[test]
fn the_same_state_gives_the_same_checkpoint() {
    let (mut a, mut b) = (MemoryDisk::default(), MemoryDisk::default());
    let first = write(&mut a, Items::new(500, 2), &mut Tickets::default());
    let second = write(&mut b, Items::new(500, 2), &mut Tickets::default());
    assert_eq!(first, second);
    assert_eq!(a.bytes(&first.0.file()), b.bytes(&first.0.file()));
}

#[test]
fn every_flipped_bit_is_found() {
    let mut disk = MemoryDisk::default();
    let (manifest, _) = write(&mut disk, Items::new(12, 0), &mut Tickets::default());
    let (file, checkpoint) = (manifest.file(), manifest.reference());
    for bit in 0..manifest.file_bytes() as usize * 8 {
        disk.flip(&file, bit);
        assert!(matches!(read_all(&disk, &checkpoint), Err(CheckpointError::Damage(_))), "bit {bit}");
        disk.flip(&file, bit);
    }
    assert!(read_all(&disk, &checkpoint).is_ok());
    let other = CheckpointRef { term: checkpoint.term + 1, ..checkpoint };
    let damage = CheckpointReader::open(&disk, &other).unwrap_err();
    assert!(matches!(damage, CheckpointError::Damage(damage) if damage.what == DamageKind::Other));
    disk.lose(&file);
    let missing = CheckpointError::Disk(DiskError::Missing { file });
    assert_eq!(CheckpointReader::open(&disk, &checkpoint).unwrap_err(), missing);
}

#[test]
fn a_file_with_a_name_is_whole_whenever_power_is_lost() {
    let mut draw = 7_u64;
    let mut choose = move |bound: u64| {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (draw >> 33) % bound
    };
    let (mut disk, mut tickets) = (MemoryDisk::default(), Tickets::default());
    let (mut writer, mut source) = (CheckpointWriter::new(header()), Items::new(3000, 2));
    let (mut named, mut cuts) = (0, 0);
    while let Some(job) = writer.poll(&mut source, &mut tickets) {
        for op in &job.ops {
            disk.execute(op);
            for _ in 0..10 {
                cuts += 1;
                let mut crashed = disk.clone();
                crashed.crash(&mut choose);
                for (file, _) in crashed.list().unwrap().iter().filter(|(file, _)| file.starts_with("checkpoint-")) {
                    let (manifest, _) = write(&mut MemoryDisk::default(), Items::new(3000, 2), &mut Tickets::default());
                    assert_eq!(*file, manifest.file());
                    assert_eq!(read_all(&crashed, &manifest.reference()).unwrap(), Items::new(3000, 2).all());
                    named += 1;
                }
            }
        }
        writer.persisted(job.ticket);
    }
    assert!(named >= 10 && cuts > named, "{named} of {cuts}");
}

#[test]
fn a_running_replica_loads_block_by_block() {
    let (mut disk, mut tickets) = (MemoryDisk::default(), Tickets::default());
    let (manifest, table) = write(&mut disk, Items::new(3000, 6), &mut tickets);
    let mut loader = CheckpointLoader::new(&manifest, table.clone());
    let mut found = Vec::new();
    while !loader.is_done() {
        let mut reads = Vec::new();
        while let Some(read) = loader.poll(&mut tickets) {
            reads.push(read);
        }
        assert!(reads.len() <= 4);
        // Results in any order.
        for read in reads.into_iter().rev() {
            let bytes = disk.read(&read.file, read.offset, read.len).unwrap();
            assert_eq!(loader.file_read(read.ticket, bytes), Ok(true));
        }
        while let Some((number, section, block)) = loader.next_block() {
            found.extend(items(number, &block).map(|item| (section, item.unwrap().to_vec())));
        }
    }
    assert_eq!(found, Items::new(3000, 6).all());

    let mut loader = CheckpointLoader::new(&manifest, table);
    let read = loader.poll(&mut tickets).unwrap();
    let mut bytes = disk.read(&read.file, read.offset, read.len).unwrap();
    bytes[9] ^= 1;
    assert_eq!(loader.file_read(read.ticket, bytes).unwrap_err().what, DamageKind::Block(0));
    assert_eq!(loader.file_read(read.ticket, Vec::new()), Ok(false));
}

#[test]
fn only_the_checkpoint_of_the_log_is_kept_at_start() {
    let keep = CheckpointRef { index: 5, term: 1, id: [0xAB; 32] };
    let files = [
        "checkpoint-0000000000000005-abababab",
        "checkpoint-0000000000000004-abababab",
        "checkpoint.writing",
        "checkpoint.incoming",
        "vote",
        "log-0000000000000001",
    ];
    let stale = stale_files(files.into_iter(), &keep);
    // A transfer may continue from a partial file.
    assert_eq!(stale, ["checkpoint-0000000000000004-abababab", "checkpoint.writing"]);
    assert!(has_remains(files.into_iter()) && !has_remains(files[..3].iter().copied()));
}
