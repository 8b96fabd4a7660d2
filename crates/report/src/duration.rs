//! Durations as text.

use std::time::Duration;

/// Formats a duration in a suitable unit with three digits: `45.0 us`, `1.23 ms`, `2.50 s`.
#[must_use]
pub fn duration(duration: Duration) -> String {
    microseconds(duration.as_nanos() as f64 / 1e3)
}

/// Reads a duration: `6s`, `500ms`, `100us`, `2m` or `1h`. A number without a unit is in seconds.
///
/// # Errors
/// The text is not a duration, or is too long. The error says what to write.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
    let number: f64 = text[..split].parse().map_err(|_| format!("{text} is not a duration; write 6s, 500ms or 2m"))?;
    let unit = match &text[split..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        unit => return Err(format!("{unit} is not a unit of time; write us, ms, s, m or h")),
    };
    Duration::try_from_secs_f64(number * unit).map_err(|error| format!("{text}: {error}"))
}

pub(super) fn microseconds(us: f64) -> String {
    let (value, unit) = match us {
        us if us < 1e3 => (us, "us"),
        us if us < 1e6 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_unit() {
        for (text, ns) in
            [("6s", 6_000_000_000), ("500ms", 500_000_000), ("1.5", 1_500_000_000), ("2m", 120_000_000_000)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
        assert!(parse_duration("s").unwrap_err().contains("write 6s"));
        assert!(parse_duration("1day").unwrap_err().contains("us, ms, s, m or h"));
        assert!(parse_duration("-1s").is_err() && parse_duration("1e300h").is_err());
    }

    #[test]
    fn durations_have_three_digits() {
        let shown = [450, 45_000, 1_234_000, 999_000_000, 2_500_000_000].map(|ns| duration(Duration::from_nanos(ns)));
        assert_eq!(shown, ["0.45 us", "45.0 us", "1.23 ms", "999 ms", "2.50 s"]);
    }
}
