//! Measures the time and memory of a full table of repeats (docs/internals/decisions/0019-session-table.md):
//!
//! ```text
//! cargo run --profile gate -p catamaran-replica --features testing --example session_figures
//! ```
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures time; the crate knows no clock")]

use catamaran_replica::disk::{DiskError, DiskOp, DiskRead};
use catamaran_replica::limits::SESSION_COUNT_MAX;
use catamaran_replica::testing::Repeats;
use std::fs::{self, File, OpenOptions};
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wire::name::Name;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Updates per second; the table is full after 300 s.
const RATE: u64 = 20_000;
const KEYS: u64 = 1_000;
const LOOKUPS: u64 = 1_000_000;

fn main() {
    let keys: Vec<Name> = (0..KEYS).map(|key| format!("key{key}.example.").parse().expect("a name")).collect();
    let mut repeats = Repeats::new();
    let (before, count) = (resident(), SESSION_COUNT_MAX as u64);
    insert(&mut repeats, &keys, 0..count, "filling");
    let bytes = resident() - before;
    println!("{count} sessions: {} MB, {:.1} bytes each", bytes / 1_000_000, bytes as f64 / count as f64);
    insert(&mut repeats, &keys, count..count + count / 4, "full, each evicts one");
    look_up(&repeats, &keys, count);
    checkpoint(&mut repeats, &keys, 2 * count);
}

/// Session `number`. Its signed time is off by some seconds, like clients' clocks.
fn session(number: u64) -> ([u8; 16], u64, [u8; 16]) {
    let scattered = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let scattered = (scattered ^ scattered >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let identity = (u128::from(scattered) << 64 | u128::from(number)).to_be_bytes();
    let strays = if number.is_multiple_of(10) { scattered >> 61 } else { 0 };
    let source = u128::from(scattered % 50_000).to_be_bytes();
    (identity, 1_700_000_000 + number / RATE - strays, source)
}

fn key_of(keys: &[Name], number: u64) -> &Name {
    &keys[(number.wrapping_mul(7_919) % KEYS) as usize]
}

fn insert(repeats: &mut Repeats, keys: &[Name], numbers: std::ops::Range<u64>, what: &str) {
    let count = numbers.end - numbers.start;
    let (mut longest, mut long) = (Duration::ZERO, 0);
    let (paused, start) = (preemptions(), Instant::now());
    for number in numbers {
        let (identity, time_signed, source) = session(number);
        let before = Instant::now();
        repeats.insert(identity, key_of(keys, number), time_signed, source);
        let took = before.elapsed();
        longest = longest.max(took);
        long += u64::from(took > Duration::from_micros(100));
    }
    let each = start.elapsed().as_nanos() / u128::from(count);
    let paused = preemptions() - paused;
    let longest = longest.as_micros();
    println!("{what}: {each} ns an insert; {long} of {count} longer than 100 us, the longest {longest} us");
    println!("  (the thread was taken off its processor {paused} times)");
}

fn look_up(repeats: &Repeats, keys: &[Name], newest: u64) {
    let start = Instant::now();
    let mut known = 0;
    for number in (0..LOOKUPS).map(|number| newest - 1 - number * 3) {
        let (identity, time_signed, source) = session(number);
        known += u64::from(!repeats.is_new(black_box(&identity), key_of(keys, number), time_signed, &source));
    }
    let each = start.elapsed().as_nanos() / u128::from(LOOKUPS);
    assert_eq!(known, LOOKUPS, "all of them are in the table");
    println!("{each} ns per lookup of a known session");
}

/// Freezes and writes a checkpoint while updates continue.
fn checkpoint(repeats: &mut Repeats, keys: &[Name], first: u64) {
    let dir = Directory(std::env::temp_dir().join(format!("session-figures-{}", std::process::id())));
    fs::create_dir(&dir.0).expect("a directory of our own");
    let hash = repeats.hash();
    let start = Instant::now();
    let frozen = repeats.freeze();
    println!("frozen in {} us", start.elapsed().as_micros());
    insert(repeats, keys, first..first + RATE, "the first second after");
    let mut longest = Duration::ZERO;
    let (mut encoding, mut start) = (Duration::ZERO, Instant::now());
    for ops in frozen {
        longest = longest.max(start.elapsed());
        encoding += start.elapsed();
        ops.into_iter().for_each(|op| dir.carry_out(op));
        start = Instant::now();
    }
    let files = dir.list().expect("files");
    let (file, bytes) = files.into_iter().find(|(file, _)| file.starts_with("checkpoint-")).expect("a checkpoint");
    println!(
        "checkpoint of {} MB: {} ms of the replica's thread, at most {} us at once",
        bytes / 1_000_000,
        encoding.as_millis(),
        longest.as_micros()
    );
    let start = Instant::now();
    let copy = Repeats::read(&dir, file).expect("what was written");
    println!("read back in {} ms", start.elapsed().as_millis());
    assert_eq!((copy.hash(), copy.count()), (hash, SESSION_COUNT_MAX), "it is what was frozen");
}

/// Number of times that the kernel preempted this thread. An operation with a preemption may take long for that
/// reason.
fn preemptions() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).expect("a number")
}

/// Resident memory of this process, in bytes.
fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages");
    pages * 4_096
}

/// A directory that is removed when the run ends.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Directory {
    fn carry_out(&self, op: DiskOp) {
        match op {
            DiskOp::Create { file, zeroed_bytes } => {
                fs::write(self.0.join(file), vec![0; zeroed_bytes as usize]).expect("room");
            }
            DiskOp::Write { file, offset, data: bytes } => {
                let file = OpenOptions::new().write(true).open(self.0.join(file)).expect("it was made");
                file.write_all_at(&bytes, offset).expect("room");
            }
            DiskOp::Zero { file, offset, bytes } => {
                self.carry_out(DiskOp::Write { file, offset, data: vec![0; bytes as usize] });
            }
            DiskOp::Rename { from, to } => fs::rename(self.0.join(from), self.0.join(to)).expect("it was made"),
            DiskOp::Remove { file } => drop(fs::remove_file(self.0.join(file))),
            // The cost of the disk is not measured.
            DiskOp::Sync { .. } | DiskOp::SyncDir => {}
        }
    }
}

fn failed(file: &str, error: &std::io::Error) -> DiskError {
    DiskError::Failed { file: file.into(), reason: error.to_string() }
}

impl DiskRead for Directory {
    fn list(&self) -> Result<Vec<(String, u64)>, DiskError> {
        let entries = fs::read_dir(&self.0).map_err(|error| failed("", &error))?;
        let file = |entry: fs::DirEntry| (entry.file_name().to_string_lossy().into_owned(), entry.metadata());
        let file = |entry| {
            let (name, metadata) = file(entry);
            metadata.map(|metadata| (name, metadata.len()))
        };
        entries.map(|entry| entry.and_then(file).map_err(|error| failed("", &error))).collect()
    }

    fn read(&self, file: &str, offset: u64, len: usize) -> Result<Vec<u8>, DiskError> {
        let opened = File::open(self.0.join(file)).map_err(|error| failed(file, &error))?;
        let mut bytes = vec![0; len];
        opened.read_exact_at(&mut bytes, offset).map_err(|error| failed(file, &error))?;
        Ok(bytes)
    }
}
