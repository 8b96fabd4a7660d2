//! Parsers for option values. Each error says what to write instead.

use data_encoding::HEXLOWER_PERMISSIVE;
use lab::limits::{SOCKETS_MAX, WORKERS_MAX};
use load::limits::CLIENTS_MAX;
use load::workload::{self, Popularity};
use measure::{RCODE_COUNT, Transport};
use report::parse_duration;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use wire::Rtype;
use wire::name::Name;

pub(crate) fn parse_server(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .or_else(|_| text.parse::<IpAddr>().map(|address| SocketAddr::new(address, 53)))
        .map_err(|_| format!("{text} is not an address; write 127.0.0.1:5300, [::1]:5300, or an address for port 53"))
}

/// Parses `udp=5300`.
pub(crate) fn parse_port(text: &str) -> Result<(Transport, u16), String> {
    let (transport, port) = text.split_once('=').ok_or_else(|| format!("{text}: write udp=5300"))?;
    Ok((transport.parse()?, port.parse().map_err(|_| format!("{port} is not a port"))?))
}

pub(crate) fn parse_popularity(text: &str) -> Result<Popularity, String> {
    match text {
        "uniform" => Ok(Popularity::Uniform),
        "sequential" => Ok(Popularity::Sequential),
        "random" => Ok(Popularity::Random),
        _ => text.strip_prefix("zipf:").and_then(|exponent| exponent.parse().ok()).map(Popularity::Zipf).ok_or_else(
            || format!("{text} is not a distribution of names; write uniform, sequential, random or zipf:1.0"),
        ),
    }
}

#[derive(Clone)]
pub(crate) struct Types(pub(crate) Vec<(Rtype, f64)>);

pub(crate) fn parse_types(text: &str) -> Result<Types, String> {
    let part = |part: &str| {
        let (rtype, weight) = part.split_once(':').unwrap_or((part, "1"));
        let rtype = trace::rtype(rtype).ok_or_else(|| format!("{rtype} is not a type"))?;
        weight.parse().map(|weight| (rtype, weight)).map_err(|_| format!("{weight} is not a weight; write A:3,AAAA:1"))
    };
    text.split(',').map(part).collect::<Result<_, _>>().map(Types)
}

pub(crate) fn parse_rcode(text: &str) -> Result<u8, String> {
    let names = (0..RCODE_COUNT as u16).map(|code| (format!("{:?}", wire::number::Rcode(code)), code as u8));
    let number = text.parse::<u8>().ok().filter(|&code| usize::from(code) < RCODE_COUNT);
    number
        .or_else(|| names.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, code)| code))
        .ok_or_else(|| format!("{text} is not an RCODE; write NOERROR, NXDOMAIN, or a number below {RCODE_COUNT}"))
}

pub(crate) fn parse_subnet(text: &str) -> Result<(IpAddr, u8), String> {
    workload::read_subnet(text).ok_or_else(|| format!("{text} is not a subnet; write 192.0.2.0/24"))
}

pub(crate) fn parse_name(text: &str) -> Result<Name, String> {
    text.parse().map_err(|error| format!("{text} is not a name: {error}"))
}

pub(crate) fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("{text} is not a share; write 0 to 1"))
}

pub(crate) fn parse_connections(text: &str) -> Result<usize, String> {
    parse_count(text, CLIENTS_MAX)
}

pub(crate) fn parse_sockets(text: &str) -> Result<usize, String> {
    parse_count(text, SOCKETS_MAX)
}

pub(crate) fn parse_workers(text: &str) -> Result<usize, String> {
    parse_count(text, WORKERS_MAX)
}

fn parse_count(text: &str, most: usize) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=most).contains(count));
    count.ok_or_else(|| format!("{text} is out of range; write 1 to {most}"))
}

/// Parses an EDNS option: its code, and its value in hex (RFC 6891 6.1.2).
pub(crate) fn parse_edns_option(text: &str) -> Result<(u16, Vec<u8>), String> {
    let (code, hex) = text.split_once(':').unwrap_or((text, ""));
    let code = code.parse().map_err(|_| format!("{code} is not an option code; write 0 to 65535"))?;
    let value = HEXLOWER_PERMISSIVE.decode(hex.as_bytes());
    let value = value.map_err(|_| format!("{hex} is not a value in hex; write 65001:c0ffee"))?;
    Ok((code, value))
}

/// Parses a duration above zero.
pub(crate) fn parse_timeout(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => Err("a timeout cannot be zero; write 2s".into()),
        timeout => Ok(timeout),
    }
}
