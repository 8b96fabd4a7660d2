//! What BIND's `dnstap-read` reads, of which `-y` prints YAML: a field on each line, `---` between messages.

use crate::fields::{MessageFields, NONE};
use crate::ours::hex;
use std::path::Path;
use std::process::Command;
use wire::Name;
use zone::text::scan_rtype;

/// RCODEs as it names them.
const STATUS: [&str; 11] = [
    "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH",
    "NOTZONE",
];
/// Opcodes as it names them.
const OPCODES: [&str; 6] = ["QUERY", "IQUERY", "STATUS", "RESERVED3", "NOTIFY", "UPDATE"];

/// Every message of a file, in its order; `None` when the program is not installed.
pub(crate) fn read(path: &Path) -> Option<Vec<MessageFields>> {
    let output = Command::new("dnstap-read").arg("-y").arg(path).output().ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&output.stderr));
    Some(text.split("---\n").filter(|part| part.contains("type: MESSAGE")).map(fields_of).collect())
}

/// The value behind the first `NAME:` that stands alone in front of it.
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
    let place = format!("{transport} {source} {destination}");
    let Some(id) = find(data, "id") else {
        // A message that it takes apart no further.
        return MessageFields { is_malformed: true, ..MessageFields::new(place) };
    };
    let mut told = MessageFields::new(format!("{place} {id} {}", has("qr")));
    let time = find(outside, if is_response { "response_time" } else { "query_time" }).unwrap();
    told.set("time", seconds(time.trim_start_matches("!!timestamp ")));
    let known = |all: &[&str], name: &str| all.iter().position(|known| Some(*known) == find(data, name));
    told.fields[crate::fields::field("opcode")] = known(&OPCODES, "opcode").map(|code| code.to_string());
    told.fields[crate::fields::field("RCODE")] = known(&STATUS, "status").map(|code| code.to_string());
    for name in ["AA", "TC", "RD", "RA", "AD", "CD"] {
        told.set(name, has(&name.to_lowercase()));
    }
    for (ours, theirs) in [("QD", "QUESTION"), ("AN", "ANSWER"), ("NS", "AUTHORITY"), ("AR", "ADDITIONAL")] {
        told.fields[crate::fields::field(ours)] = find(data, theirs).map(str::to_owned);
    }
    question(&mut told, data);
    edns(&mut told, data);
    told
}

/// Seconds since 1970 of a time such as `2017-02-03T23:47:16Z`: it tells no parts of them.
fn seconds(text: &str) -> u64 {
    let numbers: Vec<u64> =
        text.trim_end_matches('Z').split(['-', 'T', ':']).map(|part| part.parse().unwrap()).collect();
    let &[year, month, day, hour, minute, second] = &numbers[..] else { panic!("{text}") };
    // Days of the civil calendar, years beginning in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days = year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468;
    ((days * 24 + hour) * 60 + minute) * 60 + second
}

/// `- 'www.example. IN A'`, below `QUESTION_SECTION:`.
fn question(told: &mut MessageFields, data: &str) {
    let line = data.split("QUESTION_SECTION:\n").nth(1).and_then(|rest| rest.lines().next());
    let line = line.unwrap_or_default().trim_start_matches([' ', '-']).trim_matches(['\'', '"']);
    let words: Vec<_> = line.split_whitespace().collect();
    let &[name, class, rtype] = &words[..] else {
        return ["name", "type", "class"].into_iter().for_each(|name| told.set(name, NONE));
    };
    told.set("name", hex(name.parse::<Name>().unwrap().as_bytes()));
    told.set("type", scan_rtype(rtype.as_bytes()).unwrap().0);
    let class = ["IN", "CH", "HS"].iter().position(|known| *known == class).map(|at| [1, 3, 4][at]);
    told.set("class", class.unwrap());
}

fn edns(told: &mut MessageFields, data: &str) {
    let Some(rest) = data.split("EDNS:\n").nth(1) else {
        return ["EDNS", "size", "version", "DO"].into_iter().for_each(|name| told.set(name, NONE));
    };
    told.set("EDNS", "there");
    told.set("size", find(rest, "udp").unwrap());
    told.set("version", find(rest, "version").unwrap());
    told.set("DO", u8::from(find(rest, "flags").unwrap().split_whitespace().any(|word| word == "do")));
}
