//! Counts what tests print.

use crate::programs::ended_test;
use skip::Skip;
use std::fmt;

/// Number of passed, failed and skipped tests, and the skips.
#[derive(Default)]
pub(super) struct Count {
    pub(super) passed: u64,
    pub(super) failed: u64,
    ignored: u64,
    /// The skips that tests printed.
    pub(super) skips: Vec<Skip>,
    /// Number of tests that skipped something. The harness counts them as passed or failed.
    partly_skipped: u64,
    /// Whether the current test has printed a skip.
    has_skipped: bool,
    /// Failed tests.
    pub(super) failures: Vec<Failure>,
    /// The test whose output is being read.
    section: String,
    /// How many more lines of the current panic are kept.
    panic_lines_left: usize,
}

/// A failed test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) test: String,
    /// Where and why it panicked, on one line.
    pub(super) panic: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed: {}\n        {}", self.test, self.panic)
    }
}

/// Lines of a panic's message that are printed.
const PANIC_LINES: usize = 3;

impl Count {
    /// Reads `skipped [peer] knotd` and `test result: ok. 12 passed; 0 failed; 1 ignored; ...`.
    pub(super) fn add(&mut self, line: &str) {
        if let Some(skip) = Skip::parse(line) {
            self.skips.push(skip);
            self.partly_skipped += u64::from(!std::mem::replace(&mut self.has_skipped, true));
        } else if line.starts_with("---- ") {
            self.has_skipped = false;
        }
        if let Some((name, "FAILED")) = ended_test(line) {
            self.failures.push(Failure { test: name.to_owned(), panic: String::new() });
        }
        self.add_panic(line);
        let Some(result) = line.strip_prefix("test result: ") else { return };
        let words: Vec<&str> = result.split_whitespace().collect();
        for pair in words.windows(2) {
            let Ok(number) = pair[0].parse::<u64>() else { continue };
            match pair[1].trim_end_matches(';') {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }

    /// Keeps the beginning of a failed test's last panic, from its section of the output.
    fn add_panic(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            (self.section, self.panic_lines_left) = (name.to_owned(), 0);
        }
        let Some(failure) = self.failures.iter_mut().find(|failure| failure.test == self.section) else { return };
        if let Some((_, place)) = line.split_once(" panicked at ") {
            (failure.panic, self.panic_lines_left) = (place.to_owned(), PANIC_LINES);
        } else if line.starts_with("stack backtrace:") || line.starts_with("note: ") {
            self.panic_lines_left = 0;
        } else if self.panic_lines_left > 0 {
            self.panic_lines_left -= 1;
            failure.panic = format!("{} {}", failure.panic, line.trim());
        }
    }

    /// Adds the count of another program.
    pub(super) fn append(&mut self, mut other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.partly_skipped += other.partly_skipped;
        self.skips.append(&mut other.skips);
        self.failures.append(&mut other.failures);
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let passed = self.passed.saturating_sub(self.partly_skipped);
        write!(f, "{passed} passed, {} failed, {} skipped", self.failed, self.ignored + self.partly_skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skip::Cause;

    #[test]
    fn closing_lines_add_up() {
        let mut count = Count::default();
        count.add("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s");
        let mut other = Count::default();
        other.add("test something ... ok");
        other.add("test another::thing ... FAILED");
        other.add("---- something stdout ----");
        other.add("thread 'something' (7) panicked at src/a.rs:1:2:");
        other.add("on purpose");
        other.add("---- another::thing stdout ----");
        other.add("a figure");
        other.add("thread 'another::thing' (8) panicked at src/b.rs:3:4:");
        other.add("waited in vain for b");
        other.add("stack backtrace:");
        other.add("   0: std::panicking::begin_panic");
        other.add("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out");
        count.append(other);
        let panic = "src/b.rs:3:4: waited in vain for b".to_owned();
        assert_eq!(count.failures, [Failure { test: "another::thing".into(), panic }]);
        assert_eq!(count.to_string(), "15 passed, 2 failed, 1 skipped");
    }

    #[test]
    fn a_test_that_skips_counts_once() {
        let mut count = Count::default();
        let skip = |cause, what: &str| Skip { cause, what: what.into() };
        let of_one = [skip(Cause::Peer, "knotd"), skip(Cause::Data, "captures/a.pcap")];
        let of_two = [skip(Cause::Permission, "a mount (root)"), skip(Cause::Full, "lego")];
        count.add("---- one stdout ----");
        of_one.iter().for_each(|skip| count.add(&skip.to_string()));
        count.add("skipped 3 entries of the query file: bad name");
        count.add("---- two stdout ----");
        of_two.iter().for_each(|skip| count.add(&skip.to_string()));
        count.add("test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s");
        assert_eq!(count.to_string(), "1 passed, 0 failed, 2 skipped");
        assert_eq!(count.skips, [of_one, of_two].concat());
        let of_machine = count.skips.iter().filter(|skip| skip.cause.is_of_machine());
        assert_eq!(of_machine.map(|skip| skip.what.as_str()).collect::<Vec<_>>(), ["knotd", "a mount (root)"]);
    }
}
