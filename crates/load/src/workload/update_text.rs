//! Update files of dnsperf (`dnsperf -u`): blocks of a zone, its steps, and `send`.
//!
//! ```text
//! example.com
//! require www A
//! delete www A
//! add www 300 A 192.0.2.1
//! send
//! ```

use super::error::WorkloadError;
use super::messages::Messages;
use crate::limits::QUERY_BYTES_MAX;
use std::path::Path;
use trace::rtype;
use wire::Section;
use wire::builder::MessageBuilder;
use wire::name::Name;
use wire::number::{Class, Rtype};
use zone::text::scan_rdata_text;

/// An unfinished block.
struct Block {
    apex: Name,
    prerequisites: Vec<Entry>,
    steps: Vec<Entry>,
}

struct Entry {
    owner: Name,
    rtype: Rtype,
    class: Class,
    ttl: u32,
    rdata: Vec<u8>,
}

pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<Messages, WorkloadError> {
    let mut messages = Messages::default();
    let mut block = None;
    let mut last = 0;
    for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let line = String::from_utf8_lossy(line);
        let reject = |reason: String| WorkloadError::Line { file: path.to_owned(), line: index + 1, reason };
        let line = line.trim();
        if line.is_empty() || line.starts_with([';', '#']) {
            continue;
        }
        last = index + 1;
        if let Some(message) = read_line(line, &mut block).map_err(reject)? {
            messages.push(&message);
        }
    }
    match block {
        None => Ok(messages),
        Some(_) => Err(WorkloadError::Line {
            file: path.to_owned(),
            line: last,
            reason: "the file ends within an update; each ends with a line `send`".into(),
        }),
    }
}

/// Handles a line. Returns the message if the line is `send`.
fn read_line(line: &str, block: &mut Option<Block>) -> Result<Option<Vec<u8>>, String> {
    let Some(open) = block else {
        let apex = name(line, None)?;
        *block = Some(Block { apex, prerequisites: Vec::new(), steps: Vec::new() });
        return Ok(None);
    };
    let (verb, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let apex = open.apex.clone();
    match verb.to_ascii_lowercase().as_str() {
        "require" => open.prerequisites.push(prerequisite(rest, &apex, true)?),
        "prohibit" => open.prerequisites.push(prerequisite(rest, &apex, false)?),
        "add" => open.steps.push(addition(rest, &apex)?),
        "delete" => open.steps.push(deletion(rest, &apex)?),
        "send" => {
            let message = open.message()?;
            *block = None;
            return Ok(Some(message));
        }
        _ => return Err(format!("{verb} is not one of require, prohibit, add, delete and send")),
    }
    Ok(None)
}

impl Block {
    fn message(&self) -> Result<Vec<u8>, String> {
        let mut builder = MessageBuilder::update(0, self.apex.as_ref());
        for (section, entries) in [(Section::PREREQUISITE, &self.prerequisites), (Section::UPDATE, &self.steps)] {
            for Entry { owner, rtype, class, ttl, rdata } in entries {
                builder = builder.record(section, owner.as_ref(), *rtype, *class, *ttl, rdata);
            }
        }
        let bytes = builder.byte_count();
        // Leaves room for a signature.
        if bytes + 256 > QUERY_BYTES_MAX {
            return Err(format!("an update of {bytes} bytes is longer than {}", QUERY_BYTES_MAX - 256));
        }
        Ok(builder.build())
    }
}

/// `NAME [TYPE [RDATA]]` (RFC 2136 2.4).
fn prerequisite(text: &str, apex: &Name, exists: bool) -> Result<Entry, String> {
    let (owner, rtype, rdata) = parse_record(text, apex)?;
    let class = match (exists, &rdata) {
        (true, Some(_)) => Class::IN,
        (true, None) => Class::ANY,
        (false, None) => Class::NONE,
        (false, Some(_)) => return Err("prohibit takes a name and a type, no value (RFC 2136 2.4.3)".into()),
    };
    Ok(Entry { owner, rtype: rtype.unwrap_or(Rtype::ANY), class, ttl: 0, rdata: rdata.unwrap_or_default() })
}

/// `NAME TTL TYPE RDATA` (RFC 2136 2.5.1).
fn addition(text: &str, apex: &Name) -> Result<Entry, String> {
    let (owner, rest) = text.trim().split_once(char::is_whitespace).ok_or("add needs NAME TTL TYPE RDATA")?;
    let (ttl, rest) = rest.trim_start().split_once(char::is_whitespace).ok_or("add needs NAME TTL TYPE RDATA")?;
    let ttl = ttl.parse().map_err(|_| format!("{ttl} is not a TTL"))?;
    let (owner, rtype, rdata) = parse_record(&format!("{owner} {rest}"), apex)?;
    let (Some(rtype), Some(rdata)) = (rtype, rdata) else { return Err("add needs NAME TTL TYPE RDATA".into()) };
    Ok(Entry { owner, rtype, class: Class::IN, ttl, rdata })
}

/// `NAME [TYPE [RDATA]]` (RFC 2136 2.5.2 to 2.5.4).
fn deletion(text: &str, apex: &Name) -> Result<Entry, String> {
    let (owner, rtype, rdata) = parse_record(text, apex)?;
    let class = if rdata.is_some() { Class::NONE } else { Class::ANY };
    Ok(Entry { owner, rtype: rtype.unwrap_or(Rtype::ANY), class, ttl: 0, rdata: rdata.unwrap_or_default() })
}

type OptionalRecord = (Name, Option<Rtype>, Option<Vec<u8>>);

fn parse_record(text: &str, apex: &Name) -> Result<OptionalRecord, String> {
    let text = text.trim();
    let (owner, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let owner = name(owner, Some(apex))?;
    let rest = rest.trim_start();
    if rest.is_empty() {
        return Ok((owner, None, None));
    }
    let (mnemonic, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let rtype = rtype(mnemonic).ok_or_else(|| format!("{mnemonic} is not a type; write its mnemonic or TYPE123"))?;
    if rest.trim().is_empty() {
        return Ok((owner, Some(rtype), None));
    }
    let rdata = scan_rdata_text(rtype, rest.trim().as_bytes(), Some(apex.as_ref()));
    Ok((owner, Some(rtype), Some(rdata.map_err(|error| format!("{}: {error}", rest.trim()))?)))
}

/// Parses a name. A name without a final dot is relative to the zone.
fn name(text: &str, apex: Option<&Name>) -> Result<Name, String> {
    let absolute = match apex {
        Some(_) if text == "@" => return apex.cloned().ok_or_else(String::new),
        Some(apex) if !text.ends_with('.') => format!("{text}.{apex}"),
        _ => text.to_owned(),
    };
    absolute.parse().map_err(|error| format!("{text} is not a name: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Messages, WorkloadError> {
        read(Path::new("updates"), text.as_bytes())
    }

    #[test]
    fn every_form_becomes_its_record() {
        let text = "; two updates\nexample.com\nrequire www\nrequire www A\nrequire www A 192.0.2.1\nprohibit new\n\
                    prohibit new AAAA\nadd new 300 A 192.0.2.2\nadd t.example.com. 60 TXT \"a b\" c\ndelete www\n\
                    delete www A\ndelete www A 192.0.2.1\nsend\nexample.org.\nadd @ 5 A 192.0.2.9\nsend\n";
        let messages = read_text(text).unwrap();
        assert_eq!(messages.len(), 2);
        let first = messages.at(0);
        // ZOCOUNT, PRCOUNT, UPCOUNT, ADCOUNT (RFC 2136 2.2), and opcode 5.
        assert_eq!(first[4..12], [0, 1, 0, 5, 0, 5, 0, 0]);
        assert_eq!(first[2] >> 3 & 15, 5);
        assert!(matches!(wire::parse_request(first), wire::Parsed::Request(_)));
        let name: Name = "www.example.com.".parse().unwrap();
        let value = MessageBuilder::update(0, "example.com.".parse::<Name>().unwrap().as_ref())
            .name_in_use(name.as_ref())
            .rrset_exists(name.as_ref(), Rtype::A)
            .rrset_exists_value(name.as_ref(), Rtype::A, &[192, 0, 2, 1])
            .build();
        assert!(first[12..].starts_with(&value[12..]));
    }

    #[test]
    fn errors_name_the_problem() {
        let error = |text: &str| read_text(text).unwrap_err().to_string();
        assert_eq!(error("a.b\nadd x A\n"), "updates:2: add needs NAME TTL TYPE RDATA");
        assert_eq!(error("a.b\nchange x\n"), "updates:2: change is not one of require, prohibit, add, delete and send");
        assert!(error("a.b\n\nadd x 5 A 192.0.2.1\n\n").starts_with("updates:3: the file ends within an update"));
        assert!(error("a.b\nadd x 5 A 192.0.2\n").starts_with("updates:2: 192.0.2: "));
        assert!(error("a.b\nprohibit x A 192.0.2.1\n").starts_with("updates:2: prohibit takes"));
    }
}
