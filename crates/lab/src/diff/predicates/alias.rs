//! Aliases: how far a chain of CNAME and DNAME is counts.

use super::Pair;
use super::names::{covered, is_at_or_below};
use crate::diff::Response;
use crate::diff::response::{Rr, flag};
use crate::peers::Kind;
use wire::number::{Rcode, Rtype};

/// Aliases that a chain may have here, so that circles end; ours ends at 16.
const CHAIN_MAX: usize = 32;

/// Aliases that ours follows.
const OURS_CHAIN_MAX: usize = 16;

/// The names of the chain in a response: QNAME, then the target of each CNAME; the last one again where it is a circle.
pub(in crate::diff) fn chain(response: &Response, qname: &[u8]) -> Vec<Vec<u8>> {
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

/// Where the peer's chain stops on its way along ours: its last name, which has an alias in ours.
struct Stop {
    /// Aliases that the peer has counts.
    count: usize,
    /// Whether the alias it has not counts comes of a DNAME.
    is_redirect: bool,
    /// Whether that DNAME is in the peer's answer already, so that it would be counts a second time.
    is_repeated: bool,
}

fn stop(pair: &Pair<'_>) -> Option<Stop> {
    let full = beginning_of(pair)?;
    if pair.theirs.answer.len() == full.answer.len() {
        return None;
    }
    let names = chain(&pair.theirs, &pair.query.qname);
    let last = names.last()?;
    full.answer.iter().find(|rr| rr.rtype == Rtype::CNAME && rr.owner == *last)?;
    let redirects = |rr: &&Rr| rr.rtype == Rtype::DNAME && rr.owner != *last && is_at_or_below(last, &rr.owner);
    let redirect = full.answer.iter().find(redirects);
    Some(Stop {
        count: names.len() - 1,
        is_redirect: redirect.is_some(),
        is_repeated: redirect.is_some_and(|dname| pair.theirs.answer.contains(dname)),
    })
}

/// RFC 1034 4.3.2 step 3a: at a CNAME, "and QTYPE doesn't match CNAME", the chain is counts. RFC 4035 2.5 lets NSEC
/// and RRSIG stand beside a CNAME, and KEY might (RFC 2181 10.1), but here there is none: BIND and Knot answer NODATA
/// for such a QTYPE, NSD goes on as ours does. For NSEC3, which stands at names of its own, NSD answers NODATA.
pub(super) fn key_type_beside_cname(pair: &mut Pair<'_>) -> bool {
    let is_denial = |rr: &Rr| matches!(covered(rr), Rtype::SOA | Rtype::NSEC | Rtype::NSEC3);
    let is_nodata = pair.theirs.rcode == Rcode::NOERROR && pair.theirs.authority.iter().all(is_denial);
    let is_type = match pair.peer {
        Kind::Knot | Kind::Bind => matches!(pair.query.qtype, Rtype::NSEC | Rtype::RRSIG | Rtype::KEY),
        Kind::Nsd => pair.query.qtype == Rtype::NSEC3,
        Kind::Catamaran => false,
    };
    let holds = is_type
        && is_nodata
        && (pair.theirs.flags[flag::TC] || !pair.theirs.authority.is_empty())
        && stop(pair).is_some_and(|stop| !stop.is_redirect);
    if holds {
        pair.theirs = pair.ours.clone();
    }
    holds
}

/// RFC 6672 3.2 step 3c: behind a DNAME the search begins anew, whatever the QTYPE. For ANY, BIND stops at the CNAME
/// that the DNAME makes, as if that had been asked for.
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

/// Ours in full, where the peer's answer is part of it, has the same flags, and peers serve all the rest.
fn beginning_of<'p>(pair: &'p Pair<'_>) -> Option<&'p Response> {
    let is_beginning =
        |full: &&Response| pair.theirs.answer.is_subset(&full.answer) && pair.agrees_in_flags() && pair.is_served(full);
    pair.full().filter(is_beginning).filter(|full| ends_as_served(pair, full))
}

/// Whether the RCODE of ours is that of the last name (RFC 6604 3): what a peer says when asked for that name; NOERROR
/// where ours went no further.
fn ends_as_served(pair: &Pair<'_>, full: &Response) -> bool {
    let names = chain(full, &pair.query.qname);
    let Some((last, before)) = names.split_last() else { return false };
    let (rcode, served) = (pair.ours.rcode, |rcode| pair.served.has_rcode(last, pair.query.qtype, rcode));
    let goes_no_further = before.contains(last) || before.len() >= OURS_CHAIN_MAX || served(Rcode::REFUSED);
    served(rcode) || goes_no_further && rcode == Rcode::NOERROR
}

/// RFC 1034 3.6.2 says that chains should be counts, none says how far. Ours ends in its zone after 16 aliases; Knot
/// after 5, BIND after 11 and with SERVFAIL, NSD where a DNAME would be counts a second time or after 20.
///
/// The peer's answer is the beginning of ours, and stops where its bound is. Beside it may stand what proves the
/// wildcards on the way (RFC 4035 3.1.3.3), as beside ours.
pub(super) fn chain_stops_earlier(pair: &mut Pair<'_>) -> bool {
    let bind_gives_up = pair.peer == Kind::Bind && pair.theirs.rcode == Rcode::SERVFAIL;
    let is_bound = match (pair.peer, stop(pair)) {
        (Kind::Nsd, Some(stop)) => stop.is_repeated || stop.count >= 20,
        (Kind::Knot, Some(stop)) => stop.count >= 5,
        (Kind::Bind, Some(stop)) => stop.count >= 11 || pair.theirs.flags[flag::TC],
        // It gives up before it has looked what the last name is.
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

/// RFC 1034 3.6.2 does not say how far a chain is counts: ours ends after 16 aliases, with NOERROR. NSD follows more.
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

/// RFC 1034 3.6.2: a circle of aliases is an error in the data, which the resolver must notice; what was found is
/// answered with NOERROR. BIND answers the same with SERVFAIL.
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

/// RFC 6672 3.2: the DNAME in an answer is that of its owner. Where the owner is a wildcard (RFC 4592 4.4 advises
/// against it) and the query is for a name below it, Knot puts QNAME in its place, with the proof of a synthesis that
/// there was not.
pub(super) fn knot_renames_wildcard_dname(pair: &mut Pair<'_>) -> bool {
    if pair.peer != Kind::Knot {
        return false;
    }
    let is_wildcard = |rr: &&Rr| rr.rtype == Rtype::DNAME && rr.owner.starts_with(b"\x01*");
    let dnames: Vec<Rr> = pair.ours.answer.difference(&pair.theirs.answer).filter(is_wildcard).cloned().collect();
    let mut holds = false;
    for dname in dnames {
        let is_renamed = |rr: &&Rr| {
            let is_it = if rr.rtype == Rtype::RRSIG { covered(rr) == Rtype::DNAME } else { rr.rdata == dname.rdata };
            matches!(rr.rtype, Rtype::DNAME | Rtype::RRSIG) && is_it && is_strictly_below(&rr.owner, &dname.owner)
        };
        let renamed: Vec<Rr> = pair.theirs.answer.iter().filter(is_renamed).cloned().collect();
        for rr in renamed {
            pair.theirs.answer.remove(&rr);
            pair.theirs.answer.insert(Rr { owner: dname.owner.clone(), ..rr });
            holds = true;
        }
        if holds && !pair.ours.authority.iter().any(|rr| rr.owner == dname.owner) {
            pair.theirs.authority.retain(|rr| rr.owner != dname.owner || covered(rr) != Rtype::NSEC);
        }
    }
    holds
}

fn is_strictly_below(name: &[u8], ancestor: &[u8]) -> bool {
    name != ancestor && is_at_or_below(name, ancestor)
}
