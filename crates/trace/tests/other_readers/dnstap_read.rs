//! Reads dnstap with BIND's `dnstap-read -y`, which prints YAML: one field per line, `---` between messages.

use crate::fields::{MessageFields, NONE};
use crate::ours::hex;
use std::path::Path;
use std::process::Command;
use wire::Name;
use zone::text::scan_rtype;

/// Its names of RCODEs.
const STATUS: [&str; 11] = [
    "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH",
    "NOTZONE",
];
/// Its names of opcodes.
const OPCODES: [&str; 6] = ["QUERY", "IQUERY", "STATUS", "RESERVED3", "NOTIFY", "UPDATE"];

/// Every message of a file in order. `None` if the program is not installed.
pub(crate) fn read(path: &Path) -> Option<Vec<MessageFields>> {
    let output = Command::new("dnstap-read").arg("-y").arg(path).output().ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&output.stderr));
    Some(text.split("---\n").filter(|part| part.contains("type: MESSAGE")).map(fields_of).collect())
}

/// The value after the first `NAME:` at the start of a line.
fn find<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let value = |line: &'t str| line.trim_start().strip_prefix(name)?.strip_prefix(':').map(str::trim);
    text.lines().find_map(value)
}

fn fields_of(text: &str) -> MessageFields {
    let is_response = find(text.split_once("message:").unwrap().1, "type").unwrap().ends_with("_RESPONSE");
    let (outside, data) = text.split_at(text.find("_message_data:").unwrap_or(text.len()));
    let socket = |side: &str| {
        let address = find(outside, &format!("{side}_address")).unwrap_or_default().trim_matches('"');
        let port = find(outside, &format!("{side}_port")).unwrap_or("0");
        match address {
            "" => format!("0.0.0.0:{port}"),
            address if address.contains(':') => format!("[{address}]:{port}"),
            address => format!("{address}:{port}"),
        }
    };
    let (querier, responder) = (socket("query"), socket("response"));
    let (source, destination) = if is_response { (responder, querier) } else { (querier, responder) };
    let flags = find(data, "flags").unwrap_or_default();
    let has = |flag: &str| u8::from(flags.split_whitespace().any(|word| word == flag));
    let transport = find(outside, "socket_protocol").unwrap_or_default().to_lowercase();
    let connection = format!("{transport} {source} {destination}");
    let Some(id) = find(data, "id") else {
        // A message that it does not parse.
        return MessageFields { is_malformed: true, ..MessageFields::new(connection) };
    };
    let mut entry = MessageFields::new(format!("{connection} {id} {}", has("qr")));
    let time = find(outside, if is_response { "response_time" } else { "query_time" }).unwrap();
    entry.set("time", seconds(time.trim_start_matches("!!timestamp ")));
    let known = |all: &[&str], name: &str| all.iter().position(|known| Some(*known) == find(data, name));
    entry.fields[crate::fields::field("opcode")] = known(&OPCODES, "opcode").map(|code| code.to_string());
    entry.fields[crate::fields::field("RCODE")] = known(&STATUS, "status").map(|code| code.to_string());
    for name in ["AA", "TC", "RD", "RA", "AD", "CD"] {
        entry.set(name, has(&name.to_lowercase()));
    }
    for (ours, theirs) in [("QD", "QUESTION"), ("AN", "ANSWER"), ("NS", "AUTHORITY"), ("AR", "ADDITIONAL")] {
        entry.fields[crate::fields::field(ours)] = find(data, theirs).map(str::to_owned);
    }
    question(&mut entry, data);
    edns(&mut entry, data);
    entry
}

/// Converts a time such as `2017-02-03T23:47:16Z` to seconds since 1970. It has no fractions.
fn seconds(text: &str) -> u64 {
    let numbers: Vec<u64> =
        text.trim_end_matches('Z').split(['-', 'T', ':']).map(|part| part.parse().unwrap()).collect();
    let &[year, month, day, hour, minute, second] = &numbers[..] else { panic!("{text}") };
    // Days of the civil calendar, with years that start in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days = year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468;
    ((days * 24 + hour) * 60 + minute) * 60 + second
}

/// Parses `- 'www.example. IN A'` below `QUESTION_SECTION:`.
fn question(entry: &mut MessageFields, data: &str) {
    let line = data.split("QUESTION_SECTION:\n").nth(1).and_then(|rest| rest.lines().next());
    let line = line.unwrap_or_default().trim_start_matches([' ', '-']).trim_matches(['\'', '"']);
    let words: Vec<_> = line.split_whitespace().collect();
    let &[name, class, rtype] = &words[..] else {
        return ["name", "type", "class"].into_iter().for_each(|name| entry.set(name, NONE));
    };
    entry.set("name", hex(name.parse::<Name>().unwrap().as_bytes()));
    entry.set("type", scan_rtype(rtype.as_bytes()).unwrap().0);
    let class = ["IN", "CH", "HS"].iter().position(|known| *known == class).map(|at| [1, 3, 4][at]);
    entry.set("class", class.unwrap());
}

fn edns(entry: &mut MessageFields, data: &str) {
    let Some(rest) = data.split("EDNS:\n").nth(1) else {
        return ["EDNS", "size", "version", "DO"].into_iter().for_each(|name| entry.set(name, NONE));
    };
    entry.set("EDNS", "there");
    entry.set("size", find(rest, "udp").unwrap());
    entry.set("version", find(rest, "version").unwrap());
    entry.set("DO", u8::from(find(rest, "flags").unwrap().split_whitespace().any(|word| word == "do")));
}
