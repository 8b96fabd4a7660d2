//! How long the parts of a run and single tests took.

use std::fmt;
use std::time::Duration;

/// Number of slow tests to list.
const SLOWEST: usize = 15;

/// Durations of a run.
#[derive(Default)]
pub(super) struct Durations {
    /// Parts in the order in which they began.
    parts: Vec<(String, Duration)>,
    tests: Vec<(String, Duration)>,
}

impl Durations {
    /// Adds to a part.
    pub(super) fn add_part(&mut self, name: &str, duration: Duration) {
        match self.parts.iter_mut().find(|(part, _)| part == name) {
            Some((_, sum)) => *sum += duration,
            None => self.parts.push((name.to_owned(), duration)),
        }
    }

    /// Adds the tests of a program. `ends` has the times at which they ended.
    pub(super) fn add_tests(&mut self, program: &str, ends: &[(String, Duration)], threads: usize) {
        let tests = of_tests(ends, threads).into_iter();
        self.tests.extend(tests.map(|(name, duration)| (format!("{program} {name}"), duration)));
    }
}

impl fmt::Display for Durations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seconds by part; parts run side by side")?;
        for (name, duration) in &self.parts {
            writeln!(f, "{:8.1}  {name}", duration.as_secs_f64())?;
        }
        writeln!(f, "seconds of the slowest tests")?;
        let mut tests: Vec<_> = self.tests.iter().collect();
        tests.sort_by_key(|(_, duration)| std::cmp::Reverse(*duration));
        for (name, duration) in tests.iter().take(SLOWEST) {
            writeln!(f, "{:8.1}  {name}", duration.as_secs_f64())?;
        }
        Ok(())
    }
}

/// The duration of each test, from the times at which tests ended. The stable harness does not print durations, but it
/// starts tests in the order of their names: one per thread, and then one whenever a test ends.
fn of_tests(ends: &[(String, Duration)], threads: usize) -> Vec<(String, Duration)> {
    let mut names: Vec<&str> = ends.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    let start = |name: &str| {
        let index = names.binary_search(&name).expect("it holds all names");
        index.checked_sub(threads).map_or(Duration::ZERO, |ended| ends[ended].1)
    };
    ends.iter().map(|(name, end)| (name.clone(), end.saturating_sub(start(name)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_follow_from_the_order_of_ends() {
        let seconds = Duration::from_secs;
        // Two threads: a and b start at 0, c when b ends, d when c ends.
        let ends = [("b", 2), ("c", 3), ("a", 7), ("d", 8)].map(|(name, end)| (name.to_owned(), seconds(end)));
        let wanted = [("b", 2), ("c", 1), ("a", 7), ("d", 5)].map(|(name, length)| (name.to_owned(), seconds(length)));
        assert_eq!(of_tests(&ends, 2), wanted);
        let mut durations = Durations::default();
        durations.add_part("build", seconds(3));
        durations.add_part("unit tests", seconds(1));
        durations.add_part("build", seconds(1));
        durations.add_tests("server it", &ends, 2);
        let text = durations.to_string();
        assert!(text.contains("     4.0  build\n     1.0  unit tests\n"), "{text}");
        assert!(text.contains("     7.0  server it a\n     5.0  server it d\n     2.0  server it b\n"), "{text}");
    }
}
