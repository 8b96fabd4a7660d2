//! What a validating resolver concludes from the records of denial in a response, by the rules for resolvers (RFC
//! 4035 5.4, RFC 5155 8, RFC 6840 4), which are not those that the server goes by.

use crate::model::{End, Expected, Model, Response, Shown, under};
use crate::signing::{PARAMS, Scheme, ancestors};
use std::collections::BTreeSet;
use wire::name::{Name, NameRef};
use wire::number::Rtype;

type Check = Result<(), String>;

/// Checks signatures and proofs of a response.
pub(crate) fn check(model: &Model, scheme: Scheme, expected: &Expected, qtype: Rtype, response: &Response) -> Check {
    let denial = |rtype: &Rtype| matches!(*rtype, Rtype::NSEC | Rtype::NSEC3);
    if scheme == Scheme::Unsigned {
        let any = response.sections.iter().flatten().any(|(_, rtype, _)| denial(rtype) || *rtype == Rtype::RRSIG);
        return ensure(!any, || "an unsigned zone has proofs".to_owned());
    }
    for section in &response.sections[..2] {
        signatures(expected, section)?;
    }
    let records = response.sections[1].iter().filter(|(_, rtype, _)| denial(rtype)).cloned().collect::<Vec<_>>();
    let proof: Box<dyn Proof> = if scheme == Scheme::Nsec {
        Box::new(Nsecs(records.iter().map(Nsec::new).collect(), model.apex.clone()))
    } else {
        let existing = model.names.keys().flat_map(|owner| ancestors(&model.apex, owner)).collect();
        Box::new(Nsec3s(records.iter().map(Nsec3::new).collect(), model.apex.clone(), existing))
    };
    for (expanded, wildcard) in &expected.expanded {
        let encloser = wildcard.as_ref().parent().unwrap().to_name();
        ensure(proof.denies_next_closer(expanded, &encloser), || format!("{expanded} is not denied"))?;
    }
    let last = expected.last.as_ref().unwrap();
    match &expected.end {
        End::Data => Ok(()),
        End::NxDomain => ensure(proof.nxdomain(last), || "no proof of NXDOMAIN".to_owned()),
        End::NoData { wildcard: None } => ensure(proof.nodata(last, qtype), || "no proof of NODATA".to_owned()),
        End::NoData { wildcard: Some(wildcard) } => {
            ensure(proof.wildcard_nodata(last, wildcard, qtype), || "no proof of wildcard NODATA".to_owned())
        }
        End::Referral { cut } if model.has(cut, Rtype::DS) => Ok(()),
        End::Referral { cut } => ensure(proof.nodata(cut, Rtype::DS), || "no proof of no DS".to_owned()),
    }
}

fn ensure(holds: bool, fault: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(fault()) }
}

/// Everything is signed but delegations and synthesised CNAMEs (RFC 4035 2.2, RFC 6672 5.3.1).
fn signatures(expected: &Expected, section: &[Shown]) -> Check {
    let signed: BTreeSet<(Name, u16)> = section
        .iter()
        .filter(|(_, rtype, _)| *rtype == Rtype::RRSIG)
        .map(|(owner, _, rdata)| (owner.clone(), u16::from_be_bytes([rdata[0], rdata[1]])))
        .collect();
    for (owner, rtype, _) in section.iter().filter(|(_, rtype, _)| *rtype != Rtype::RRSIG) {
        let is_referral = matches!(&expected.end, End::Referral { cut } if cut == owner) && *rtype == Rtype::NS;
        let is_synthesised = *rtype == Rtype::CNAME && expected.synthesised.contains(owner);
        let has = signed.contains(&(owner.clone(), rtype.0));
        ensure(has != (is_referral || is_synthesised), || format!("signature of {owner} {rtype:?}: {has}"))?;
    }
    Ok(())
}

trait Proof {
    fn nxdomain(&self, name: &Name) -> bool;
    fn nodata(&self, name: &Name, rtype: Rtype) -> bool;
    fn wildcard_nodata(&self, name: &Name, wildcard: &Name, rtype: Rtype) -> bool;
    /// That there is nothing on the way from the encloser to the name.
    fn denies_next_closer(&self, name: &Name, encloser: &Name) -> bool;
}

/// The types in a bitmap.
fn types(bitmap: &[u8]) -> BTreeSet<Rtype> {
    let (mut types, mut rest) = (BTreeSet::new(), bitmap);
    while let [window, len, more @ ..] = rest {
        let (bits, more) = more.split_at(usize::from(*len));
        for place in 0..bits.len() * 8 {
            if bits[place / 8] & 0x80 >> (place % 8) != 0 {
                types.insert(Rtype(u16::from(*window) << 8 | place as u16));
            }
        }
        rest = more;
    }
    types
}

/// Whether these types deny another: it is not there, nor is CNAME; and at a zone cut only DS may be denied (RFC 6840
/// 4.1).
fn deny(types: &BTreeSet<Rtype>, rtype: Rtype) -> bool {
    let is_cut = types.contains(&Rtype::NS) && !types.contains(&Rtype::SOA);
    !types.contains(&rtype) && !types.contains(&Rtype::CNAME) && (!is_cut || rtype == Rtype::DS)
}

struct Nsec {
    owner: Name,
    next: Name,
    types: BTreeSet<Rtype>,
}

struct Nsecs(Vec<Nsec>, Name);

impl Nsec {
    fn new((owner, _, rdata): &Shown) -> Self {
        let (next, bitmap) = NameRef::split_from(rdata).unwrap();
        Self { owner: owner.clone(), next: next.to_name(), types: types(bitmap) }
    }

    fn covers(&self, name: &Name) -> bool {
        let is_between = if self.owner < self.next { *name < self.next } else { true };
        let is_ancestor = name.as_ref().is_at_or_below(self.owner.as_ref());
        let is_cut = self.types.contains(&Rtype::NS) && !self.types.contains(&Rtype::SOA);
        // RFC 6840 4.1: the NSEC of a delegation or DNAME says nothing about what is below.
        self.owner < *name && is_between && !(is_ancestor && (is_cut || self.types.contains(&Rtype::DNAME)))
    }
}

impl Nsecs {
    fn covering(&self, name: &Name) -> Option<&Nsec> {
        self.0.iter().find(|nsec| nsec.covers(name))
    }

    /// The closest encloser that the covering NSEC implies.
    fn encloser(&self, name: &Name) -> Option<Name> {
        let nsec = self.covering(name)?;
        let shares = |above: &Name, other: &Name| other.as_ref().is_at_or_below(above.as_ref());
        ancestors(&self.1, name)
            .into_iter()
            .skip(1)
            .find(|above| shares(above, &nsec.owner) || shares(above, &nsec.next))
    }
}

impl Proof for Nsecs {
    fn nxdomain(&self, name: &Name) -> bool {
        let is_ent = self.covering(name).is_some_and(|nsec| nsec.next.as_ref().is_at_or_below(name.as_ref()));
        let wildcard = self.encloser(name).map(|encloser| under(b"\x01*", &encloser));
        !is_ent && wildcard.is_some_and(|wildcard| self.covering(&wildcard).is_some())
    }

    fn nodata(&self, name: &Name, rtype: Rtype) -> bool {
        let matches = self.0.iter().any(|nsec| nsec.owner == *name && deny(&nsec.types, rtype));
        let is_ent = self.covering(name).is_some_and(|nsec| nsec.next.as_ref().is_at_or_below(name.as_ref()));
        matches || is_ent
    }

    fn wildcard_nodata(&self, name: &Name, wildcard: &Name, rtype: Rtype) -> bool {
        let encloser = self.encloser(name);
        encloser.is_some_and(|encloser| under(b"\x01*", &encloser) == *wildcard) && self.nodata(wildcard, rtype)
    }

    fn denies_next_closer(&self, name: &Name, encloser: &Name) -> bool {
        self.encloser(name).as_ref() == Some(encloser)
    }
}

struct Nsec3 {
    hash: [u8; 20],
    next: [u8; 20],
    opt_out: bool,
    types: BTreeSet<Rtype>,
}

/// The records, the apex, and what names the zone has.
struct Nsec3s(Vec<Nsec3>, Name, BTreeSet<Name>);

impl Nsec3 {
    fn new((owner, _, rdata): &Shown) -> Self {
        let label = owner.as_ref().labels().next().unwrap().to_ascii_uppercase();
        let hash = data_encoding::BASE32HEX_NOPAD.decode(&label).unwrap().try_into().unwrap();
        let at = 5 + usize::from(rdata[4]);
        let next = rdata[at + 1..at + 21].try_into().unwrap();
        Self { hash, next, opt_out: rdata[1] & 1 != 0, types: types(&rdata[at + 21..]) }
    }

    fn covers(&self, hash: [u8; 20]) -> bool {
        if self.hash < self.next { self.hash < hash && hash < self.next } else { hash > self.hash || hash < self.next }
    }
}

impl Nsec3s {
    fn matching(&self, name: &Name) -> Option<&Nsec3> {
        let hash = PARAMS.hash(name.as_ref());
        self.0.iter().find(|nsec3| nsec3.hash == hash)
    }

    fn covering(&self, name: &Name) -> Option<&Nsec3> {
        let hash = PARAMS.hash(name.as_ref());
        self.0.iter().find(|nsec3| nsec3.covers(hash))
    }

    /// RFC 5155 8.3: the closest encloser and the NSEC3 that covers the next closer name.
    fn encloser(&self, name: &Name) -> Option<(Name, &Nsec3)> {
        let names = ancestors(&self.1, name);
        let at = names.iter().position(|name| self.matching(name).is_some()).filter(|&at| at > 0)?;
        let types = &self.matching(&names[at])?.types;
        let is_cut = types.contains(&Rtype::NS) && !types.contains(&Rtype::SOA);
        if is_cut || types.contains(&Rtype::DNAME) {
            return None;
        }
        Some((names[at].clone(), self.covering(&names[at - 1])?))
    }
}

impl Proof for Nsec3s {
    fn nxdomain(&self, name: &Name) -> bool {
        let Some((encloser, covering)) = self.encloser(name) else { return false };
        let wildcard = under(b"\x01*", &encloser);
        // Between the provable encloser and the name there may be names that only unsigned delegations have, and the
        // wildcard is not theirs. With opt-out that cannot be told from what the wildcard stands for: it is insecure.
        self.covering(&wildcard).is_some() || covering.opt_out && self.2.contains(&wildcard)
    }

    fn nodata(&self, name: &Name, rtype: Rtype) -> bool {
        match self.matching(name) {
            Some(nsec3) => deny(&nsec3.types, rtype),
            // RFC 5155 8.6, and erratum 3441 for empty non-terminals: only opt-out makes this a proof.
            None => self.encloser(name).is_some_and(|(_, covering)| covering.opt_out),
        }
    }

    fn wildcard_nodata(&self, name: &Name, wildcard: &Name, rtype: Rtype) -> bool {
        let Some((encloser, covering)) = self.encloser(name) else { return false };
        if under(b"\x01*", &encloser) != *wildcard {
            return covering.opt_out;
        }
        match self.matching(wildcard) {
            Some(nsec3) => deny(&nsec3.types, rtype),
            None => self.covering(wildcard).is_some_and(|covering| covering.opt_out),
        }
    }

    fn denies_next_closer(&self, name: &Name, encloser: &Name) -> bool {
        let names = ancestors(&self.1, name);
        let at = names.iter().position(|above| above == encloser).unwrap();
        self.covering(&names[at - 1]).is_some()
    }
}
