//! Aliases: how far a chain of CNAME and DNAME is followed.

use super::names::is_at_or_below;
use super::pair::Pair;
use crate::response::{Response, Rr, flag};
use testbed::Kind;
use wire::number::{Rcode, Rtype};

/// Maximum length of a chain in this check, so that loops end. Ours ends at 16.
const CHAIN_MAX: usize = 32;

/// Aliases that ours follows.
const OURS_CHAIN_MAX: usize = 16;

/// The names of the chain in a response: QNAME, then the target of each CNAME. In a loop, the last name is repeated.
pub(crate) fn chain(response: &Response, qname: &[u8]) -> Vec<Vec<u8>> {
    let mut names = vec![qname.to_vec()];
    while let Some(last) = names.last()
        && names.len() <= CHAIN_MAX
    {
        let is_next = |rr: &&Rr| rr.rtype == Rtype::CNAME && rr.owner == *last;
        let Some(cname) = response.answer.iter().find(is_next) else { break };
        let is_circle = names.contains(&cname.rdata);
        names.push(cname.rdata.clone());
        if is_circle {
            break;
        }
    }
    names
}

/// The last name of the peer's chain. Ours has an alias there.
struct ChainEnd {
    /// Aliases that the peer has followed.
    count: usize,
    /// Whether the next alias, which the peer has not followed, comes from a DNAME.
    is_redirect: bool,
    /// Whether that DNAME is already in the peer's answer, so that it would be followed a second time.
    is_repeated: bool,
}

fn chain_end(pair: &Pair<'_>) -> Option<ChainEnd> {
    let full = beginning_of(pair)?;
    if pair.theirs.answer.len() == full.answer.len() {
        return None;
    }
    let names = chain(&pair.theirs, &pair.query.qname);
    let last = names.last()?;
    full.answer.iter().find(|rr| rr.rtype == Rtype::CNAME && rr.owner == *last)?;
    let redirects = |rr: &&Rr| rr.rtype == Rtype::DNAME && rr.owner != *last && is_at_or_below(last, &rr.owner);
    let redirect = full.answer.iter().find(redirects);
    Some(ChainEnd {
        count: names.len() - 1,
        is_redirect: redirect.is_some(),
        is_repeated: redirect.is_some_and(|dname| pair.theirs.answer.contains(dname)),
    })
}

/// RFC 1034 4.3.2 step 3a: at a CNAME, "and QTYPE doesn't match CNAME", the chain is followed. RFC 4035 2.5 allows NSEC
/// and RRSIG beside a CNAME, and RFC 2181 10.1 allows KEY, but here there is none. BIND and Knot answer NODATA for such
/// a QTYPE; NSD follows the chain like ours. For NSEC3, which has its own names, NSD answers NODATA.
pub(super) fn key_type_beside_cname(pair: &mut Pair<'_>) -> bool {
    let is_denial = |rr: &Rr| matches!(rr.type_covered(), Rtype::SOA | Rtype::NSEC | Rtype::NSEC3);
    let is_nodata = pair.theirs.rcode == Rcode::NOERROR && pair.theirs.authority.iter().all(is_denial);
    let is_type = match pair.peer {
        Kind::Knot | Kind::Bind => matches!(pair.query.qtype, Rtype::NSEC | Rtype::RRSIG | Rtype::KEY),
        Kind::Nsd => pair.query.qtype == Rtype::NSEC3,
        Kind::Catamaran | Kind::PowerDns | Kind::CoreDns | Kind::Unbound => false,
        Kind::KnotResolver | Kind::Dnsdist | Kind::HaProxy => false,
    };
    let holds = is_type
        && is_nodata
        && (pair.theirs.flags[flag::TC] || !pair.theirs.authority.is_empty())
        && chain_end(pair).is_some_and(|chain_end| !chain_end.is_redirect);
    if holds {
        pair.theirs = pair.ours.clone();
    }
    holds
}

/// RFC 6672 3.2 step 3c: after a DNAME the search restarts, for every QTYPE. For ANY, BIND stops at the CNAME
/// synthesized from the DNAME.
pub(super) fn bind_stops_any_at_dname(pair: &mut Pair<'_>) -> bool {
    let made_cname = |theirs: &Response| theirs.answer.iter().any(|rr| rr.rtype == Rtype::DNAME);
    let holds = pair.peer == Kind::Bind
        && pair.query.qtype == Rtype::ANY
        && pair.theirs.rcode == Rcode::NOERROR
        && pair.theirs.authority.is_empty()
        && made_cname(&pair.theirs)
        && beginning_of(pair).is_some();
    if holds {
        pair.theirs = pair.ours.clone();
    }
    holds
}

/// Our full response, if the peer's answer is part of it, has the same flags, and peers serve all other records.
fn beginning_of<'p>(pair: &'p Pair<'_>) -> Option<&'p Response> {
    let is_beginning =
        |full: &&Response| pair.theirs.answer.is_subset(&full.answer) && pair.agrees_in_flags() && pair.is_served(full);
    pair.full().filter(is_beginning).filter(|full| ends_as_served(pair, full))
}

/// Whether our RCODE is that of the last name (RFC 6604 3), as a peer answers for that name, or NOERROR if ours stopped
/// there.
fn ends_as_served(pair: &Pair<'_>, full: &Response) -> bool {
    let names = chain(full, &pair.query.qname);
    let Some((last, before)) = names.split_last() else { return false };
    let (rcode, served) = (pair.ours.rcode, |rcode| pair.served.has_rcode(last, pair.query.qtype, rcode));
    let goes_no_further = before.contains(last) || before.len() >= OURS_CHAIN_MAX || served(Rcode::REFUSED);
    served(rcode) || goes_no_further && rcode == Rcode::NOERROR
}

/// RFC 1034 3.6.2 says that chains should be followed, but not how far. Ours ends in its zone after 16 aliases, Knot
/// after 5, BIND after 11 with SERVFAIL, and NSD after 20 or where a DNAME would be followed a second time.
///
/// The peer's answer is the beginning of ours, and stops at its limit. It may have proofs for the wildcards on the way
/// (RFC 4035 3.1.3.3), as ours does.
pub(super) fn chain_stops_earlier(pair: &mut Pair<'_>) -> bool {
    let bind_gives_up = pair.peer == Kind::Bind && pair.theirs.rcode == Rcode::SERVFAIL;
    let is_bound = match (pair.peer, chain_end(pair)) {
        (Kind::Nsd, Some(chain_end)) => chain_end.is_repeated || chain_end.count >= 20,
        (Kind::Knot, Some(chain_end)) => chain_end.count >= 5,
        (Kind::Bind, Some(chain_end)) => chain_end.count >= 11 || pair.theirs.flags[flag::TC],
        // BIND gives up before it looks up the last name.
        (Kind::Bind, None) if bind_gives_up => {
            beginning_of(pair).is_some() && chain(&pair.theirs, &pair.query.qname).len() > 11
        }
        _ => false,
    };
    let is_rcode = pair.theirs.rcode == Rcode::NOERROR || bind_gives_up;
    let proofs = pair.full().map(|full| &full.authority);
    let has_our_proofs = proofs.map_or(pair.theirs.authority.is_empty(), |ours| pair.theirs.authority.is_subset(ours));
    let holds = is_bound && is_rcode && has_our_proofs;
    if holds {
        pair.theirs = pair.ours.clone();
    }
    holds
}

/// RFC 1034 3.6.2 does not say how far a chain is followed. Ours ends after 16 aliases with NOERROR; NSD follows more.
pub(super) fn nsd_follows_further(pair: &mut Pair<'_>) -> bool {
    let holds = pair.peer == Kind::Nsd
        && pair.ours.rcode == Rcode::NOERROR
        && pair.ours.authority.is_empty()
        && pair.agrees_in_flags()
        && chain(&pair.ours, &pair.query.qname).len() > OURS_CHAIN_MAX
        && pair.ours.answer.is_subset(&pair.theirs.answer);
    if holds {
        pair.theirs = pair.ours.clone();
    }
    holds
}

/// RFC 1034 3.6.2: an alias loop is an error in the data that the resolver must notice, so ours answers the aliases
/// found, with NOERROR. BIND answers the same with SERVFAIL.
pub(super) fn bind_servfail_at_circle(pair: &mut Pair<'_>) -> bool {
    let Some(full) = pair.full() else { return false };
    let names = chain(full, &pair.query.qname);
    let is_circle = names.split_last().is_some_and(|(last, before)| before.contains(last));
    let holds = pair.peer == Kind::Bind
        && pair.theirs.rcode == Rcode::SERVFAIL
        && pair.ours.rcode == Rcode::NOERROR
        && is_circle;
    if holds {
        pair.theirs.rcode = Rcode::NOERROR;
    }
    holds
}

/// RFC 6672 3.2: the DNAME in an answer keeps its owner. The owner may be a wildcard, although RFC 4592 4.4 advises
/// against it. For a name below such an owner, Knot replaces the owner by QNAME and adds the proof of a wildcard
/// synthesis.
pub(super) fn knot_renames_wildcard_dname(pair: &mut Pair<'_>) -> bool {
    if pair.peer != Kind::Knot {
        return false;
    }
    let is_wildcard = |rr: &&Rr| rr.rtype == Rtype::DNAME && rr.owner.starts_with(b"\x01*");
    let dnames: Vec<Rr> = pair.ours.answer.difference(&pair.theirs.answer).filter(is_wildcard).cloned().collect();
    let mut holds = false;
    for dname in dnames {
        let is_renamed = |rr: &&Rr| {
            let is_it =
                if rr.rtype == Rtype::RRSIG { rr.type_covered() == Rtype::DNAME } else { rr.rdata == dname.rdata };
            matches!(rr.rtype, Rtype::DNAME | Rtype::RRSIG) && is_it && is_strictly_below(&rr.owner, &dname.owner)
        };
        let renamed: Vec<Rr> = pair.theirs.answer.iter().filter(is_renamed).cloned().collect();
        for rr in renamed {
            pair.theirs.answer.remove(&rr);
            pair.theirs.answer.insert(Rr { owner: dname.owner.clone(), ..rr });
            holds = true;
        }
        if holds && !pair.ours.authority.iter().any(|rr| rr.owner == dname.owner) {
            pair.theirs.authority.retain(|rr| rr.owner != dname.owner || rr.type_covered() != Rtype::NSEC);
        }
    }
    holds
}

fn is_strictly_below(name: &[u8], ancestor: &[u8]) -> bool {
    name != ancestor && is_at_or_below(name, ancestor)
}
