//! Compares an answer from a rebuilt zone with the recorded one.

use crate::recorded::{Exchange, Served};
use std::collections::{BTreeMap, BTreeSet};
use wire::name::Name;
use wire::number::{Class, Opcode, Rcode, Rtype};
use wire::parse::{Header, Message, Section};
use wire::rdata::rdata_lowercase;
use zone::answer::Transport;

/// The result of comparisons.
#[derive(Default)]
pub(crate) struct Tally {
    /// Equal in RCODE, AA, TC and all three sections as sets, including TTLs.
    pub(crate) same: u64,
    /// Different only in the additional section.
    pub(crate) but_additional: u64,
    /// Equal and truncated (TC).
    pub(crate) same_truncated: u64,
    /// Answers that cannot be compared, by reason.
    pub(crate) left_out: BTreeMap<String, u64>,
    /// Differences by class, with all examples.
    pub(crate) differs: BTreeMap<String, Vec<String>>,
}

impl Tally {
    pub(crate) fn differing(&self) -> u64 {
        self.differs.values().map(|examples| examples.len() as u64).sum()
    }

    /// The share of compared answers that are equal.
    pub(crate) fn share(&self) -> f64 {
        self.same as f64 / (self.same + self.differing()) as f64
    }

    /// The share that is equal without the additional section.
    pub(crate) fn share_but_additional(&self) -> f64 {
        (self.same + self.but_additional) as f64 / (self.same + self.differing()) as f64
    }

    pub(crate) fn print(&self) {
        println!("{} same, {} of them truncated (TC)", self.same, self.same_truncated);
        println!("{} differ: {:.4} % are the same", self.differing(), 100.0 * self.share());
        println!("  {:.2} % but for the additional section", 100.0 * self.share_but_additional());
        self.left_out.iter().for_each(|(why, count)| println!("  not compared: {count} {why}"));
        for (class, examples) in &self.differs {
            println!("  {}: {class}", examples.len());
            examples.iter().take(5).for_each(|example| println!("{example}"));
        }
    }
}

/// The sections as sets with TTLs, without OPT, in lower case where case does not count.
type Sets = [BTreeSet<Rr>; 3];
/// Owner, type, TTL and rdata.
type Rr = (Name, u16, u32, Box<[u8]>);

fn sets_of(message: &Message<'_>) -> Sets {
    Section::ALL.map(|section| {
        let mut set = BTreeSet::new();
        for record in message.records(section).map(Result::unwrap) {
            if record.rtype.is_meta() {
                continue;
            }
            let mut rdata = Vec::new();
            if record.rdata_canonical(&mut rdata).is_err() {
                rdata.extend_from_slice(record.rdata());
            }
            rdata_lowercase(record.rtype, &mut rdata);
            set.insert((record.owner.to_name(), record.rtype.0, record.ttl, rdata.into()));
        }
        set
    })
}

/// Asks the rebuilt zone and counts the result.
pub(crate) fn compare(served: &Served, exchange: &Exchange, tally: &mut Tally) {
    let Exchange { server, is_udp, query, response, is_asked_again } = exchange;
    if let Some(why) = why_not(query, response, *is_asked_again) {
        *tally.left_out.entry(why).or_default() += 1;
        return;
    }
    let recorded = Message::parse(response).unwrap();
    let question = recorded.question().unwrap();
    let transport = if *is_udp { Transport::Udp } else { Transport::Tcp };
    let class = match served.ask(*server, transport, query) {
        None => Some(format!("no zone for the server {server}")),
        Some(bytes) if bytes.is_empty() => Some("no answer".to_owned()),
        Some(bytes) => difference(&recorded, &Message::parse(&bytes).unwrap()),
    };
    match class {
        None => {
            tally.same += 1;
            tally.same_truncated += u64::from(recorded.header().tc);
        }
        Some(class) => {
            tally.but_additional += u64::from(class.starts_with("Additional"));
            let question_line = format!("    {} {:?}, {} bytes", question.qname, question.qtype, response.len());
            tally.differs.entry(class).or_default().push(question_line);
        }
    }
}

/// The difference between our answer and the recorded one, if there is one.
fn difference(recorded: &Message<'_>, ours: &Message<'_>) -> Option<String> {
    let (theirs_rcode, ours_rcode) = (recorded.rcode(), ours.rcode());
    if theirs_rcode != ours_rcode {
        return Some(format!("RCODE {theirs_rcode:?} became {ours_rcode:?}"));
    }
    let flags = [("AA", recorded.header().aa, ours.header().aa), ("TC", recorded.header().tc, ours.header().tc)];
    for (flag, theirs, ours) in flags {
        if theirs != ours {
            return Some(format!("{flag} {theirs} became {ours}"));
        }
    }
    let (theirs, ours) = (sets_of(recorded), sets_of(ours));
    let differing = Section::ALL.into_iter().find(|section| {
        let at = *section as usize - 1;
        theirs[at] != ours[at]
    })?;
    let (theirs, ours) = (&theirs[differing as usize - 1], &ours[differing as usize - 1]);
    let types = |one: &BTreeSet<Rr>, other: &BTreeSet<Rr>| {
        let types: BTreeSet<String> = one.difference(other).map(|record| format!("{:?}", Rtype(record.1))).collect();
        types.into_iter().collect::<Vec<_>>().join(" ")
    };
    Some(format!("{differing:?}: less {}; more {}", types(theirs, ours), types(ours, theirs)))
}

/// Why an answer cannot be compared.
fn why_not(query: &[u8], response: &[u8], is_asked_again: bool) -> Option<String> {
    let header = Header::parse(query)?;
    if header.opcode != Opcode::QUERY {
        return Some(format!("of opcode {:?}", header.opcode));
    }
    let Ok(recorded) = Message::parse(response) else { return Some("responses that are malformed".into()) };
    if recorded.header().ra && !recorded.header().aa {
        return Some("from caches (RA, no AA)".into());
    }
    if is_asked_again && recorded.header().tc {
        return Some("truncated, and how large they might be was not recorded".into());
    }
    let rcode = recorded.rcode();
    if !matches!(rcode, Rcode::NOERROR | Rcode::NXDOMAIN) {
        return Some(format!("answered with {rcode:?}: what a server refuses is no matter of its zones"));
    }
    match recorded.question() {
        None => Some("responses without a question".into()),
        Some(question) if question.qclass != Class::IN => Some(format!("of class {:?}", question.qclass)),
        Some(_) => None,
    }
}
