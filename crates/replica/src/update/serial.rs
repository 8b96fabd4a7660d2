//! The next serial of a zone after an update (RFC 2136 3.6, RFC 1982), and after its cluster was restored from an old
//! state.

use crate::limits::{RESTORE_SERIAL_GAP, SERIAL_GAP_MAX};
use wire::number::Serial;
use zone::text::calendar_date;

/// How a zone's serial moves when an update changes the zone and does not carry a larger serial itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SerialPolicyOption {
    /// Adds one to the serial.
    #[default]
    Increment,
    /// The seconds since 1970, or the next serial if that time would not be newer.
    UnixTime,
    /// `YYYYMMDD00` of the current day in UTC, or the next serial if that would not be newer.
    Date,
}

/// The serial after `current`. It is newer than `current` in the arithmetic of RFC 1982 for any clock, and never 0,
/// because some software takes 0 for "no serial": 1 follows 4294967295.
#[must_use]
pub fn step(current: Serial, policy: SerialPolicyOption, now_s: u64) -> Serial {
    match policy {
        SerialPolicyOption::Increment => current.next(),
        SerialPolicyOption::UnixTime => {
            // The lower 32 bits: from 2106 on the time wraps around as serials do.
            let time = Serial(now_s as u32);
            if time.0 != 0 && time.is_newer_than(current) { time } else { current.next() }
        }
        SerialPolicyOption::Date => {
            let (year, month, day) = calendar_date(now_s);
            // A date after the year 4294 does not fit 32 bits.
            let date = u32::try_from(((year * 100 + month) * 100 + day) * 100).map(Serial).ok();
            date.filter(|date| date.is_newer_than(current)).unwrap_or_else(|| current.next())
        }
    }
}

/// How far the serials of a restored cluster jump ahead: from 1 to [`SERIAL_GAP_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SerialGap(u32);

impl SerialGap {
    /// Returns `None` if serials would not move or would go back (RFC 1982 3.1).
    #[must_use]
    pub const fn new(gap: u32) -> Option<Self> {
        if gap == 0 || gap > SERIAL_GAP_MAX { None } else { Some(Self(gap)) }
    }
}

impl Default for SerialGap {
    fn default() -> Self {
        Self(RESTORE_SERIAL_GAP)
    }
}

/// Returns the serial of a zone in a restored cluster; `last` is the serial in the restored state. With `unixtime` and
/// `date` the old cluster may have served the current time or date, so the gap begins there. The result is always newer
/// than `last`.
#[must_use]
pub fn restored(last: Serial, policy: SerialPolicyOption, now_s: u64, gap: SerialGap) -> Serial {
    // The serial that the policy gives for a change made now.
    let served = match policy {
        SerialPolicyOption::Increment => last,
        SerialPolicyOption::UnixTime | SerialPolicyOption::Date => step(last, policy, now_s),
    };
    let passed = served.0.wrapping_sub(last.0);
    let gap = if planted!(RestoreWithoutSerialGap) { 0 } else { gap.0 };
    let ahead = passed.saturating_add(gap).min(SERIAL_GAP_MAX);
    match last.0.wrapping_add(ahead) {
        // Some software takes 0 for "no serial", so it is skipped. A step larger than the largest would go back.
        0 if ahead == SERIAL_GAP_MAX => Serial(u32::MAX),
        0 => Serial(1),
        to => Serial(to),
    }
}

/// The same for a removed zone, whose policy is unknown: the newest serial that any policy gives.
#[must_use]
pub fn restored_of_removed(last: Serial, now_s: u64, gap: SerialGap) -> Serial {
    let policies = [SerialPolicyOption::Increment, SerialPolicyOption::UnixTime, SerialPolicyOption::Date];
    let all = policies.map(|policy| restored(last, policy, now_s, gap));
    all.into_iter().max_by_key(|to| to.0.wrapping_sub(last.0)).unwrap_or(last)
}

/// The serial in the rdata of an SOA (RFC 1035 3.3.13): the first of the five numbers after two names. `None` if the
/// rdata is too short for an SOA.
#[must_use]
pub fn of_soa(rdata: &[u8]) -> Option<Serial> {
    let at = serial_at(rdata)?;
    rdata[at..].first_chunk().map(|&bytes| Serial(u32::from_be_bytes(bytes)))
}

/// The rdata of an SOA with another serial; `None` if the rdata is too short for an SOA.
#[must_use]
pub fn with_serial(rdata: &[u8], serial: Serial) -> Option<Box<[u8]>> {
    let at = serial_at(rdata)?;
    let mut rdata: Box<[u8]> = rdata.into();
    rdata[at..at + 4].copy_from_slice(&serial.0.to_be_bytes());
    Some(rdata)
}

/// Bytes of SERIAL, REFRESH, RETRY, EXPIRE and MINIMUM at the end of the rdata.
const NUMBERS_BYTES: usize = 20;

const fn serial_at(rdata: &[u8]) -> Option<usize> {
    rdata.len().checked_sub(NUMBERS_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use SerialPolicyOption::{Date, Increment, UnixTime};

    #[test]
    fn steps_are_newer_and_leave_zero_out() {
        let cases = [
            (Increment, 1, 0, 2),
            (Increment, u32::MAX, 0, 1),
            (Increment, u32::MAX - 1, 0, u32::MAX),
            (UnixTime, 1, 1_700_000_000, 1_700_000_000),
            // Two updates in one second, and a clock that was set back.
            (UnixTime, 1_700_000_000, 1_700_000_000, 1_700_000_001),
            (UnixTime, 1_700_000_009, 1_700_000_000, 1_700_000_010),
            // A serial of the form YYYYMMDDnn is ahead of the time until the time wraps around.
            (UnixTime, 2_026_112_100, 1_795_000_000, 2_026_112_101),
            // More than half the circle behind counts as ahead.
            (UnixTime, 3_900_000_000, 1_700_000_000, 1_700_000_000),
            (UnixTime, u32::MAX, 1 << 32, 1),
            // 27 November 2026, 23:59:59 UTC, and a second later; 29 February.
            (Date, 1, 1_795_823_999, 2_026_112_700),
            (Date, 1, 1_795_824_000, 2_026_112_800),
            (Date, 2_024_022_899, 1_709_164_800, 2_024_022_900),
            (Date, 2_026_112_700, 1_795_823_999, 2_026_112_701),
            // After more than a hundred updates in a day, serials continue into the next day's numbers. A clock that
            // went back changes nothing.
            (Date, 2_026_112_799, 1_795_823_999, 2_026_112_800),
            (Date, 2_026_112_800, 1_795_823_999, 2_026_112_801),
            // A time in seconds is older than a date. A serial more than half the circle ahead of the date also counts
            // as older.
            (Date, 1_795_824_000, 1_795_823_999, 2_026_112_700),
            (Date, 4_200_000_000, 1_795_823_999, 2_026_112_700),
            (Date, 4_100_000_000, 1_795_823_999, 4_100_000_001),
            (Date, 7, u64::MAX, 8),
        ];
        for (policy, current, now_s, next) in cases {
            let got = step(Serial(current), policy, now_s);
            assert_eq!(got, Serial(next), "{policy:?} {current} at {now_s}");
            assert!(got.is_newer_than(Serial(current)));
        }
    }

    #[test]
    fn a_restored_serial_is_ahead_of_what_the_old_cluster_served() {
        let now_s = 1_795_000_000;
        // With `increment`: several places on the circle, and a date. With `unixtime`: a current time, serials from
        // before the policy was set, and a serial ahead of the time because the zone changes more than once a second.
        for (policy, last) in [
            (Increment, 1),
            (Increment, u32::MAX - 5),
            (Increment, u32::MAX - (1 << 30) + 1),
            (Increment, 2_026_112_701),
            (UnixTime, 1_794_900_000),
            (UnixTime, 7),
            (UnixTime, 1_795_900_000),
            (UnixTime, 2_026_112_701),
            (UnixTime, 3_900_000_000),
            (Date, 2_024_010_100),
            (Date, 7),
            (Date, 2_026_112_799),
            (Date, 4_100_000_000),
        ] {
            let to = restored(Serial(last), policy, now_s, SerialGap::default());
            assert!(to.0 != 0 && to.is_newer_than(Serial(last)), "{policy:?} {last}: {}", to.0);
            // The old cluster made 70,000 updates after the backup, the last of them now.
            let mut served = Serial(last);
            for number in 0..70_000 {
                served = step(served, policy, now_s - (70_000 - number) / 10);
                assert!(to.is_newer_than(served), "{policy:?} {last}: {} is not ahead of {}", to.0, served.0);
            }
        }
    }

    #[test]
    fn no_gap_makes_a_serial_go_back() {
        assert_eq!([0, 1 << 31, u32::MAX].map(SerialGap::new), [None; 3]);
        for gap in [1, 2, 65_536, 1 << 30, SERIAL_GAP_MAX] {
            for near in [0, 1, 7, 1 << 30, 1 << 31, u32::MAX, 0_u32.wrapping_sub(gap)] {
                for policy in [Increment, UnixTime, Date] {
                    for now_s in [0, 1_795_000_000, 1 << 31, u64::from(u32::MAX), u64::from(near) + (1 << 31) - 1] {
                        let to = restored(Serial(near), policy, now_s, SerialGap::new(gap).unwrap());
                        assert!(to.0 != 0 && to.is_newer_than(Serial(near)), "{policy:?} {near} {gap} {now_s}");
                    }
                }
            }
        }
        // Here the step that skips 0 would be too long by one.
        let gap = SerialGap::new(SERIAL_GAP_MAX).unwrap();
        assert_eq!(restored(Serial((1 << 31) + 1), Increment, 0, gap), Serial(u32::MAX));
        assert_eq!(restored(Serial(u32::MAX), Increment, 0, SerialGap::new(1).unwrap()), Serial(1));
    }

    /// A gap large enough for one day's changes need not reach from the backup's date to the current date.
    #[test]
    fn a_small_gap_begins_at_the_date_or_the_time_of_now() {
        let (now_s, gap) = (1_795_824_000, SerialGap::new(100).unwrap());
        for (policy, last) in [(Date, 2_024_010_100), (UnixTime, 1_704_067_200)] {
            let served = step(Serial(last), policy, now_s);
            for to in [restored(Serial(last), policy, now_s, gap), restored_of_removed(Serial(last), now_s, gap)] {
                assert!(to.is_newer_than(served), "{policy:?}: {} is behind {}", to.0, served.0);
            }
        }
    }

    #[test]
    fn the_serial_of_an_soa_is_read_and_replaced() {
        let mut rdata = b"\x01a\0\x01b\0".to_vec();
        rdata.extend([0, 0, 0, 7].iter().chain(&[9; 16]));
        assert_eq!(of_soa(&rdata), Some(Serial(7)));
        let replaced = with_serial(&rdata, Serial(u32::MAX)).unwrap();
        assert_eq!(of_soa(&replaced), Some(Serial(u32::MAX)));
        assert_eq!((&replaced[..6], &replaced[10..]), (&rdata[..6], &rdata[10..]));
        assert_eq!(of_soa(&[0; 19]), None);
    }
}
