//! The files: `PATH`, and `PATH.1` to `PATH.7`, the newest first.

use super::counters::AuditCounters;
use super::line::Line;
use super::work::Attempt;
use crate::limits::AUDIT_READ_BYTES_MAX;
use config::files::audit_log::{LineDigest, digest_of, numbered};
use config::files::{Readers, write_atomic};
use config::limits::{AUDIT_FILES_MAX, AUDIT_LINE_BYTES_MAX};
use replica::io::{ActionRecord, AuditRecord};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The open audit log.
pub(super) struct AuditFile {
    path: PathBuf,
    file: Option<BufWriter<File>>,
    bytes: u64,
    /// Digest of the last line.
    prev: LineDigest,
    /// The last index in the file.
    last: u64,
    /// The last index that should have a line but has none.
    lost_to: Option<u64>,
    /// Number of lines of records and refusals in the buffer.
    unflushed: u64,
    counters: Arc<AuditCounters>,
}

impl AuditFile {
    pub(super) fn open(path: &Path, counters: Arc<AuditCounters>) -> Self {
        let mut audit = Self {
            path: path.to_owned(),
            file: None,
            bytes: 0,
            prev: [0; 32],
            last: 0,
            lost_to: None,
            unflushed: 0,
            counters,
        };
        audit.attempt(Self::append);
        audit
    }

    /// Buffers the line of a record, unless it is already written.
    pub(super) fn record(&mut self, record: &AuditRecord) {
        let is_put = self.line(&Line::of(record));
        self.count(is_put);
    }

    /// Counts a line as buffered or lost. Buffered lines are written or lost together.
    fn count(&mut self, is_put: bool) {
        if is_put {
            self.unflushed += 1;
        } else {
            self.counters.lost.one_shared();
        }
    }

    /// Writes a gap.
    pub(super) fn gap(&mut self, after: u64, to: u64) {
        self.line(&Line::Gap { gap_after: after.max(self.last), gap_to: to });
    }

    /// Writes an action on this node only.
    pub(super) fn local(&mut self, time_ms: u64, action: &str, subject: &str) -> bool {
        self.attempt(|audit| {
            audit.reopen()?;
            let (action, subject) = (action.to_owned(), subject.to_owned());
            audit.put(&Line::Local { after: audit.last, time_ms, action, subject })
        })
    }

    /// Writes a refused request.
    pub(super) fn refused(&mut self, attempt: &Attempt, unsaid: u64) {
        let is_put = self.attempt(|audit| {
            audit.reopen()?;
            audit.put(&Line::of_attempt(audit.last, attempt, unsaid))
        });
        self.count(is_put);
    }

    /// Marks that no line up to this index is missing.
    pub(super) fn through(&mut self, index: u64) {
        self.line(&Line::Through { through: index });
    }

    /// Maximum total size of the files.
    fn bytes_max(&self) -> u64 {
        self.counters.bytes_max.load(Relaxed)
    }

    fn line(&mut self, line: &Line) -> bool {
        let done = self.attempt(|audit| audit.try_line(line));
        if !done {
            self.lost_to = self.lost_to.max(Some(line.last_index()));
        }
        done
    }

    fn try_line(&mut self, line: &Line) -> io::Result<()> {
        self.reopen()?;
        // This entry was applied again after a restart.
        if line.last_index() <= self.last {
            return Ok(());
        }
        if let Some(lost_to) = self.lost_to.take_if(|lost_to| *lost_to > self.last) {
            self.put(&Line::Gap { gap_after: self.last, gap_to: lost_to })?;
        }
        self.put(line)
    }

    fn put(&mut self, line: &Line) -> io::Result<()> {
        if self.bytes >= self.bytes_max() / AUDIT_FILES_MAX as u64 {
            self.rotate()?;
        }
        let mut bytes = line.chain(&mut self.prev)?;
        bytes.push(b'\n');
        self.file.as_mut().ok_or(io::ErrorKind::NotFound)?.write_all(&bytes)?;
        self.bytes += bytes.len() as u64;
        self.last = self.last.max(line.last_index());
        Ok(())
    }

    /// Writes the buffer to the file. Returns false if that fails.
    pub(super) fn flush(&mut self) -> bool {
        let Some(file) = &mut self.file else { return false };
        let flushed = file.flush();
        let is_done = self.attempt(|_| flushed);
        if is_done {
            self.counters.written.add(std::mem::take(&mut self.unflushed));
            self.counters.is_failing.store(false, Relaxed);
        }
        is_done
    }

    pub(super) fn sync(&mut self) {
        if self.flush() {
            self.attempt(|audit| audit.file.as_ref().map_or(Ok(()), |file| file.get_ref().sync_data()));
        }
    }

    /// The node continues without its audit log. The log, the metrics and `/healthz` report that.
    fn attempt(&mut self, work: impl FnOnce(&mut Self) -> io::Result<()>) -> bool {
        match work(self) {
            Ok(()) => true,
            Err(error) => {
                if !self.counters.is_failing.swap(true, Relaxed) {
                    let path = self.path.display();
                    tracing::error!(%error, %path, "cannot write the audit log; updates continue without it");
                }
                self.counters.lost.add_shared(std::mem::take(&mut self.unflushed));
                // Unwritten lines are lost. Reopening the file shows how many.
                self.file = None;
                self.lost_to = self.lost_to.max(Some(self.last));
                false
            }
        }
    }

    /// Opens the file again after an error.
    fn reopen(&mut self) -> io::Result<()> {
        if self.file.is_none() { self.append() } else { Ok(()) }
    }

    /// Opens the file, and continues after the last complete line.
    fn append(&mut self) -> io::Result<()> {
        // Only the owner may read which client updated which names.
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).clone();
        let mut file = options.open(&self.path)?;
        let whole = whole_bytes(&mut file)?;
        file.set_len(whole)?;
        file.seek(SeekFrom::Start(whole))?;
        self.bytes = whole;
        self.last = last_index(&self.path);
        self.prev = newest_line(&self.path).map_or([0; 32], |line| digest_of(&line));
        self.file = Some(BufWriter::new(file));
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.sync();
        self.file = None;
        for number in (1..AUDIT_FILES_MAX).rev() {
            let older = numbered(&self.path, number);
            match std::fs::rename(numbered(&self.path, number - 1), older) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.remove_beyond()?;
        self.append()
    }

    /// Removes the oldest files if all files together are too large; the limit may have been lowered.
    fn remove_beyond(&self) -> io::Result<()> {
        let mut bytes = 0;
        for number in 1..AUDIT_FILES_MAX {
            let file = numbered(&self.path, number);
            let Ok(data) = std::fs::metadata(&file) else { continue };
            bytes += data.len();
            // The second newest file always stays: the first line of the newest one refers to it.
            if number > 1 && bytes > self.bytes_max() {
                std::fs::remove_file(file)?;
            }
        }
        Ok(())
    }
}

/// Starts the audit log of a cluster that is made from the state of another one, with a gap and a record of how it was
/// made.
///
/// [`io::Error`]: the file cannot be written, or already exists.
pub(crate) fn begin(path: &Path, made: ActionRecord) -> io::Result<()> {
    if path.try_exists()? {
        let what = format!("the audit log of another cluster exists: {}", path.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
    }
    let gap = Line::Gap { gap_after: 0, gap_to: made.index.saturating_sub(1) };
    let (mut bytes, mut prev) = (Vec::new(), [0; 32]);
    for line in [gap, Line::of(&AuditRecord::Action(made))] {
        bytes.extend(line.chain(&mut prev)?);
        bytes.push(b'\n');
    }
    write_atomic(path, &bytes, Readers::Owner)
}

/// Bytes up to the end of the last complete line. A crash may leave a partial line.
fn whole_bytes(file: &mut File) -> io::Result<u64> {
    let len = file.seek(SeekFrom::End(0))?;
    let tail = tail(file, len, AUDIT_LINE_BYTES_MAX as u64)?;
    let cut = tail.iter().rev().position(|&byte| byte == b'\n').unwrap_or(tail.len());
    Ok(len - cut as u64)
}

/// The last `bytes_max` of the first `len` bytes.
fn tail(file: &mut File, len: u64, bytes_max: u64) -> io::Result<Vec<u8>> {
    let start = len.saturating_sub(bytes_max);
    file.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    file.take(len - start).read_to_end(&mut tail)?;
    Ok(tail)
}

/// The last index in an audit log; zero if there is none.
pub(crate) fn last_index(path: &Path) -> u64 {
    let line = newest_line(path).and_then(|line| serde_json::from_slice::<Line>(&line).ok());
    line.map_or(0, |line| line.last_index())
}

/// The last complete line. Right after a rotation, the newest file may be empty.
fn newest_line(path: &Path) -> Option<Vec<u8>> {
    (0..2).find_map(|number| last_line(&numbered(path, number)))
}

fn last_line(path: &Path) -> Option<Vec<u8>> {
    let mut file = File::open(path).ok()?;
    let whole = whole_bytes(&mut file).ok()?;
    let tail = tail(&mut file, whole, AUDIT_LINE_BYTES_MAX as u64).ok()?;
    let lines = tail.strip_suffix(b"\n")?;
    lines.rsplit(|byte| *byte == b'\n').next().map(<[u8]>::to_vec)
}

/// The last `count` lines, the oldest first, as far as the two newest files have them.
pub(crate) fn read_last(path: &Path, count: usize) -> io::Result<String> {
    let bytes_max = (count as u64).saturating_mul(AUDIT_LINE_BYTES_MAX as u64).min(AUDIT_READ_BYTES_MAX);
    let mut lines = Vec::new();
    for number in [1, 0] {
        match File::open(numbered(path, number)) {
            Ok(mut file) => {
                let whole = whole_bytes(&mut file)?;
                let tail = tail(&mut file, whole, bytes_max)?;
                let text = String::from_utf8_lossy(&tail).into_owned();
                // The first line may be partial.
                let cut = usize::from(whole > bytes_max);
                lines.extend(text.lines().skip(cut).map(str::to_owned));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let first = lines.len().saturating_sub(count);
    Ok(lines[first..].iter().map(|line| format!("{line}\n")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit_log::AuditCounters;

    fn action(index: u64) -> AuditRecord {
        AuditRecord::Action(ActionRecord { index, time_ms: 7, action: "key add", subject: "a.".into() })
    }

    #[test]
    fn lines_that_a_full_disk_does_not_take_are_lost_and_counted() {
        let dir = process::testing::test_dir("audit-full");
        let path = dir.path().join("data.audit");
        let counters = Arc::<AuditCounters>::default();
        counters.set_bytes_max(1 << 20);
        let mut file = AuditFile::open(&path, counters.clone());
        file.record(&action(1));
        assert!(file.flush());
        assert_eq!((counters.written.get(), counters.lost.get(), counters.is_failing()), (1, 0, false));
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        file.file = Some(BufWriter::new(full));
        // Both lines fit into the buffer, but the buffer cannot be written.
        file.record(&action(2));
        file.record(&action(3));
        assert!(!file.flush());
        assert_eq!((counters.written.get(), counters.lost.get(), counters.is_failing()), (1, 2, true));
        // The disk has room again.
        file.record(&action(4));
        assert!(file.flush());
        assert_eq!((counters.written.get(), counters.lost.get(), counters.is_failing()), (2, 2, false));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("{\"gap_after\":1,\"gap_to\":3"), "{text}");
    }
}
