//! Updates generated from a seed. They concentrate on cases in which servers may differ.

use super::contents::Contents;
use super::message::{Update, WireRecord};
use crate::response::Rr;
use rand::Rng;
use rand::seq::{IndexedMutRandom, IndexedRandom, IteratorRandom};
use rand_chacha::ChaCha8Rng;
use wire::name::{Name, NameRef};
use wire::number::{Class, Rtype};
use zone::Record;
use zone::text::scan_rdata_text;

/// Owners relative to the apex. There are few, so that records collide. Some differ only in case; some are empty
/// non-terminals, below a zone cut, or below a DNAME.
const OWNERS: &[&str] = &[
    "", "a", "A", "b", "c", "c.b", "C.B", "*", "*.w", "d.e.f", "e.f", "ns1", "ns2", "alias", "cut", "ns.cut", "x.cut",
    "tree", "x.tree", "new1", "new2", "new3", "www",
];
/// Targets of CNAME, NS, MX and the like.
const TARGETS: &[&str] = &["a", "A", "b", "c.b", "ns1", "ns2", "ns.cut", "new1", "www"];
/// TTLs of added records.
const TTLS: &[u32] = &[300, 300, 300, 300, 300, 60, 0, 0x7FFF_FFFF];
/// Types of added records. Common ones are listed several times.
const TYPES: &[Rtype] = &[
    Rtype::A,
    Rtype::A,
    Rtype::A,
    Rtype::A,
    Rtype::AAAA,
    Rtype::AAAA,
    Rtype::TXT,
    Rtype::TXT,
    Rtype::CNAME,
    Rtype::CNAME,
    Rtype::NS,
    Rtype::MX,
    Rtype::SRV,
    Rtype::PTR,
    Rtype::DS,
    Rtype::CAA,
    Rtype::SOA,
    Rtype(65_400),
];
/// Rare types: servers differ, or a repair is costly.
const RARE_TYPES: &[Rtype] = &[
    Rtype::DNAME,
    Rtype::WKS,
    Rtype::KEY,
    Rtype::NSEC,
    Rtype::RRSIG,
    Rtype::HINFO,
    Rtype::HTTPS,
    Rtype::CDS,
    Rtype::ZONEMD,
];
/// Types that no record can have.
const META_TYPES: &[Rtype] = &[
    Rtype(0),
    Rtype::OPT,
    Rtype::TKEY,
    Rtype::TSIG,
    Rtype::IXFR,
    Rtype::AXFR,
    Rtype::MAILB,
    Rtype::MAILA,
    Rtype::ANY,
    Rtype(128),
];

/// The zone that generated updates change. For odd `index`, its serial is about to wrap around.
#[must_use]
pub fn zone(apex: &Name, index: usize) -> Contents {
    let serial: u32 = if index % 2 == 1 { u32::MAX - 5 } else { 1000 };
    let soa = format!("ns1 admin {serial} 3600 600 86400 300");
    let lines = [
        ("", Rtype::SOA, soa.as_str()),
        ("", Rtype::NS, "ns1"),
        ("", Rtype::NS, "ns2"),
        ("ns1", Rtype::A, "192.0.2.1"),
        ("ns2", Rtype::A, "192.0.2.2"),
        ("a", Rtype::A, "192.0.2.3"),
        ("a", Rtype::A, "192.0.2.4"),
        ("a", Rtype::TXT, "\"a\" \"b\""),
        ("b", Rtype::MX, "10 a"),
        ("c.b", Rtype::AAAA, "2001:db8::1"),
        ("alias", Rtype::CNAME, "a"),
        ("*.w", Rtype::TXT, "\"wild\""),
        ("d.e.f", Rtype::A, "192.0.2.5"),
        ("cut", Rtype::NS, "ns.cut"),
        ("ns.cut", Rtype::A, "192.0.2.6"),
        ("tree", Rtype::DNAME, "elsewhere.test."),
    ];
    Contents::of(lines.into_iter().filter_map(|(owner, rtype, text)| {
        let rdata = scan_rdata_text(rtype, text.as_bytes(), Some(apex.as_ref())).ok()?;
        Some(Record { owner: under(owner, apex), rtype, ttl: 300, rdata: rdata.into() })
    }))
}

fn under(owner: &str, apex: &Name) -> Name {
    let text = if owner.is_empty() { apex.to_string() } else { format!("{owner}.{apex}") };
    // The lists above hold names only.
    text.parse().unwrap_or_else(|_| apex.clone())
}

/// Draws an UPDATE for a zone with these contents.
pub fn update(apex: &Name, zone: &Contents, rng: &mut ChaCha8Rng) -> Update {
    let mut draw = Draw { apex, zone, rng };
    let mut update = Update::new(apex);
    for _ in 0..draw.count(&[0, 0, 0, 1, 1, 2, 3]) {
        draw.prerequisite(&mut update.prerequisites);
    }
    for _ in 0..draw.count(&[0, 1, 1, 1, 2, 2, 3, 4, 8]) {
        let step = draw.step();
        // BIND refuses these in updates and zone files, so it could not be repaired (RFC 4592 4.2, 4.4 leave them
        // undefined).
        let is_odd = step.owner.as_ref().is_wildcard() && matches!(step.rtype, Rtype::NS | Rtype::DNAME);
        if !(is_odd && step.class == Class::IN) {
            update.steps.push(step);
        }
    }
    if draw.rng.random_bool(0.03) {
        draw.corrupt_record(&mut update);
    }
    update
}

struct Draw<'a> {
    apex: &'a Name,
    zone: &'a Contents,
    rng: &'a mut ChaCha8Rng,
}

impl Draw<'_> {
    fn count(&mut self, choices: &[usize]) -> usize {
        choices.choose(self.rng).copied().unwrap_or_default()
    }

    fn owner(&mut self) -> Name {
        let owner = OWNERS.choose(self.rng).copied().unwrap_or_default();
        under(owner, self.apex)
    }

    /// An existing record, sometimes in another case.
    fn existing(&mut self) -> Option<Rr> {
        let mut rr = self.zone.records.iter().choose(self.rng)?.clone();
        if self.rng.random_bool(0.2) {
            rr.owner = rr.owner.to_ascii_uppercase();
            if matches!(rr.rtype, Rtype::NS | Rtype::CNAME | Rtype::PTR | Rtype::DNAME) {
                rr.rdata = rr.rdata.to_ascii_uppercase();
            }
        }
        Some(rr)
    }

    fn raw(owner: Name, rtype: Rtype, class: Class, ttl: u32, rdata: Vec<u8>) -> WireRecord {
        WireRecord { owner, rtype, class, ttl, rdata }
    }

    /// Draws a prerequisite. About half of them hold.
    fn prerequisite(&mut self, out: &mut Vec<WireRecord>) {
        let existing = if self.rng.random_bool(0.6) { self.existing() } else { None };
        let (owner, rtype, rdata) = match existing.and_then(|rr| Some((owner_of(&rr)?, rr))) {
            Some((owner, rr)) => (owner, rr.rtype, rr.rdata),
            None => {
                let rtype = self.rtype();
                (self.owner(), rtype, self.rdata(rtype))
            }
        };
        match self.rng.random_range(0..12) {
            0..3 => out.push(Self::raw(owner, rtype, Class::ANY, 0, Vec::new())),
            3..5 => out.push(Self::raw(owner, rtype, Class::NONE, 0, Vec::new())),
            5..7 => out.push(Self::raw(owner, Rtype::ANY, Class::ANY, 0, Vec::new())),
            7..9 => out.push(Self::raw(self.owner(), Rtype::ANY, Class::NONE, 0, Vec::new())),
            9..11 => {
                // The whole RRset, sometimes without one of its records.
                let lower = owner.as_bytes().to_ascii_lowercase();
                let rrset: Vec<_> = self.zone.rrset(&lower, rtype).map(|rr| rr.rdata.clone()).collect();
                let skipped = if self.rng.random_bool(0.2) { self.rng.random_range(0..3) } else { usize::MAX };
                for (_, rdata) in rrset.into_iter().enumerate().filter(|&(at, _)| at != skipped) {
                    out.push(Self::raw(owner.clone(), rtype, Class::IN, 0, rdata));
                }
            }
            _ => out.push(Self::raw(owner, rtype, Class::IN, 0, rdata)),
        }
    }

    fn step(&mut self) -> WireRecord {
        let existing = if self.rng.random_bool(0.5) { self.existing() } else { None };
        let found = existing.and_then(|rr| Some((owner_of(&rr)?, rr)));
        match (self.rng.random_range(0..20), found) {
            (0..8, _) => self.addition(),
            // Adds an existing record again, sometimes with another TTL, or another record beside it.
            (8..10, Some((owner, rr))) => {
                let ttl = if self.rng.random_bool(0.3) { self.ttl() } else { rr.ttl };
                Self::raw(owner, rr.rtype, Class::IN, ttl, rr.rdata)
            }
            // Replacing a DNAME crashes Knot, and a restart is slow.
            (10..12, Some((owner, rr))) if rr.rtype != Rtype::DNAME || self.rng.random_bool(0.01) => {
                let rdata = self.rdata(rr.rtype);
                Self::raw(owner, rr.rtype, Class::IN, rr.ttl, rdata)
            }
            (12..15, Some((owner, rr))) => Self::raw(owner, rr.rtype, Class::NONE, 0, rr.rdata),
            (15..18, Some((owner, rr))) => Self::raw(owner, rr.rtype, Class::ANY, 0, Vec::new()),
            (18.., Some((owner, _))) => Self::raw(owner, Rtype::ANY, Class::ANY, 0, Vec::new()),
            (8..12, _) => self.addition(),
            (12..15, _) => {
                let rtype = self.rtype();
                let (owner, rdata) = (self.owner(), self.rdata(rtype));
                Self::raw(owner, rtype, Class::NONE, 0, rdata)
            }
            (15..18, _) => {
                let rtype = self.rtype();
                Self::raw(self.owner(), rtype, Class::ANY, 0, Vec::new())
            }
            _ => Self::raw(self.owner(), Rtype::ANY, Class::ANY, 0, Vec::new()),
        }
    }

    fn addition(&mut self) -> WireRecord {
        let rtype = self.rtype();
        // An SOA below the apex crashes some servers.
        let owner = if rtype == Rtype::SOA && self.rng.random_bool(0.997) { self.apex.clone() } else { self.owner() };
        // Knot gives RRSIGs the TTL of other records at the owner.
        let ttl = if rtype == Rtype::RRSIG { 300 } else { self.ttl() };
        let rdata = self.rdata(rtype);
        Self::raw(owner, rtype, Class::IN, ttl, rdata)
    }

    fn ttl(&mut self) -> u32 {
        TTLS.choose(self.rng).copied().unwrap_or(300)
    }

    fn rtype(&mut self) -> Rtype {
        let types = if self.rng.random_bool(0.03) { RARE_TYPES } else { TYPES };
        types.choose(self.rng).copied().unwrap_or(Rtype::A)
    }

    fn rdata(&mut self, rtype: Rtype) -> Vec<u8> {
        let number = self.rng.random_range(0..6u8);
        let target = TARGETS.choose(self.rng).copied().unwrap_or("a");
        let text = match rtype {
            Rtype::A => format!("192.0.2.{number}"),
            Rtype::AAAA => format!("2001:db8::{number}"),
            Rtype::TXT => format!("\"{}\"", ["a", "A", "b", "", "longer text"][usize::from(number) % 5]),
            Rtype::CNAME | Rtype::NS | Rtype::PTR | Rtype::DNAME => target.into(),
            Rtype::MX => format!("{} {target}", 10 * (number % 2)),
            Rtype::SRV => format!("0 {} 443 {target}", number % 2),
            Rtype::DS | Rtype::CDS => format!("{number} 13 2 {number:064x}"),
            Rtype::ZONEMD => format!("1 1 1 {number:096x}"),
            Rtype::CAA => format!("0 issue \"ca{number}.example\""),
            Rtype::HINFO => format!("\"cpu{number}\" \"os\""),
            Rtype::HTTPS => format!("1 {target} alpn=h2"),
            Rtype::KEY => format!("256 3 8 AwEAA{}==", ["Q", "g", "w"][usize::from(number) % 3]),
            // Some servers compare this name case-sensitively (RFC 6840 5.1), so it is in lower case.
            Rtype::NSEC => format!("{} A NSEC", target.to_lowercase()),
            Rtype::RRSIG => format!("A 8 2 300 20300101000000 20200101000000 {number} @ AAAA"),
            Rtype::WKS => format!("192.0.2.{} {} {number}", number % 2, ["tcp", "udp"][usize::from(number) % 2]),
            Rtype::SOA => return self.soa(),
            _ => format!("\\# 1 {number:02x}"),
        };
        scan_rdata_text(rtype, text.as_bytes(), Some(self.apex.as_ref())).unwrap_or_default()
    }

    /// An SOA with a serial that is slightly or much newer, equal, older, or at a boundary of serial arithmetic.
    fn soa(&mut self) -> Vec<u8> {
        const AHEAD: &[u32] =
            &[1, 1, 2, 5, 1000, 0x7FFF_FFFF, 0, u32::MAX, u32::MAX - 10, 0x8000_0000, 0x8000_0001, 0x7FFF_FFFE];
        let serial = self.zone.serial().wrapping_add(AHEAD.choose(self.rng).copied().unwrap_or(1));
        let refresh = [3600, 7200].choose(self.rng).copied().unwrap_or(3600);
        let text = format!("ns1 admin {serial} {refresh} 600 86400 300");
        scan_rdata_text(Rtype::SOA, text.as_bytes(), Some(self.apex.as_ref())).unwrap_or_default()
    }

    /// Corrupts one record of a message.
    fn corrupt_record(&mut self, update: &mut Update) {
        let outside: Name = "example.org.".parse().unwrap_or_else(|_| Name::root());
        let raws = if self.rng.random_bool(0.3) { &mut update.prerequisites } else { &mut update.steps };
        let Some(raw) = raws.choose_mut(self.rng) else { return };
        match self.rng.random_range(0..9) {
            0 => raw.owner = outside,
            1 => raw.class = [Class::CH, Class(7)].choose(self.rng).copied().unwrap_or(Class::CH),
            2 => raw.ttl = if raw.ttl == 0 { 1 } else { 0x8000_0000 },
            3 => {
                raw.rtype = META_TYPES.choose(self.rng).copied().unwrap_or(Rtype::ANY);
                raw.rdata = Vec::new();
            }
            4 => raw.rdata = vec![1, 2, 3],
            5 => raw.rdata = Vec::new(),
            // Digests, addresses and bitmaps of a wrong length.
            6 => raw.rdata.truncate(raw.rdata.len().saturating_sub(1)),
            7 => raw.rdata.push(0),
            // A digest with a wrong length for its type, or of an unknown type.
            _ => {
                raw.class = Class::IN;
                raw.ttl = 300;
                raw.rtype = [Rtype::DS, Rtype::CDS, Rtype::ZONEMD].choose(self.rng).copied().unwrap_or(Rtype::DS);
                let kind = self.rng.random_range(0..6);
                let len = [1, 12, 20, 32, 48, 64].choose(self.rng).copied().unwrap_or(1);
                let head = if raw.rtype == Rtype::ZONEMD { vec![0, 0, 0, 1, 1, kind] } else { vec![0, 1, 13, kind] };
                raw.rdata = [head, vec![7; len]].concat();
            }
        }
    }
}

fn owner_of(rr: &Rr) -> Option<Name> {
    NameRef::from_bytes(&rr.owner).ok().map(NameRef::to_name)
}
