//! The file of expected answers: `catlab load --record-answers` writes it, `--expect-answers` reads it.

use super::fingerprint::Fingerprint;
use super::text;
use crate::limits::{ANSWER_LINE_BYTES_MAX, ANSWERS_MAX};
use data_encoding::HEXLOWER;
use report::folder::{self, WriteError};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The format of the file, in its first line.
const FORM: &str = "catlab answers 1";

/// Expected answers by question, without and with DO. Signed zones give different answers to the two.
#[derive(Clone, Default, Debug)]
pub struct Expected {
    answers: HashMap<Box<[u8]>, [Option<ExpectedAnswer>; 2]>,
}

/// The expected answer to a question.
#[derive(Clone, Debug)]
pub(super) struct ExpectedAnswer {
    pub(super) fingerprint: Fingerprint,
    pub(super) text: Box<str>,
}

/// One line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    /// For readers only: [`Line::key`] is compared.
    question: String,
    /// The question in wire form, lower case.
    key: String,
    dnssec_ok: bool,
    rcode: u16,
    #[serde(default)]
    truncated: bool,
    answer: String,
    authority: String,
    /// For readers only.
    text: String,
}

/// Why a file of answers cannot be used.
#[derive(Debug)]
pub enum ExpectedError {
    /// The file cannot be read.
    File(PathBuf, io::Error),
    /// A line is invalid.
    Line {
        /// The file.
        file: PathBuf,
        /// The number of the line, counted from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
}

impl fmt::Display for ExpectedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file, error) => write!(f, "{}: {error}", file.display()),
            Self::Line { file, line, reason } => write!(
                f,
                "{}:{line}: {reason}; `catlab load --record-answers FILE` at a server you trust writes such a file",
                file.display()
            ),
        }
    }
}

impl std::error::Error for ExpectedError {}

impl Expected {
    /// The number of answers.
    #[must_use]
    pub fn count(&self) -> usize {
        self.answers.values().flatten().flatten().count()
    }

    /// The expected answer to a question in wire form, in lower case. If it was recorded only with DO or only without,
    /// that answer counts for both.
    pub(super) fn right(&self, question: &[u8], dnssec_ok: bool) -> Option<&ExpectedAnswer> {
        let both = self.answers.get(question)?;
        both[usize::from(dnssec_ok)].as_ref().or(both[usize::from(!dnssec_ok)].as_ref())
    }

    /// The expected answer to the question with exactly this DO flag.
    pub(super) fn exact(&self, question: &[u8], dnssec_ok: bool) -> Option<&ExpectedAnswer> {
        self.answers.get(question)?[usize::from(dnssec_ok)].as_ref()
    }

    /// Adds an expected answer. Returns `false` if there are too many.
    pub(super) fn note(&mut self, question: &[u8], dnssec_ok: bool, right: ExpectedAnswer) -> bool {
        if self.answers.len() >= ANSWERS_MAX && !self.answers.contains_key(question) {
            return false;
        }
        self.answers.entry(question.into()).or_default()[usize::from(dnssec_ok)] = Some(right);
        true
    }

    /// Writes the file in order of the questions.
    ///
    /// # Errors
    /// If the file cannot be written. No partial file remains.
    pub fn write(&self, path: &Path) -> Result<(), WriteError> {
        let mut questions: Vec<_> = self.answers.iter().collect();
        questions.sort_unstable_by_key(|(question, _)| *question);
        let lines = questions.into_iter().flat_map(|(question, both)| {
            both.iter().enumerate().filter_map(move |(at, right)| Some(Line::new(question, at == 1, right.as_ref()?)))
        });
        let lines = lines.map(|line| serde_json::json!(line));
        let whole = std::iter::once(serde_json::json!({ "form": FORM })).chain(lines);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        folder::write_lines(parent, &name, whole)
    }

    /// Reads the file.
    ///
    /// # Errors
    /// [`ExpectedError`] with file, line and reason.
    pub fn read(path: &Path) -> Result<Self, ExpectedError> {
        let at_file = |error| ExpectedError::File(path.to_owned(), error);
        let mut file = BufReader::new(File::open(path).map_err(at_file)?);
        let mut expected = Self::default();
        let mut text = String::new();
        for line in 1.. {
            text.clear();
            let at = |reason: String| ExpectedError::Line { file: path.to_owned(), line, reason };
            match file.by_ref().take(ANSWER_LINE_BYTES_MAX).read_line(&mut text) {
                Ok(0) if line == 1 => return Err(at("it is empty".into())),
                Ok(0) => break,
                Ok(_) if line == 1 && !text.contains(FORM) => return Err(at("it holds no answers".into())),
                Ok(_) if line == 1 || text.trim().is_empty() => {}
                Ok(_) => {
                    let (question, dnssec_ok, right) = read_line(&text).map_err(at)?;
                    if !expected.note(&question, dnssec_ok, right) {
                        return Err(at(format!("there are more than {ANSWERS_MAX} questions")));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(at("it is not text".into())),
                Err(error) => return Err(at_file(error)),
            }
        }
        Ok(expected)
    }
}

impl Line {
    fn new(question: &[u8], dnssec_ok: bool, right: &ExpectedAnswer) -> Self {
        let Fingerprint { rcode, is_truncated, answer, authority } = right.fingerprint;
        Self {
            question: text::question(question),
            key: HEXLOWER.encode(question),
            dnssec_ok,
            rcode,
            truncated: is_truncated,
            answer: format!("{answer:016x}"),
            authority: format!("{authority:016x}"),
            text: right.text.to_string(),
        }
    }
}

fn read_line(text: &str) -> Result<(Vec<u8>, bool, ExpectedAnswer), String> {
    let line: Line = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let digest = |text: &str| u64::from_str_radix(text, 16).map_err(|_| format!("{text} is not a digest"));
    let question = HEXLOWER.decode(line.key.as_bytes()).map_err(|error| format!("key: {error}"))?;
    let fingerprint = Fingerprint {
        rcode: line.rcode,
        is_truncated: line.truncated,
        answer: digest(&line.answer)?,
        authority: digest(&line.authority)?,
    };
    Ok((question, line.dnssec_ok, ExpectedAnswer { fingerprint, text: line.text.into() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right(rcode: u16, answer: u64) -> ExpectedAnswer {
        let fingerprint = Fingerprint { rcode, is_truncated: false, answer, authority: 7 };
        ExpectedAnswer { fingerprint, text: "NOERROR; answer \"quoted\"".into() }
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = std::env::temp_dir().join(format!("catlab-expected-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("answers.jsonl");
        let mut expected = Expected::default();
        let question = b"\x03www\x07example\0\0\x01\0\x01";
        assert!(expected.note(question, false, right(0, 1)) && expected.note(question, true, right(0, 2)));
        assert!(expected.note(b"", false, right(1, 0)));
        expected.write(&file).unwrap();
        let read = Expected::read(&file).unwrap();
        assert_eq!((read.count(), read.right(question, true).unwrap().fingerprint.answer), (3, 2));
        assert_eq!(read.right(question, false).unwrap().fingerprint, right(0, 1).fingerprint);
        assert_eq!(read.right(b"", true).unwrap().fingerprint.rcode, 1);
        assert!(read.exact(b"", true).is_none() && read.right(b"\0\0\x01\0\x01", false).is_none());
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("\"question\":\"www.example. IN A\""), "{text}");
        for (text, line, reason) in [
            ("", 1, "empty"),
            ("www.example. A\n", 1, "no answers"),
            ("{\"form\":\"catlab answers 1\"}\n{\"key\":\"00\"}\n", 2, "missing field"),
            (&text.replacen("000000000000", "no digest", 1), 2, "no digest"),
        ] {
            std::fs::write(&file, text).unwrap();
            let error = Expected::read(&file).unwrap_err().to_string();
            assert!(error.contains(&format!("answers.jsonl:{line}: ")) && error.contains(reason), "{error}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
