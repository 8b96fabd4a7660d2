//! Durations, round trips, shares, rates and networks as people write them.

use crate::delay::Rtt;
use crate::limits::{RATE_BITS_MAX, RTT_MAX};
use std::net::IpAddr;
use std::time::Duration;

/// Reads `20ms`, `1.5s` or `300us`.
///
/// # Errors
///
/// The text is malformed. The error says what is expected.
pub fn read_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return Err(format!("{text:?} is not a duration; write 20ms, 1.5s or 300us")),
    };
    let number: f64 = number.parse().map_err(|_| format!("{text:?} is not a duration; write 20ms"))?;
    let duration = Duration::try_from_secs_f64(number * seconds).map_err(|error| format!("{text:?}: {error}"))?;
    if duration > RTT_MAX {
        return Err(format!("{text:?} is more than {} s", RTT_MAX.as_secs()));
    }
    Ok(duration)
}

/// Reads a round trip: `20ms`, or one for each client from a distribution, such as `lognormal:80ms:0.5` with its median
/// and sigma, `normal:80ms:10ms`, or `pareto:10ms:2`.
///
/// # Errors
///
/// The text is malformed. The error says what is expected.
pub fn read_rtt(text: &str) -> Result<Rtt, String> {
    let words: Vec<&str> = text.split(':').collect();
    let number = |text: &str| text.parse::<f64>().map_err(|_| format!("{text:?} is not a number"));
    match words[..] {
        [rtt] => Ok(Rtt::Constant(read_duration(rtt)?)),
        ["normal", mean, deviation] => {
            Ok(Rtt::Normal { mean: read_duration(mean)?, deviation: read_duration(deviation)? })
        }
        ["lognormal", median, sigma] => Ok(Rtt::Lognormal { median: read_duration(median)?, sigma: number(sigma)? }),
        ["pareto", least, shape] => Ok(Rtt::Pareto { least: read_duration(least)?, shape: number(shape)? }),
        _ => Err(format!("{text:?} is not a round trip; write 20ms or lognormal:80ms:0.5")),
    }
}

/// Reads a share: `0.1%`, or `0.001`.
///
/// # Errors
///
/// The text is malformed. The error says what is expected.
pub fn read_share(text: &str) -> Result<f64, String> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let share = number.trim().parse::<f64>().ok().map(|number| number / scale);
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| format!("{text:?} is not a share; write 0.1% or 0.001"))
}

/// Reads a rate into bits per second: `100mbit`, `64kbit`, `1gbit`.
///
/// # Errors
///
/// The text is malformed. The error says what is expected.
pub fn read_rate(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let scale = match unit.to_ascii_lowercase().as_str() {
        "bit" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        _ => return Err(format!("{text:?} is not a rate; write 100mbit, 64kbit or 1gbit")),
    };
    let number: f64 = number.parse().map_err(|_| format!("{text:?} is not a rate; write 100mbit"))?;
    let bits = (number * scale).round();
    if !(1_000.0..=RATE_BITS_MAX as f64).contains(&bits) {
        return Err(format!("{text:?} is out of range; write 1kbit to {}gbit", RATE_BITS_MAX / 1_000_000_000));
    }
    Ok(bits as u64)
}

/// Reads a network: `10.0.0.0/8`, `fd00::/64`.
///
/// # Errors
///
/// The text is malformed. The error says what is expected.
pub fn read_network(text: &str) -> Result<(IpAddr, u8), String> {
    let refused = || format!("{text:?} is not a network; write 10.100.0.0/16");
    let (address, length) = text.split_once('/').ok_or_else(refused)?;
    let address: IpAddr = address.parse().map_err(|_| refused())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let length: u8 = length.parse().ok().filter(|length| *length <= most).ok_or_else(refused)?;
    let host_bits = match address {
        IpAddr::V4(address) => u32::from(address).checked_shl(u32::from(length)).unwrap_or(0) != 0,
        IpAddr::V6(address) => u128::from(address).checked_shl(u32::from(length)).unwrap_or(0) != 0,
    };
    if host_bits {
        return Err(format!("{text:?} has host bits; write the address of the network"));
    }
    Ok((address, length))
}

fn split(text: &str) -> (&str, &str) {
    text.split_at(text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_notations_are_read() {
        assert_eq!(read_duration("20ms").unwrap(), Duration::from_millis(20));
        assert_eq!(read_duration("1.5s").unwrap(), Duration::from_millis(1_500));
        for (text, micros) in [("0ms", 0), ("36.5ms", 36_500), ("160ms", 160_000)] {
            assert_eq!(read_rtt(text).unwrap(), Rtt::Constant(Duration::from_micros(micros)));
        }
        let (median, ten) = (Duration::from_millis(80), Duration::from_millis(10));
        assert_eq!(read_rtt("lognormal:80ms:0.5").unwrap(), Rtt::Lognormal { median, sigma: 0.5 });
        assert_eq!(read_rtt("normal:80ms:10ms").unwrap(), Rtt::Normal { mean: median, deviation: ten });
        assert_eq!(read_rtt("pareto:10ms:2").unwrap(), Rtt::Pareto { least: ten, shape: 2.0 });
        assert_eq!(read_share("0.1%").unwrap(), 0.001);
        assert_eq!(read_share("1").unwrap(), 1.0);
        assert_eq!(read_rate("100mbit").unwrap(), 100_000_000);
        assert_eq!(read_rate("2.5Gbit").unwrap(), 2_500_000_000);
        assert_eq!(read_network("10.100.0.0/16").unwrap(), ("10.100.0.0".parse().unwrap(), 16));
        assert_eq!(read_network("0.0.0.0/0").unwrap().1, 0);
    }

    #[test]
    fn invalid_values_are_refused() {
        for text in ["20", "ms", "-1ms", "20 parsecs", "1e9s", "61s"] {
            assert!(read_duration(text).is_err(), "{text}");
        }
        for text in ["0", "20ms:1", "lognormal:80ms", "lognormal:80:0.5", "lognormal:80ms:wide", "uniform:1ms:2ms"] {
            assert!(read_rtt(text).is_err(), "{text}");
        }
        for text in ["101%", "-0.1", "much", "NaN"] {
            assert!(read_share(text).is_err(), "{text}");
        }
        for text in ["100", "1bit", "100mb", "-5mbit", "9000gbit"] {
            assert!(read_rate(text).is_err(), "{text}");
        }
        for text in ["10.1.2.3/16", "10.0.0.0", "10.0.0.0/33", "fd00::1/64"] {
            assert!(read_network(text).is_err(), "{text}");
        }
    }
}
