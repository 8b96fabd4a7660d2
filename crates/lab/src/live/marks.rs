//! Marks on the axis of time: lines that somebody appends to a file while the run goes on.

use crate::limits::{MARK_BYTES_MAX, MARKS_MAX};
use crate::report::Event;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Instant;

/// Kinds that pictures tell apart; a line that begins with none of them is a note.
const KINDS: [&str; 4] = ["fault", "reload", "update", "note"];

/// The file, read on from where it ended when the run began.
#[derive(Debug)]
pub struct Marks {
    file: File,
    /// A line whose end has not come.
    rest: Vec<u8>,
    seen: Vec<(Instant, String)>,
}

impl Marks {
    /// Opens the file, and makes it when there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::options().read(true).append(true).create(true).open(path)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self { file, rest: Vec::new(), seen: Vec::new() })
    }

    /// Takes in what has been appended since the last call; gives the new lines.
    pub fn poll(&mut self) -> &[(Instant, String)] {
        let before = self.seen.len();
        let mut bytes = Vec::new();
        // A file that cannot be read any more has no marks any more.
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

    /// All marks, on the clock of a run that began at `start`. At the end of the run a line needs no end of its own.
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
        let told: Vec<_> = events.iter().map(|event| (event.kind.as_str(), event.text.as_str())).collect();
        assert_eq!(told, [("fault", "node 2 killed"), ("note", "what is this"), ("reload", "at the very end")]);
        assert!(events[0].at >= 0.0 && events[0].at <= events[1].at);
        std::fs::remove_file(&path).unwrap();
    }
}
