//! Compares the answers of one worker with expected answers.

use super::expected::{Expected, ExpectedAnswer};
use super::fingerprint::Fingerprint;
use super::recorder::Recorder;
use super::text;
use crate::limits::RIGHT_BYTES_KEPT_MAX;
use compare::Response;
use measure::limits::WRONG_ANSWERS_TOLD_MAX;
use measure::{AnswerCheck, AnswerChecker, AnswerChecking, CheckCounts, Difference, WrongAnswer};
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// The source of expected answers.
#[derive(Clone, Debug)]
pub enum Reference {
    /// Recorded earlier.
    Expected(Arc<Expected>),
    /// The first answer to the same question in this run.
    Recorder(Arc<Recorder>),
}

/// How answers are checked.
#[derive(Clone, Debug)]
pub struct Checking {
    /// The source of expected answers.
    pub reference: Reference,
    /// Share of the answers to check, 0 to 1.
    pub share: f64,
}

/// The checks of one worker.
struct Checker {
    checking: Checking,
    /// State of the random choice of answers.
    draw: u64,
    /// Hashes of correct answers. Most servers repeat an answer byte for byte.
    right: HashSet<u64, BuildHasherDefault<PassThroughHasher>>,
    wrong: Vec<WrongAnswer>,
}

/// Passes the keys of the set through: they are hashes already.
#[derive(Default)]
struct PassThroughHasher(u64);

impl Hasher for PassThroughHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = load::byte_hash::of(bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl AnswerChecking for Checking {
    fn checker(&self, seed: u64) -> Box<dyn AnswerChecker> {
        Box::new(Checker::new(self, seed))
    }
}

impl AnswerChecker for Checker {
    fn check(&mut self, at_ns: u64, message: &[u8], checked: &mut CheckCounts) -> Option<AnswerCheck> {
        if !self.is_drawn() {
            return None;
        }
        let check = self.judge(at_ns, message);
        checked.checked += 1;
        match check {
            AnswerCheck::Unknown => checked.unknown += 1,
            AnswerCheck::Wrong(kind) => checked.count(kind),
            AnswerCheck::Right | AnswerCheck::UnexpectedRcode => {}
        }
        Some(check)
    }

    fn into_wrong(self: Box<Self>) -> Vec<WrongAnswer> {
        self.wrong
    }
}

impl Checker {
    fn new(checking: &Checking, seed: u64) -> Self {
        Self { checking: checking.clone(), draw: seed, right: HashSet::default(), wrong: Vec::new() }
    }

    fn judge(&mut self, at_ns: u64, message: &[u8]) -> AnswerCheck {
        // The ID differs in each answer, so it is skipped.
        let bytes = load::byte_hash::of(&message[message.len().min(2)..]);
        if self.right.contains(&bytes) {
            return AnswerCheck::Right;
        }
        let Some(response) = Response::parse(message) else {
            self.unreadable(at_ns, message);
            return AnswerCheck::Wrong(Difference::Unreadable);
        };
        let dnssec_ok = response.edns == Some(true);
        let got = Fingerprint::of(&response);
        let found = match &self.checking.reference {
            Reference::Expected(expected) => {
                let right = expected.right(&response.question, dnssec_ok);
                right.map(|right| (right.fingerprint.difference(&got), right.text.clone()))
            }
            Reference::Recorder(recorder) => {
                let own = ExpectedAnswer { fingerprint: got, text: text::of(message, &response).into() };
                let right = recorder.right(&response.question, dnssec_ok, &own);
                right.map(|right| (right.fingerprint.difference(&got), right.text))
            }
        };
        match found {
            None => AnswerCheck::Unknown,
            Some((None, _)) => {
                self.remember(bytes);
                AnswerCheck::Right
            }
            Some((Some(kind), expected)) => {
                if self.wrong.len() < WRONG_ANSWERS_TOLD_MAX {
                    let question = text::question(&response.question);
                    let (expected, got) = (expected.into(), text::of(message, &response));
                    self.wrong.push(WrongAnswer { at: at_ns as f64 / 1e9, question, kind, expected, got });
                }
                AnswerCheck::Wrong(kind)
            }
        }
    }

    fn unreadable(&mut self, at_ns: u64, message: &[u8]) {
        if self.wrong.len() < WRONG_ANSWERS_TOLD_MAX {
            self.wrong.push(WrongAnswer {
                at: at_ns as f64 / 1e9,
                question: load::engine::question_of(message).map_or_else(|| "?".to_owned(), text::question),
                kind: Difference::Unreadable,
                expected: "a DNS message".to_owned(),
                got: text::unreadable(message),
            });
        }
    }

    fn remember(&mut self, bytes: u64) {
        if self.right.len() >= RIGHT_BYTES_KEPT_MAX {
            self.right.clear();
        }
        self.right.insert(bytes);
    }

    /// A linear congruential generator is enough to draw a share, and costs almost nothing.
    fn is_drawn(&mut self) -> bool {
        if self.checking.share >= 1.0 {
            return true;
        }
        self.draw = self.draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.draw >> 33) as f64) < self.checking.share * (1u64 << 31) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(name: u8, last: u8) -> Vec<u8> {
        let mut message = b"\0\x01\x84\0\0\x01\0\x01\0\0\0\0\x01".to_vec();
        message.push(name);
        message.extend_from_slice(b"\x07example\0\0\x01\0\x01\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02");
        message.push(last);
        message
    }

    #[test]
    fn the_first_answer_is_the_right_one() {
        let recorder = Arc::new(Recorder::default());
        let mut checker =
            Checker::new(&Checking { reference: Reference::Recorder(Arc::clone(&recorder)), share: 1.0 }, 1);
        let mut checked = CheckCounts::default();
        for message in [answer(b'a', 1), answer(b'b', 1), answer(b'A', 1), answer(b'a', 2), answer(b'a', 1)] {
            checker.check(1_500_000_000, &message, &mut checked);
        }
        checker.check(0, &answer(b'a', 1)[..40], &mut checked);
        assert_eq!((checked.checked, checked.answer, checked.unreadable, checked.wrong()), (6, 1, 1, 2));
        let wrong = checker.wrong;
        assert_eq!((wrong[0].question.as_str(), wrong[0].at), ("a.example. IN A", 1.5));
        assert!(wrong[0].expected.contains("192.0.2.1") && wrong[0].got.contains("192.0.2.2"), "{wrong:?}");
        assert!(wrong[1].got.contains("bytes that are no message") && wrong[1].question == "a.example. IN A");
    }

    #[test]
    fn questions_missing_from_the_file_are_unknown() {
        let reference = Reference::Expected(Arc::default());
        let mut checker = Checker::new(&Checking { reference, share: 1.0 }, 1);
        let mut checked = CheckCounts::default();
        checker.check(0, &answer(b'a', 1), &mut checked);
        assert_eq!((checked.checked, checked.unknown, checked.wrong()), (1, 1, 0));
    }

    #[test]
    fn the_checked_share_is_respected() {
        let reference = Reference::Expected(Arc::default());
        let mut checker = Checker::new(&Checking { reference, share: 0.01 }, 7);
        let mut checked = CheckCounts::default();
        let looks = (0..100_000).filter_map(|_| checker.check(0, &answer(b'a', 1), &mut checked)).count() as u64;
        assert_eq!(looks, checked.checked);
        assert!((900..1_100).contains(&checked.checked), "{}", checked.checked);
    }
}
