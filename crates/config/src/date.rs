//! Dates in the Gregorian calendar.

/// Days since 1970 in the Gregorian calendar; `None` before 1970 and for invalid days.
#[must_use]
pub fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years start in March here, so that the leap day is the last day of a year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    days.checked_sub(719_468)
}

/// The date of a time in seconds since 1970.
#[must_use]
pub fn day_text(seconds: u64) -> String {
    // Starts at the earliest possible year. The loop is short, since certificates expire within years.
    let days = seconds / 86_400;
    let mut year = 1970 + days / 366;
    while days_since_1970(year + 1, 1, 1).is_some_and(|first| first <= days) {
        year += 1;
    }
    let first_of = |month: u64| days_since_1970(year, month, 1).unwrap_or(0);
    let month = (1..=12).rev().find(|&month| first_of(month) <= days).unwrap_or(1);
    format!("{year:04}-{month:02}-{:02}", days - first_of(month) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_match_the_calendar() {
        for (text, days) in [("1970-01-01", 0), ("2000-02-29", 11_016), ("2026-11-22", 20_779), ("2100-03-01", 47_541)]
        {
            let [year, month, day] =
                text.split('-').map(|part| part.parse().unwrap()).collect::<Vec<u64>>().try_into().unwrap();
            assert_eq!(days_since_1970(year, month, day), Some(days), "{text}");
            assert_eq!(day_text(days * 86_400 + 86_399), text);
        }
        assert_eq!(days_since_1970(2026, 13, 1), None);
    }
}
