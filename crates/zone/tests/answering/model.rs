//! Answers against a plain model: RFC 1034 4.3.2 written as it stands there, over a map of names.

use crate::common::{name, set_of};
use crate::signing::{PARAMS, Scheme, ancestors, sign};
use crate::validate;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use wire::builder::MessageBuilder;
use wire::name::{Name, NameRef};
use wire::number::{Rcode, Rtype, Serial};
use wire::parse::{Message, Parsed, Section, parse_request};
use zone::answer::{AnswerContext, Chaos, Servable, Transport, answer};
use zone::nsec3::Nsec3Params;
use zone::record::Record;
use zone::set::ZoneSet;

const APEX: &str = "z.test.";
/// Aliases that are followed at most; not taken from the code that is tested.
const CHAIN_MAX: usize = 16;

/// Owner, type and rdata in lower case.
pub(crate) type Shown = (Name, Rtype, Vec<u8>);

/// The zone as a map.
pub(crate) struct Model {
    pub(crate) apex: Name,
    pub(crate) names: BTreeMap<Name, BTreeMap<Rtype, Vec<Vec<u8>>>>,
}

/// What the model says about one name.
enum Step {
    Data { owner: Name, rtype: Rtype },
    NoData { wildcard: Option<Name> },
    NxDomain,
    Referral { cut: Name },
    Alias { owner: Name },
    Redirect { owner: Name },
}

/// What the model expects.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    pub(crate) rcode: u16,
    pub(crate) aa: bool,
    pub(crate) answer: BTreeSet<Shown>,
    pub(crate) authority: BTreeSet<Shown>,
    /// Names that wildcards stand for, with the wildcards.
    pub(crate) expanded: Vec<(Name, Name)>,
    pub(crate) end: End,
    /// The name at which the chain ended.
    pub(crate) last: Option<Name>,
    /// Owners of synthesised CNAMEs, which nobody signs.
    pub(crate) synthesised: BTreeSet<Name>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum End {
    #[default]
    Data,
    NoData {
        wildcard: Option<Name>,
    },
    NxDomain,
    Referral {
        cut: Name,
    },
}

impl Model {
    pub(crate) fn new(apex: &Name, records: &[Record]) -> Self {
        let mut names: BTreeMap<Name, BTreeMap<Rtype, Vec<Vec<u8>>>> = BTreeMap::new();
        for record in records {
            names.entry(record.owner.clone()).or_default().entry(record.rtype).or_default().push(record.rdata.to_vec());
        }
        Self { apex: apex.clone(), names }
    }

    pub(crate) fn has(&self, owner: &Name, rtype: Rtype) -> bool {
        self.names.get(owner).is_some_and(|types| types.contains_key(&rtype))
    }

    pub(crate) fn exists(&self, name: &Name) -> bool {
        // In canonical order what is below a name follows it.
        self.names.range(name..).next().is_some_and(|(owner, _)| owner.as_ref().is_at_or_below(name.as_ref()))
    }

    /// RFC 1034 4.3.2, step 3.
    fn step(&self, qname: &Name, qtype: Rtype) -> Step {
        let mut down = ancestors(&self.apex, qname);
        down.reverse();
        for node in &down {
            let is_last = node == qname;
            if *node != self.apex && self.has(node, Rtype::NS) && !(is_last && qtype == Rtype::DS) {
                return Step::Referral { cut: node.clone() };
            }
            if !is_last && self.has(node, Rtype::DNAME) {
                return Step::Redirect { owner: node.clone() };
            }
        }
        if self.exists(qname) {
            return self.at(qname, qtype, None);
        }
        let encloser = down.iter().rev().find(|node| self.exists(node)).unwrap();
        let wildcard = under(b"\x01*", encloser);
        // RFC 4592 4.7: an empty non-terminal too may be a source of synthesis.
        if self.exists(&wildcard) { self.at(&wildcard, qtype, Some(wildcard.clone())) } else { Step::NxDomain }
    }

    fn at(&self, owner: &Name, qtype: Rtype, wildcard: Option<Name>) -> Step {
        if self.has(owner, qtype) {
            Step::Data { owner: owner.clone(), rtype: qtype }
        } else if self.has(owner, Rtype::CNAME) {
            Step::Alias { owner: owner.clone() }
        } else {
            Step::NoData { wildcard }
        }
    }

    fn shown(&self, owner: &Name, rtype: Rtype, as_owner: &Name) -> Vec<Shown> {
        self.names[owner][&rtype].iter().map(|rdata| (as_owner.clone(), rtype, lower(rtype, rdata))).collect()
    }

    fn expect(&self, qname: &Name, qtype: Rtype) -> Expected {
        let mut expected = Expected { aa: true, ..Expected::default() };
        let mut visited = vec![qname.clone()];
        for count in 0.. {
            let last = visited[visited.len() - 1].clone();
            expected.last = Some(last.clone());
            let step = self.step(&last, qtype);
            let (owner, rtype) = match &step {
                Step::Data { owner, rtype } => (owner, *rtype),
                Step::Alias { owner } => (owner, Rtype::CNAME),
                Step::Redirect { owner } => (owner, Rtype::DNAME),
                Step::NoData { wildcard } => {
                    expected.end = End::NoData { wildcard: wildcard.clone() };
                    expected.authority.extend(self.shown(&self.apex, Rtype::SOA, &self.apex));
                    return expected;
                }
                Step::NxDomain => {
                    expected.rcode = Rcode::NXDOMAIN.0;
                    expected.end = End::NxDomain;
                    expected.authority.extend(self.shown(&self.apex, Rtype::SOA, &self.apex));
                    return expected;
                }
                Step::Referral { cut } => {
                    expected.aa = count > 0;
                    expected.end = End::Referral { cut: cut.clone() };
                    expected.authority.extend(self.shown(cut, Rtype::NS, cut));
                    return expected;
                }
            };
            if count == CHAIN_MAX && !matches!(step, Step::Data { .. }) {
                return expected;
            }
            let is_redirect = matches!(step, Step::Redirect { .. });
            let as_owner = if is_redirect { owner } else { &last };
            expected.answer.extend(self.shown(owner, rtype, as_owner));
            if !is_redirect && *owner != last {
                expected.expanded.push((last.clone(), owner.clone()));
            }
            if matches!(step, Step::Data { .. }) {
                return expected;
            }
            let target = NameRef::from_bytes(&self.names[owner][&rtype][0]).unwrap().to_name();
            let next = if is_redirect {
                let kept = last.as_bytes().len() - owner.as_bytes().len();
                let bytes = [&last.as_bytes()[..kept], target.as_bytes()].concat();
                let Ok(next) = NameRef::from_bytes(&bytes).map(NameRef::to_name) else {
                    expected.rcode = Rcode::YXDOMAIN.0;
                    return expected;
                };
                expected.answer.insert((last.clone(), Rtype::CNAME, lower(Rtype::CNAME, next.as_bytes())));
                expected.synthesised.insert(last.clone());
                next
            } else {
                target
            };
            if is_redirect && qtype == Rtype::CNAME
                || visited.contains(&next)
                || !next.as_ref().is_at_or_below(self.apex.as_ref())
            {
                return expected;
            }
            visited.push(next);
        }
        expected
    }
}

/// A label, as on the wire, in front of a name.
pub(crate) fn under(label: &[u8], name: &Name) -> Name {
    NameRef::from_bytes(&[label, name.as_bytes()].concat()).unwrap().to_name()
}

fn lower(rtype: Rtype, rdata: &[u8]) -> Vec<u8> {
    let mut rdata = rdata.to_vec();
    wire::rdata::rdata_lowercase(rtype, &mut rdata);
    rdata
}

/// What a response has, by section.
pub(crate) struct Response {
    pub(crate) rcode: u16,
    pub(crate) aa: bool,
    pub(crate) tc: bool,
    /// Everything, with duplicates.
    pub(crate) sections: [Vec<Shown>; 3],
}

fn ask(set: &ZoneSet, qname: &Name, qtype: Rtype, edns: Option<bool>, transport: Transport) -> Response {
    let mut query = MessageBuilder::query(7, qname.as_ref(), qtype);
    if let Some(dnssec_ok) = edns {
        query = query.edns(1232, dnssec_ok);
    }
    let bytes = query.build();
    let Parsed::Request(request) = parse_request(&bytes) else { panic!("no request") };
    let context = AnswerContext {
        transport,
        udp_bytes_max: 1232,
        payload: 1232,
        nsid: None,
        cookie: None,
        keepalive: None,
        padding_block: 0,
        chaos: Chaos::default(),
        zone_state: &|_| Servable::Ready,
        tsig_reserve: 0,
    };
    let mut out = vec![0; 65_535];
    let answered = answer(set.published(), &request, &context, &mut out);
    let most = if transport == Transport::Tcp { 65_535 } else { edns.map_or(512, |_| 1232) };
    assert!(answered.len <= most);
    let message = Message::parse(&out[..answered.len]).expect("a response that parses");
    let sections = Section::ALL.map(|section| {
        let records = message.records(section).map(Result::unwrap).filter(|record| record.rtype != Rtype::OPT);
        let shown = |record: wire::parse::RecordView<'_>| {
            let mut rdata = Vec::new();
            record.rdata_canonical(&mut rdata).unwrap();
            (record.owner.to_name(), record.rtype, lower(record.rtype, &rdata))
        };
        records.map(shown).collect()
    });
    Response { rcode: answered.rcode.0, aa: message.header().aa, tc: answered.truncated, sections }
}

const DENIAL: [Rtype; 3] = [Rtype::NSEC, Rtype::NSEC3, Rtype::RRSIG];

/// The records of a section without those of denial, none of them twice.
fn plain(section: &[Shown]) -> BTreeSet<Shown> {
    let mut set = BTreeSet::new();
    for shown in section {
        assert!(set.insert(shown.clone()), "twice: {shown:?}");
    }
    set.into_iter().filter(|(_, rtype, _)| !DENIAL.contains(rtype)).collect()
}

/// Names of few labels, so that all sorts of relations among them are frequent.
fn any_name() -> impl Strategy<Value = Name> {
    let label = prop::sample::select(vec!["a", "b", "*", "c", "B"]);
    prop::collection::vec(label, 0..4).prop_map(|labels| {
        labels
            .iter()
            .rev()
            .fold(name(APEX), |above, label| under(&[&[label.len() as u8], label.as_bytes()].concat(), &above))
    })
}

fn any_target() -> impl Strategy<Value = Name> {
    prop_oneof![8 => any_name(), 1 => Just(name("out.example."))]
}

fn any_record() -> impl Strategy<Value = (Name, Rtype, Vec<u8>)> {
    let targeted = |rtype| any_target().prop_map(move |target| (rtype, target.as_bytes().to_vec()));
    let data = prop_oneof![
        4 => (0..3u8).prop_map(|last| (Rtype::A, vec![192, 0, 2, last])),
        2 => (0..2u8).prop_map(|last| (Rtype::TXT, vec![1, last])),
        2 => targeted(Rtype::CNAME),
        1 => targeted(Rtype::DNAME),
        2 => targeted(Rtype::NS),
        1 => Just((Rtype::DS, vec![0, 1, 13, 0xF0, 9, 9])),
    ];
    (any_name(), data).prop_map(|(owner, (rtype, rdata))| (owner, rtype, rdata))
}

/// Drops what no zone file may have, so that the model need not say what it means.
fn zone_of(drawn: Vec<(Name, Rtype, Vec<u8>)>) -> Vec<Record> {
    let apex = name(APEX);
    let mut records = vec![crate::common::soa(APEX, Serial(1))];
    records.push(crate::common::record(APEX, 600, Rtype::NS, b"\x02ns\x07example\x00"));
    for (owner, rtype, rdata) in drawn {
        let of_owner = |wanted: Rtype| records.iter().any(|record| record.owner == owner && record.rtype == wanted);
        let has_other = records.iter().any(|record| record.owner == owner);
        let is_single = matches!(rtype, Rtype::CNAME | Rtype::DNAME);
        let refused = of_owner(Rtype::CNAME)
            || rtype == Rtype::CNAME && has_other
            || is_single && of_owner(rtype)
            || rtype == Rtype::DNAME && (of_owner(Rtype::NS) || owner == apex)
            || rtype == Rtype::NS && (of_owner(Rtype::DNAME) || owner == apex)
            || rtype == Rtype::DS && (!of_owner(Rtype::NS) || owner == apex)
            || owner.as_ref().is_wildcard() && matches!(rtype, Rtype::NS | Rtype::DNAME | Rtype::DS)
            || records.iter().any(|record| record.owner == owner && record.rtype == rtype && *record.rdata == *rdata);
        if !refused {
            records.push(Record { owner, rtype, ttl: 600, rdata: rdata.into() });
        }
    }
    records
}

const QTYPES: [Rtype; 6] = [Rtype::A, Rtype::TXT, Rtype::NS, Rtype::DS, Rtype::CNAME, Rtype::DNAME];

proptest! {
    #[test]
    fn answers_equal_those_of_the_model(
        drawn in prop::collection::vec(any_record(), 0..25),
        queries in prop::collection::vec(
            (any_name(), prop::sample::select(QTYPES.to_vec())),
            30,
        ),
        scheme in prop::sample::select(vec![Scheme::Unsigned, Scheme::Nsec, Scheme::Nsec3, Scheme::Nsec3OptOut]),
    ) {
        let records = zone_of(drawn);
        let model = Model::new(&name(APEX), &records);
        let signed = sign(&model.apex, records, scheme);
        let set = set_of(APEX, &signed);
        for (qname, qtype) in queries {
            if let Err(fault) = compare(&set, &model, scheme, &qname, qtype) {
                prop_assert!(false, "{}: {:?}", fault, signed);
            }
        }
    }
}

/// While a zone changes its salt it has two chains, and NSEC3PARAM says which is complete (RFC 5155 4).
#[test]
fn a_second_nsec3_chain_is_ignored() {
    let owners = ["a", "b.a", "c", "*.c", "x.y.d", "B.b", "e", "f"].map(|owner| name(&format!("{owner}.{APEX}")));
    let drawn = owners.iter().map(|owner| (owner.clone(), Rtype::A, vec![192, 0, 2, 1])).collect();
    let records = zone_of(drawn);
    let model = Model::new(&name(APEX), &records);
    let mut signed = sign(&model.apex, records, Scheme::Nsec3);
    let other = Nsec3Params { salt: &[0x01, 0x02], ..PARAMS };
    let mut others = Vec::new();
    for record in signed.iter().filter(|record| record.rtype == Rtype::NSEC3) {
        let label = [&[32], other.label(record.owner.as_ref()).as_slice()].concat();
        let mut rdata = record.rdata.clone();
        rdata[5..7].copy_from_slice(other.salt);
        others.push(Record { owner: under(&label, &model.apex), rdata, ..record.clone() });
    }
    signed.append(&mut others);
    let set = set_of(APEX, &signed);
    for label in ["zz", "b", "c", "a", "y"] {
        for owner in &owners {
            let qname = under(&[&[label.len() as u8], label.as_bytes()].concat(), owner);
            compare(&set, &model, Scheme::Nsec3, &qname, Rtype::TXT).unwrap();
        }
    }
}

/// Asks in several ways and compares each answer with what the model says.
pub(crate) fn compare(set: &ZoneSet, model: &Model, scheme: Scheme, qname: &Name, qtype: Rtype) -> Result<(), String> {
    let expected = model.expect(qname, qtype);
    let response = ask(set, qname, qtype, Some(false), Transport::Tcp);
    let same = |what: &str, holds: bool| {
        let context = || format!("{qname} {qtype:?}, {what}: {expected:?} {:?}", response.sections);
        if holds { Ok(()) } else { Err(context()) }
    };
    same("RCODE", response.rcode == expected.rcode)?;
    same("AA", response.aa == expected.aa)?;
    same("answer", plain(&response.sections[0]) == expected.answer)?;
    same("authority", plain(&response.sections[1]) == expected.authority)?;
    same("DO", response.sections.iter().flatten().all(|(_, rtype, _)| !DENIAL.contains(rtype)))?;
    same("glue", glue_holds(model, &expected, &response))?;

    let small = ask(set, qname, qtype, None, Transport::Udp);
    same("UDP", (small.rcode, small.aa) == (response.rcode, response.aa))?;
    same("UDP sections", small.tc || small.sections[..2] == response.sections[..2])?;

    let mut secure = ask(set, qname, qtype, Some(true), Transport::Tcp);
    same("answer with DO", plain(&secure.sections[0]) == expected.answer)?;
    if let End::Referral { cut } = &expected.end
        && model.has(cut, Rtype::DS)
        // RFC 4035 3.1 is about signed zones.
        && scheme != Scheme::Unsigned
    {
        for shown in model.shown(cut, Rtype::DS, cut) {
            let at = secure.sections[1].iter().position(|other| *other == shown);
            secure.sections[1].remove(at.ok_or_else(|| format!("{qname}: no DS"))?);
        }
    }
    same("authority with DO", plain(&secure.sections[1]) == expected.authority)?;
    validate::check(model, scheme, &expected, qtype, &secure)
        .map_err(|fault| format!("{qname} {qtype:?}: {fault}: {:?}", secure.sections))
}

/// All glue that a client cannot do without is there, and nothing that is no address (RFC 9471).
fn glue_holds(model: &Model, expected: &Expected, response: &Response) -> bool {
    const ADDRESSES: [Rtype; 2] = [Rtype::A, Rtype::AAAA];
    let End::Referral { cut } = &expected.end else { return true };
    let targets = model.names[cut][&Rtype::NS].iter().map(|rdata| NameRef::from_bytes(rdata).unwrap().to_name());
    let mut needed = targets.filter(|target| target.as_ref().is_at_or_below(cut.as_ref()));
    let additional = &response.sections[2];
    additional.iter().all(|(_, rtype, _)| ADDRESSES.contains(rtype))
        && needed.all(|target| {
            let below_dname =
                ancestors(&model.apex, &target).iter().skip(1).any(|above| model.has(above, Rtype::DNAME));
            let has = |rtype: &Rtype| additional.iter().any(|(owner, found, _)| *owner == target && found == rtype);
            below_dname || ADDRESSES.iter().all(|rtype| !model.has(&target, *rtype) || has(rtype))
        })
}
