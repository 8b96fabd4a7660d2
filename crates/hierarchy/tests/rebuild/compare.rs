//! An answer from a rebuilt zone beside the one that was recorded.

use crate::recorded::{Exchange, Served};
use std::collections::{BTreeMap, BTreeSet};
use wire::name::Name;
use wire::number::{Class, Opcode, Rcode, Rtype};
use wire::parse::{Header, Message, Parsed, Section, parse_request};
use wire::rdata::rdata_lowercase;
use zone::answer::{AnswerContext, Chaos, Servable, Transport, answer};
use zone::set::{SetVersion, Zone};

/// What comparing came to.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) same: u64,
    /// The same but for addresses that did not fit the datagram.
    pub(crate) same_as_fits: u64,
    /// The same but for name servers of the zone that were sent unasked; ours sends minimal responses.
    pub(crate) same_minimal: u64,
    /// Truncated then (TC); all that was in them is answered now.
    pub(crate) same_truncated: u64,
    /// What cannot be compared, by reason.
    pub(crate) left_out: BTreeMap<String, u64>,
    /// Differences by class, with the first examples.
    pub(crate) differs: BTreeMap<String, Vec<String>>,
}

impl Tally {
    pub(crate) fn differing(&self) -> u64 {
        self.differs.values().map(|examples| examples.len() as u64).sum()
    }

    /// The share of the comparable that is the same; truncated responses are not comparable.
    pub(crate) fn share(&self) -> f64 {
        let same = self.same + self.same_as_fits + self.same_minimal;
        same as f64 / (same + self.differing()) as f64
    }

    pub(crate) fn print(&self) {
        println!("{} same, {} but for glue that did not fit the datagram", self.same, self.same_as_fits);
        println!("{} but for name servers of the zone that were sent unasked", self.same_minimal);
        println!("{} differ: {:.4} % are the same", self.differing(), 100.0 * self.share());
        println!("  not compared: {} truncated (TC), all of which is answered now", self.same_truncated);
        self.left_out.iter().for_each(|(why, count)| println!("  not compared: {count} {why}"));
        for (class, examples) in &self.differs {
            println!("  {}: {class}", examples.len());
            examples.iter().take(5).for_each(|example| println!("{example}"));
        }
    }
}

/// RCODE, AA and the sections as sets, TTLs included; without OPT, and without case where it does not count.
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

/// What an answer is beside the recorded one.
#[derive(PartialEq)]
enum Beside {
    Same,
    /// All that was recorded is in it, and nothing else than addresses that did not fit then.
    SameAsFits,
    /// What was recorded has name servers of the zone, unasked, and their addresses; the zone has them.
    SameMinimal,
    Other(String),
}

/// Asks again, and counts what came of it.
pub(crate) fn compare(served: &Served, exchange: &Exchange, tally: &mut Tally) {
    let Exchange { server, is_udp, query, response } = exchange;
    if let Some(why) = why_not(query, response) {
        *tally.left_out.entry(why).or_default() += 1;
        return;
    }
    let Parsed::Request(request) = parse_request(query) else {
        *tally.left_out.entry("queries that our server refuses before it looks at a zone".into()).or_default() += 1;
        return;
    };
    let recorded = Message::parse(response).unwrap();
    let question = recorded.question().unwrap();
    let Some(set) = served.of(*server) else {
        tally.differs.entry("no zone for this server".into()).or_default().push(server.to_string());
        return;
    };
    let ask = |transport| {
        let mut out = vec![0; 65_535];
        let answered = answer(set.published(), &request, &context(transport), &mut out);
        out.truncate(answered.len);
        out
    };
    let is_any = question.qtype == Rtype::ANY && recorded.header().counts[1] > 0;
    let beside = if is_any {
        any_beside(set.published(), &recorded)
    } else {
        let first = ask(if *is_udp { Transport::Udp } else { Transport::Tcp });
        match beside(&recorded, &Message::parse(&first).unwrap(), false) {
            Beside::Other(class) => match beside(&recorded, &Message::parse(&ask(Transport::Tcp)).unwrap(), true) {
                Beside::Other(_) => {
                    minimal_beside(set.published(), &recorded, &Message::parse(&ask(Transport::Tcp)).unwrap())
                        .unwrap_or(Beside::Other(class))
                }
                same => same,
            },
            same => same,
        }
    };
    match beside {
        Beside::Same | Beside::SameAsFits | Beside::SameMinimal if recorded.header().tc => tally.same_truncated += 1,
        Beside::Same => tally.same += 1,
        Beside::SameMinimal => tally.same_minimal += 1,
        Beside::SameAsFits => tally.same_as_fits += 1,
        Beside::Other(class) => {
            let asked = format!("    {} {:?}, {} octets", question.qname, question.qtype, response.len());
            tally.differs.entry(class).or_default().push(asked);
        }
    }
}

fn context(transport: Transport) -> AnswerContext<'static> {
    AnswerContext {
        transport,
        udp_octets_max: 4_096,
        payload: 4_096,
        nsid: None,
        cookie: None,
        keepalive: None,
        padding_block: 0,
        chaos: Chaos::default(),
        zone_state: &|_| Servable::Ready,
        tsig_reserve: 0,
    }
}

/// RCODE, AA, and the sections. What does not fit a datagram is the choice of each server, addresses in the additional
/// section above all: beside a whole answer (`is_whole`) a recorded one may have less of them, or less of everything
/// when it says so (TC).
fn beside(recorded: &Message<'_>, ours: &Message<'_>, is_whole: bool) -> Beside {
    let (theirs_rcode, ours_rcode) = (recorded.rcode(), ours.rcode());
    if theirs_rcode != ours_rcode {
        return Beside::Other(format!("RCODE {theirs_rcode:?} became {ours_rcode:?}"));
    }
    if recorded.header().aa != ours.header().aa {
        return Beside::Other(format!("AA {} became {}", recorded.header().aa, ours.header().aa));
    }
    if ours.header().tc {
        return Beside::Other("truncated now".into());
    }
    let (theirs, ours) = (sets_of(recorded), sets_of(ours));
    if theirs == ours {
        return if is_whole { Beside::SameAsFits } else { Beside::Same };
    }
    for section in Section::ALL {
        let (theirs, ours) = (&theirs[section as usize - 1], &ours[section as usize - 1]);
        let may_lack = is_whole && (section == Section::Additional || recorded.header().tc);
        if theirs != ours && !(may_lack && theirs.is_subset(ours)) {
            return Beside::Other(format!("{section:?}: {} less, {} more", less(theirs, ours), less(ours, theirs)));
        }
    }
    Beside::SameAsFits
}

fn less<T: Ord>(theirs: &BTreeSet<T>, ours: &BTreeSet<T>) -> usize {
    theirs.difference(ours).count()
}

/// Whether all that a recorded answer has beside ours is NS of its zone, signed or not, and addresses, as the zones of
/// this server have them.
fn minimal_beside(set: SetVersion<'_>, recorded: &Message<'_>, ours: &Message<'_>) -> Option<Beside> {
    let is_alike = recorded.rcode() == ours.rcode() && recorded.header().aa == ours.header().aa;
    let ([answer, authority, additional], [our_answer, our_authority, our_additional]) =
        (sets_of(recorded), sets_of(ours));
    let question = recorded.question()?;
    let zone = set.find_for(question.qname.as_ref(), question.qtype)?;
    let is_ns = |record: &Rr| {
        let is_type = [Rtype::NS.0, Rtype::RRSIG.0].contains(&record.1);
        is_type && record.0.as_ref() == zone.apex() && has(&zone, record)
    };
    let are_ns = authority.difference(&our_authority).all(is_ns) && our_authority.is_subset(&authority);
    let is_known = |record: &Rr| set.zones().any(|zone| has(&zone, record));
    let are_its = are_ns && additional.difference(&our_additional).all(is_known);
    (is_alike && answer == our_answer && are_its).then_some(Beside::SameMinimal)
}

/// Whether a zone has a record.
fn has(zone: &Zone<'_>, (owner, rtype, ttl, rdata): &Rr) -> bool {
    zone.records_at(owner.as_ref()).any(|record| {
        let mut known = record.rdata.to_vec();
        rdata_lowercase(record.rtype, &mut known);
        record.rtype.0 == *rtype && record.ttl == *ttl && *known == **rdata
    })
}

/// What was answered to ANY is what the zone has there: our server gives one RRset of it (RFC 8482).
fn any_beside(set: SetVersion<'_>, recorded: &Message<'_>) -> Beside {
    let [answer, ..] = sets_of(recorded);
    let there = |record: &Rr| set.find(record.0.as_ref()).is_some_and(|zone| has(&zone, record));
    if answer.iter().all(there) { Beside::Same } else { Beside::Other("ANY: a record is missing".into()) }
}

/// Why there is nothing to compare.
fn why_not(query: &[u8], response: &[u8]) -> Option<String> {
    let header = Header::parse(query)?;
    if header.opcode != Opcode::QUERY {
        return Some(format!("of opcode {:?}", header.opcode));
    }
    let Ok(recorded) = Message::parse(response) else { return Some("responses that are malformed".into()) };
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
