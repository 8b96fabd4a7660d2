//! Values of rules and options. Each error says what to write instead.

use std::net::{IpAddr, SocketAddr};
use trace::Transport;
use trace::mutate::{EdnsChange, IdChange};

/// Transports and their shares.
pub type TransportShares = Vec<(Transport, f64)>;

/// Parses `tcp` or `tcp=0.3,dot=0.2`.
///
/// # Errors
/// Says what to write.
pub fn parse_transports(text: &str) -> Result<TransportShares, String> {
    let part = |part: &str| {
        let (word, share) = part.split_once('=').unwrap_or((part, "1"));
        let transport =
            word.parse::<Transport>().map_err(|()| format!("{word} is not one of udp, tcp, dot, doh and doq"))?;
        let share = share.parse::<f64>().map_err(|_| format!("{share} is not a share; write tcp=0.3,dot=0.2"))?;
        Ok((transport, share))
    };
    text.split(',').map(part).collect()
}

/// Parses `random`, `count` or a number.
///
/// # Errors
/// Says what to write.
pub fn parse_id(text: &str) -> Result<IdChange, String> {
    match text {
        "random" => Ok(IdChange::Random),
        "count" => Ok(IdChange::Count),
        number => number.parse().map(IdChange::Fixed).map_err(|_| format!("{text}: write random, count or a number")),
    }
}

/// Parses `none` or a payload size.
///
/// # Errors
/// Says what to write.
pub fn parse_edns(text: &str) -> Result<EdnsChange, String> {
    match text {
        "none" => Ok(EdnsChange::Remove),
        size => size.parse().map(EdnsChange::Payload).map_err(|_| format!("{text}: write none or a size in bytes")),
    }
}

/// Parses `on` or `off`.
///
/// # Errors
/// Says what to write.
pub fn parse_on_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("{text}: write on or off")),
    }
}

/// Parses an address with an optional port.
///
/// # Errors
/// Says what to write.
pub fn parse_server(text: &str) -> Result<(IpAddr, Option<u16>), String> {
    let whole = text.parse::<SocketAddr>().map(|at| (at.ip(), Some(at.port())));
    whole
        .or_else(|_| text.parse::<IpAddr>().map(|address| (address, None)))
        .map_err(|_| format!("{text} is not an address; write 192.0.2.53, 192.0.2.53:5300 or [2001:db8::53]:5300"))
}

/// Converts seconds to nanoseconds.
///
/// # Errors
/// If the number is not finite or exceeds 64 bits.
pub fn seconds_to_ns(seconds: f64) -> Result<i64, String> {
    let ns = (seconds * 1e9).round();
    let fits = ns.is_finite() && ns.abs() < i64::MAX as f64;
    if fits { Ok(ns as i64) } else { Err(format!("{seconds} is not a time in seconds")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_words_are_read_and_others_refused() {
        assert_eq!(parse_transports("tcp"), Ok(vec![(Transport::Tcp, 1.0)]));
        assert_eq!(parse_transports("tcp=0.3,tls=0.2"), Ok(vec![(Transport::Tcp, 0.3), (Transport::Dot, 0.2)]));
        assert!(parse_transports("sctp").is_err() && parse_transports("tcp=x").is_err());
        assert_eq!((parse_id("count"), parse_id("7")), (Ok(IdChange::Count), Ok(IdChange::Fixed(7))));
        assert!(parse_id("70000").is_err() && parse_edns("big").is_err() && parse_on_off("yes").is_err());
        assert_eq!(parse_server("[::1]:53"), Ok(("::1".parse().unwrap(), Some(53))));
        assert_eq!(parse_server("::1"), Ok(("::1".parse().unwrap(), None)));
        assert!(parse_server("localhost").is_err());
        assert_eq!(seconds_to_ns(-1.5), Ok(-1_500_000_000));
        assert!(seconds_to_ns(f64::NAN).is_err() && seconds_to_ns(1e300).is_err());
    }
}
