//! Marks on the time axis: lines that are appended to a file during the run.

use crate::limits::{MARK_BYTES_MAX, MARKS_MAX};
use report::Event;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Instant;

/// Kinds of marks that charts distinguish. A line with another first word is a note.
const KINDS: [&str; 4] = ["fault", "reload", "update", "note"];

/// The file, read from its end at the start of the run.
#[derive(Debug)]
pub struct Marks {
    file: File,
    /// An incomplete line.
    rest: Vec<u8>,
    seen: Vec<(Instant, String)>,
}

impl Marks {
    /// Opens the file, and creates it if missing.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let new = File::options().read(true).append(true).create_new(true).open(path);
        let file = match new {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let mut file = File::options().read(true).append(true).open(path)?;
                file.seek(SeekFrom::End(0))?;
                file
            }
            // A new file is read from its start. A program that waits for it may have written a line already.
            new => new?,
        };
        Ok(Self { file, rest: Vec::new(), seen: Vec::new() })
    }

    /// Reads the lines that were appended since the last call.
    pub fn poll(&mut self) -> &[(Instant, String)] {
        let before = self.seen.len();
        let mut bytes = Vec::new();
        // If the file cannot be read, there are no further marks.
        let _gone = (&mut self.file).take(MARK_BYTES_MAX).read_to_end(&mut bytes);
        self.rest.extend(bytes);
        self.take_lines();
        if self.rest.len() as u64 > MARK_BYTES_MAX {
            self.rest.clear();
        }
        &self.seen[before..]
    }

    fn take_lines(&mut self) {
        let now = Instant::now();
        while let Some(end) = self.rest.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line).trim().to_owned();
            if !line.is_empty() && self.seen.len() < MARKS_MAX {
                self.seen.push((now, line));
            }
        }
    }

    /// All marks on the clock of a run that began at `start`. The last line may be incomplete.
    #[must_use]
    pub fn events(mut self, start: Instant) -> Vec<Event> {
        self.poll();
        if !self.rest.is_empty() {
            self.rest.push(b'\n');
            self.take_lines();
        }
        let event = |(when, line): &(Instant, String)| {
            let (kind, text) = line.split_once(' ').unwrap_or((line, ""));
            let is_kind = KINDS.contains(&kind);
            Event {
                at: when.saturating_duration_since(start).as_secs_f64(),
                kind: if is_kind { kind.to_owned() } else { "note".to_owned() },
                text: if is_kind { text.to_owned() } else { line.clone() },
            }
        };
        self.seen.iter().map(event).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn appended_lines_become_marks() {
        let path = std::env::temp_dir().join(format!("catlab-marks-{}", std::process::id()));
        std::fs::write(&path, "fault of an earlier run\n").unwrap();
        let start = Instant::now();
        let mut marks = Marks::open(&path).unwrap();
        assert!(marks.poll().is_empty());
        let mut file = File::options().append(true).open(&path).unwrap();
        write!(file, "fault node 2 killed\nwhat is").unwrap();
        assert_eq!(marks.poll().len(), 1);
        writeln!(file, " this").unwrap();
        assert_eq!(marks.poll().len(), 1);
        write!(file, "reload at the very end").unwrap();
        assert_eq!(marks.poll().len(), 0);
        let events = marks.events(start);
        let shown: Vec<_> = events.iter().map(|event| (event.kind.as_str(), event.text.as_str())).collect();
        assert_eq!(shown, [("fault", "node 2 killed"), ("note", "what is this"), ("reload", "at the very end")]);
        assert!(events[0].at >= 0.0 && events[0].at <= events[1].at);
        std::fs::remove_file(&path).unwrap();
    }
}
