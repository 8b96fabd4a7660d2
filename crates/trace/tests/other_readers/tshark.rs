//! Reads captures with tshark: parses the lines of its PDML, which has the fields of each message together.

use crate::fields::{MessageFields, NONE};
use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};

/// The protocols to print.
const PROTOCOLS: &str = "frame ip ipv6 udp tcp dns _ws.malformed";

/// Every message of a file in order. `None` if tshark is not installed.
pub(crate) fn read(path: &Path) -> Option<Vec<MessageFields>> {
    // tshark does not read these compressed files.
    let unpacked = std::env::temp_dir().join(format!("catamaran-beside-{}.pcap", std::process::id()));
    let path = if path.extension().is_some_and(|extension| extension == "xz") {
        let output = Command::new("xz").arg("-dc").arg(path).output().ok()?;
        std::fs::write(&unpacked, output.stdout).unwrap();
        &unpacked
    } else {
        path
    };
    let mut command = Command::new("tshark");
    command.args(["-n", "-o", "tcp.desegment_tcp_streams:TRUE", "-Y", "dns && !mdns && !llmnr"]);
    command.args(["-T", "pdml", "-J", PROTOCOLS, "-r"]).arg(path).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut all = Vec::new();
    let mut packet = Packet::default();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let line = line.trim_start();
        if line.starts_with("<packet>") {
            packet = Packet::default();
        } else if line.starts_with("</packet>") {
            all.extend(std::mem::take(&mut packet).finish());
        } else if let Some(name) = attribute(line, "name") {
            if line.starts_with("<proto ") {
                packet.begin(name);
            } else if line.starts_with("<field ") {
                packet.take(name, attribute(line, "show").unwrap_or_default(), attribute(line, "value"));
            }
        }
    }
    assert!(child.wait().unwrap().success(), "tshark cannot read {}", path.display());
    if path == unpacked {
        std::fs::remove_file(unpacked).unwrap();
    }
    Some(all)
}

/// The value of an attribute.
fn attribute<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let start = line.find(&format!(" {name}=\""))? + name.len() + 3;
    let len = line[start..].find('"')?;
    Some(&line[start..start + len])
}

/// A packet whose lines are being read.
#[derive(Default)]
struct Packet {
    at_ns: u64,
    /// Source and destination. There are more if an ICMP error quotes a message.
    addresses: Vec<IpAddr>,
    ports: Vec<u16>,
    is_tcp: bool,
    messages: Vec<MessageFields>,
}

impl Packet {
    fn begin(&mut self, protocol: &str) {
        match protocol {
            "dns" => self.messages.push(MessageFields::new(String::new())),
            "_ws.malformed" => {
                self.messages.iter_mut().last().into_iter().for_each(|message| message.is_malformed = true)
            }
            _ => {}
        }
    }

    fn take(&mut self, name: &str, show: &str, value: Option<&str>) {
        match name {
            "frame.time_epoch" => self.at_ns = nanoseconds(show),
            "ip.src" | "ip.dst" | "ipv6.src" | "ipv6.dst" => self.addresses.push(show.parse().unwrap()),
            "udp.srcport" | "udp.dstport" => self.ports.push(show.parse().unwrap()),
            "tcp.srcport" | "tcp.dstport" => {
                self.is_tcp = true;
                self.ports.push(show.parse().unwrap());
            }
            _ => {
                if let Some(message) = self.messages.last_mut() {
                    take(message, name, show, value);
                }
            }
        }
    }

    fn finish(self) -> Vec<MessageFields> {
        let Self { at_ns, addresses, ports, is_tcp, mut messages } = self;
        let (&[source, destination], &[from, to]) = (&addresses[..], &ports[..]) else { return Vec::new() };
        // tshark decrypts DoQ with the secrets in the file. We only count messages at other ports.
        if from != 53 && to != 53 {
            return Vec::new();
        }
        let transport = if is_tcp { "tcp" } else { "udp" };
        let (source, destination) = (SocketAddr::new(source, from), SocketAddr::new(destination, to));
        for message in &mut messages {
            message.key = format!("{transport} {source} {destination} {}", message.key);
            message.set("time", at_ns);
            let is_whole = !message.is_malformed;
            // A complete message lacks the fields that tshark does not print.
            for name in ["name", "type", "class", "EDNS", "size", "version", "DO"] {
                if is_whole {
                    message.set_first(name, NONE);
                }
            }
        }
        messages
    }
}

/// Stores a field of a message.
fn take(message: &mut MessageFields, name: &str, show: &str, value: Option<&str>) {
    let bit = || u8::from(matches!(show, "1" | "True"));
    match name {
        "dns.id" => message.key = number(show).to_string(),
        "dns.flags.response" => message.key = format!("{} {}", message.key, bit()),
        "dns.flags.opcode" => message.set("opcode", show),
        "dns.flags.authoritative" => message.set("AA", bit()),
        "dns.flags.truncated" => message.set("TC", bit()),
        "dns.flags.recdesired" => message.set("RD", bit()),
        "dns.flags.recavail" => message.set("RA", bit()),
        "dns.flags.authenticated" => message.set("AD", bit()),
        "dns.flags.checkdisable" => message.set("CD", bit()),
        "dns.flags.rcode" => message.set("RCODE", show),
        "dns.count.queries" | "dns.count.zones" => message.set_first("QD", show),
        "dns.count.answers" | "dns.count.prerequisites" => message.set_first("AN", show),
        "dns.count.auth_rr" | "dns.count.updates" => message.set_first("NS", show),
        "dns.count.add_rr" => message.set_first("AR", show),
        "dns.qry.name" => message.set_first("name", value.unwrap_or(NONE)),
        "dns.qry.type" => message.set_first("type", number(show)),
        "dns.qry.class" => message.set_first("class", number(show)),
        "dns.rr.udp_payload_size" => {
            message.set_first("EDNS", "there");
            message.set_first("size", number(show));
        }
        "dns.resp.edns0_version" => message.set_first("version", number(show)),
        "dns.resp.z.do" => message.set_first("DO", bit()),
        _ => {}
    }
}

/// A number, hexadecimal if it has that prefix.
fn number(text: &str) -> u32 {
    let number = text.strip_prefix("0x").map_or_else(|| text.parse(), |digits| u32::from_str_radix(digits, 16));
    number.unwrap_or_else(|_| panic!("{text} is no number"))
}

/// Converts seconds since 1970 with a fraction into nanoseconds.
fn nanoseconds(text: &str) -> u64 {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction: u64 = format!("{fraction:0<9}").parse().unwrap();
    seconds.parse::<u64>().unwrap() * 1_000_000_000 + fraction
}
