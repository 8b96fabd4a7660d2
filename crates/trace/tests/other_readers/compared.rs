//! Compares the messages that two readers find in a file, and writes the table of all files.

use crate::fields::{FIELDS, MessageFields, NONE, field};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Results for one field.
#[derive(Clone, Default)]
struct Counts {
    equal: u64,
    explained: u64,
    /// The other reader does not report it.
    untold: u64,
}

/// The result for one file.
pub(crate) struct Compared {
    file: String,
    messages: usize,
    fields: Vec<Counts>,
    /// Number of explained differences, by field and reason.
    reasons: BTreeMap<(&'static str, &'static str), u64>,
    unexplained: Vec<String>,
}

impl Compared {
    /// Matches the messages of both readers and compares their fields.
    pub(crate) fn new(path: &Path, ours: Vec<MessageFields>, theirs: Vec<MessageFields>) -> Self {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let (messages, fields) = (ours.len(), vec![Counts::default(); FIELDS.len()]);
        let mut compared = Self { file, messages, fields, reasons: BTreeMap::new(), unexplained: Vec::new() };
        let mut waiting: BTreeMap<String, Vec<MessageFields>> = BTreeMap::new();
        // Reversed, because the last one is taken first.
        theirs.into_iter().rev().for_each(|fields| waiting.entry(fields.key.clone()).or_default().push(fields));
        for entry in ours {
            let connection: Vec<_> = entry.key.split(' ').take(3).collect();
            let other = waiting.get_mut(&entry.key).and_then(Vec::pop);
            match other.or_else(|| waiting.get_mut(&connection.join(" ")).and_then(Vec::pop)) {
                Some(other) => compared.add(&entry, &other),
                None => compared
                    .unexplained
                    .push(format!("{}: {}: the other has no such message", compared.file, entry.key)),
            }
        }
        for entry in waiting.into_values().flatten() {
            compared.unexplained.push(format!("{}: {}: the other alone has it", compared.file, entry.key));
        }
        compared
    }

    /// Differences without a known reason.
    pub(crate) fn unexplained(&self) -> impl Iterator<Item = String> {
        self.unexplained.iter().cloned()
    }

    fn add(&mut self, ours: &MessageFields, theirs: &MessageFields) {
        if theirs.fields.iter().all(Option::is_none) {
            *self.reasons.entry(("all", "the other does not take the message apart")).or_default() += 1;
        }
        for (at, name) in FIELDS.into_iter().enumerate() {
            let (Some(our), Some(their)) = (&ours.fields[at], &theirs.fields[at]) else {
                self.fields[at].untold += 1;
                continue;
            };
            if our == their {
                self.fields[at].equal += 1;
            } else if let Some(why) = reason(name, ours, theirs) {
                self.fields[at].explained += 1;
                *self.reasons.entry((name, why)).or_default() += 1;
            } else {
                let line = format!("{}: {}: {name}: ours {our}, theirs {their}", self.file, ours.key);
                self.unexplained.push(line);
            }
        }
    }
}

/// Longest name (RFC 1035 2.3.4).
const NAME_BYTES_MAX: usize = 255;

/// The reason why a field may differ.
fn reason(name: &str, ours: &MessageFields, theirs: &MessageFields) -> Option<&'static str> {
    let at = field(name);
    // Two digits for each byte.
    let is_too_long = theirs.fields[field("name")].as_ref().is_some_and(|name| name.len() > 2 * NAME_BYTES_MAX);
    let is_question = ["name", "type", "class"].contains(&name);
    (is_question && is_too_long && ours.fields[at].as_deref() == Some(NONE))
        .then_some("the name has more than 255 bytes, and is none (RFC 1035 2.3.4)")
}

const HEAD: &str = "# What is read in real files, beside what others read in them

    CATAMARAN_REWRITE=1 cargo test --profile gate -p catamaran-trace --test other_readers every_field

writes this page; without the variable the test fails where the page says otherwise, and where anything differs that
is not explained below. Captures are compared with `tshark`, dnstap with BIND's `dnstap-read`; of what DNSViz wrote
the responses are put into packets, which `tshark` reads. Messages are found to be the same by transport, addresses,
ports, ID and QR: each has one of the other reader, and none is left over. Under each field stands in how many
messages both say the same; `a ≠ b` that besides b differ and are explained; `·` that the other reader does not tell
the field in that file. What it tells of some messages only (AA and RA of queries, what is behind the place at which
it calls a message malformed) counts where it does. QD, AN, NS and AR are the counts of the header, of an UPDATE those
of its sections; name, type and class are those of the first question, the name byte by byte; RCODE is that of the
header. `tshark` opens DoQ with secrets that a file has; what is not at port 53 is not compared. Of the other files
with real traffic, C-DNS is compared with the capture that it was made of, message by message
([captures.rs](../../crates/trace/tests/captures.rs)).

";

/// The Markdown page.
pub(crate) fn table(all: &[Compared]) -> String {
    let mut page = HEAD.to_owned();
    writeln!(page, "| file | messages | {} |", FIELDS.join(" | ")).unwrap();
    writeln!(page, "|---|{}", "---|".repeat(FIELDS.len() + 1)).unwrap();
    for compared in all {
        let cells: Vec<_> = compared.fields.iter().map(cell).collect();
        writeln!(page, "| {} | {} | {} |", compared.file, compared.messages, cells.join(" | ")).unwrap();
    }
    let sum = |at: usize| {
        let of = |count: fn(&Counts) -> u64| all.iter().map(|compared| count(&compared.fields[at])).sum();
        Counts { equal: of(|c| c.equal), explained: of(|c| c.explained), untold: of(|c| c.untold) }
    };
    let cells: Vec<_> = (0..FIELDS.len()).map(|at| cell(&sum(at))).collect();
    let messages: usize = all.iter().map(|compared| compared.messages).sum();
    writeln!(page, "| all | {messages} | {} |\n\nUnexplained: 0.", cells.join(" | ")).unwrap();
    let reasons: Vec<_> = all.iter().flat_map(|one| one.reasons.iter().map(move |found| (&one.file, found))).collect();
    if !reasons.is_empty() {
        page.push_str("\n| file | field | messages | why |\n|---|---|---|---|\n");
    }
    for (file, ((field, why), count)) in reasons {
        writeln!(page, "| {file} | {field} | {count} | {why} |").unwrap();
    }
    page
}

fn cell(counts: &Counts) -> String {
    match counts {
        Counts { equal: 0, explained: 0, untold } if *untold > 0 => "·".to_owned(),
        Counts { equal, explained: 0, .. } => equal.to_string(),
        Counts { equal, explained, .. } => format!("{equal} ≠ {explained}"),
    }
}
