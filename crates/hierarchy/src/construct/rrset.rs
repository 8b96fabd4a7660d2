//! RRsets of a section of a response.

use std::collections::BTreeMap;
use wire::name::{Name, NameRef};
use wire::number::{Class, Rtype};
use wire::parse::{Message, Section};
use wire::rdata::{rdata_eq, rdata_lowercase, rdata_names};

/// The type of an RRset. Signatures also have the type that they cover.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Kind {
    pub(super) rtype: Rtype,
    /// For RRSIG; zero otherwise.
    pub(super) covered: Rtype,
}

impl Kind {
    pub(super) const fn of(rtype: Rtype) -> Self {
        Self { rtype, covered: Rtype(0) }
    }

    /// The signatures that cover a type.
    pub(super) const fn signatures(covered: Rtype) -> Self {
        Self { rtype: Rtype::RRSIG, covered }
    }
}

/// Records of one owner and type.
#[derive(Clone, Debug)]
pub(super) struct Rrset {
    /// In lower case, because servers copy the case of the question.
    pub(super) owner: Name,
    pub(super) kind: Kind,
    /// The lowest TTL of its records (RFC 2181 5.2).
    pub(super) ttl: u32,
    /// Names are decompressed. The order does not depend on case.
    pub(super) rdatas: Vec<Box<[u8]>>,
    /// The first name in the first rdata, in lower case: the target of a CNAME, DNAME or NS.
    pub(super) target: Option<Name>,
}

/// Bytes before the signer's name in RRSIG (RFC 4034 3.1).
const SIGNER_AT: usize = 18;

impl Rrset {
    /// The signer.
    pub(super) fn signer(&self) -> Option<NameRef<'_>> {
        let rdata = self.rdatas.first().filter(|_| self.kind.rtype == Rtype::RRSIG)?;
        NameRef::split_from(rdata.get(SIGNER_AT..)?).ok().map(|(signer, _)| signer)
    }

    /// The number of labels of the signed owner (RFC 4034 3.1.3).
    pub(super) fn signed_labels(&self) -> Option<usize> {
        let rdata = self.rdatas.first().filter(|_| self.kind.rtype == Rtype::RRSIG)?;
        rdata.get(3).map(|labels| usize::from(*labels))
    }

    /// Whether another RRset has the same records. TTLs do not count.
    pub(super) fn has_same_records(&self, rdatas: &[Box<[u8]>]) -> bool {
        has_same_records(self.kind.rtype, &self.rdatas, rdatas)
    }

    /// The targets of NS records, in lower case.
    pub(super) fn targets(&self) -> impl Iterator<Item = Name> {
        let rtype = self.kind.rtype;
        self.rdatas.iter().filter_map(move |rdata| target_of(rtype, rdata))
    }
}

/// Whether two RRsets of a type have the same records.
pub(super) fn has_same_records(rtype: Rtype, one: &[Box<[u8]>], other: &[Box<[u8]>]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| rdata_eq(rtype, a, b))
}

/// The first name in rdata, in lower case.
pub(super) fn target_of(rtype: Rtype, rdata: &[u8]) -> Option<Name> {
    rdata_names(rtype, rdata).next().map(NameRef::to_canonical)
}

/// Collects records into RRsets. Duplicates are removed.
#[derive(Default)]
pub(super) struct Grouping(BTreeMap<(Name, Kind), (u32, Rdatas)>);

/// The key is the rdata in lower case, for comparison and order. The value is the rdata as received.
type Rdatas = BTreeMap<Box<[u8]>, Box<[u8]>>;

impl Grouping {
    /// Adds a record. Its rdata must fit its type.
    pub(super) fn add(&mut self, owner: NameRef<'_>, rtype: Rtype, ttl: u32, rdata: &[u8]) {
        let covered = match rdata {
            [high, low, ..] if rtype == Rtype::RRSIG => Rtype(u16::from_be_bytes([*high, *low])),
            _ => Rtype(0),
        };
        // RFC 2181 8: with the first bit set a TTL counts as zero.
        let ttl = if ttl > i32::MAX as u32 { 0 } else { ttl };
        let key = (owner.to_canonical(), Kind { rtype, covered });
        let (least, rdatas) = self.0.entry(key).or_insert((ttl, Rdatas::new()));
        *least = ttl.min(*least);
        let mut lower: Box<[u8]> = rdata.into();
        rdata_lowercase(rtype, &mut lower);
        rdatas.entry(lower).or_insert_with(|| rdata.into());
    }

    /// The RRsets in order of their owners.
    pub(super) fn finish(self) -> Vec<Rrset> {
        let rrsets = self.0.into_iter().map(|((owner, kind), (ttl, rdatas))| {
            let rdatas: Vec<Box<[u8]>> = rdatas.into_values().collect();
            let target = rdatas.first().and_then(|rdata| target_of(kind.rtype, rdata));
            Rrset { owner, kind, ttl, rdatas, target }
        });
        rrsets.collect()
    }
}

/// The RRsets of a section, without OPT and TSIG.
pub(super) fn collect(message: &Message<'_>, section: Section, malformed_count: &mut u64) -> Vec<Rrset> {
    let (mut grouping, mut rdata) = (Grouping::default(), Vec::new());
    for record in message.records(section) {
        let Ok(record) = record else {
            *malformed_count += 1;
            break;
        };
        if record.rtype.is_meta() || record.class != Class::IN {
            continue;
        }
        rdata.clear();
        if record.rdata_canonical(&mut rdata).is_err() {
            *malformed_count += 1;
            continue;
        }
        grouping.add(record.owner.as_ref(), record.rtype, record.ttl, &rdata);
    }
    grouping.finish()
}
