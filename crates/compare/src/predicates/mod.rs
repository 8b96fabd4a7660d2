//! Allowed differences between servers. Each predicate names one difference and the rule that supports ours.
//!
//! A predicate removes exactly the flags and RRs that it explains from the comparison of ours with one peer. A
//! difference is explained if nothing is left. A message may need several predicates, and none hides anything else.

mod additional;
mod alias;
mod denial;
mod flags;
mod glue;
mod messages;
mod minimal;
mod names;
mod nsec3;
mod pair;
mod peculiar;
mod truncation;

pub(super) use alias::chain;

use super::case::Case;
use super::query::Query;
use super::response::Reaction;
use pair::{Exchange, Pair};
use testbed::Kind;

/// A difference that is allowed, and why ours is right.
pub struct Predicate {
    /// Its name in reports.
    pub name: &'static str,
    /// The section of the RFC.
    pub rule: &'static str,
    /// What it checks.
    test: Test,
}

#[derive(Clone, Copy)]
enum Test {
    /// For responses to a plain query: removes its difference, and returns whether there was one.
    Pair(fn(&mut Pair<'_>) -> bool),
    /// For any message, answered or not: returns whether it explains the whole difference.
    Exchange(fn(&Exchange<'_>) -> bool),
}

const fn pair(name: &'static str, rule: &'static str, test: fn(&mut Pair<'_>) -> bool) -> Predicate {
    Predicate { name, rule, test: Test::Pair(test) }
}

const fn exchange(name: &'static str, rule: &'static str, test: fn(&Exchange<'_>) -> bool) -> Predicate {
    Predicate { name, rule, test: Test::Exchange(test) }
}

/// All predicates in the order of evaluation: whole messages, then sections, then single records.
pub const TABLE: &[Predicate] = &[
    exchange("opcode_not_known", "RFC 1035 4.1.1, 8490 5.4", messages::opcode_not_known),
    exchange("malformed", "RFC 1035 4.1.1, 9619 4", messages::malformed),
    exchange("bytes_left_over", "RFC 1035 4.1", messages::bytes_left_over),
    exchange("unsigned_update", "RFC 2136 3.3", messages::unsigned_update),
    exchange("meta_qtype", "RFC 6895 3.1, 9824 3.5, 1035 4.1.1", messages::meta_qtype),
    exchange("reserved_qtype", "RFC 3597 3, 6895 3.1", messages::reserved_qtype),
    exchange("class_not_in", "RFC 1035 4.1.1", messages::class_not_in),
    exchange("axfr_over_udp", "RFC 5936 4.2", messages::axfr_over_udp),
    exchange("transfer_without_key", "RFC 1035 4.1.1, 5936 2.2.1", messages::transfer_without_key),
    pair("bind_copies_cd", "RFC 4035 3.1.6", flags::bind_copies_cd),
    pair("peer_repeats_rrs", "RFC 2181 5", peculiar::peer_repeats_rrs),
    pair("nsd_folds_svcb_target", "RFC 4343 4.1, 4034 6.2", peculiar::nsd_folds_svcb_target),
    pair("in_domain_glue_sets_tc", "RFC 9471 3.1", glue::in_domain_glue_sets_tc),
    pair("tc_without_need", "RFC 2181 9", truncation::tc_without_need),
    pair("rcode_of_truncated", "RFC 2181 9", truncation::rcode_of_truncated),
    pair("whole_does_not_fit", "RFC 2181 9, 1035 4.1.4", truncation::whole_does_not_fit),
    pair("knot_renames_wildcard_dname", "RFC 6672 3.2, 4592 4.4", alias::knot_renames_wildcard_dname),
    pair("nsd_follows_further", "RFC 1034 3.6.2", alias::nsd_follows_further),
    pair("bind_stops_any_at_dname", "RFC 6672 3.2", alias::bind_stops_any_at_dname),
    pair("knot_leaves_out_soa", "RFC 2308 2.1, 2181 9", truncation::knot_leaves_out_soa),
    pair("key_type_beside_cname", "RFC 1034 4.3.2, 4035 2.5", alias::key_type_beside_cname),
    pair("chain_stops_earlier", "RFC 1034 3.6.2", alias::chain_stops_earlier),
    pair("bind_servfail_at_circle", "RFC 1034 3.6.2", alias::bind_servfail_at_circle),
    pair("any_one_rrset", "RFC 8482 4.1", minimal::any_one_rrset),
    pair("empty_wildcard_is_proved", "RFC 4035 3.1.3.4", denial::empty_wildcard_is_proved),
    pair("asterisk_in_qname", "RFC 4592 2.3, 4035 3.1.3", denial::asterisk_in_qname),
    pair("opt_out_provable_encloser", "RFC 5155 7.2.1", denial::opt_out_provable_encloser),
    pair("wildcard_is_proved_for_ds", "RFC 5155 7.2.5", denial::wildcard_is_proved_for_ds),
    pair("knot_misses_svcb_target", "RFC 9460 4.1, 4343 3", peculiar::knot_misses_svcb_target),
    pair("extra_does_not_fit", "RFC 2181 9, 4035 3.1, 9471 3.2", additional::extra_does_not_fit),
    pair("in_domain_glue_comes_first", "RFC 9471 3.1", glue::in_domain_glue_comes_first),
    pair("peer_leaves_out_extra", "RFC 1034 4.3.2, 9471 3.2", additional::peer_leaves_out_extra),
];

/// The predicates that together cover the difference between ours and one peer. Empty if there is no difference; `None`
/// if some of it is left.
#[must_use]
pub fn explain(case: &Case<'_>, peer: Kind, theirs: &Reaction) -> Option<Vec<&'static str>> {
    if case.ours == theirs {
        return Some(Vec::new());
    }
    let query = Query::parse(case.message);
    let exchange = Exchange { message: case.message, query: query.as_ref(), peer, ours: case.ours, theirs };
    let mut pair = match (query.as_ref(), case.ours, theirs) {
        (Some(query), Reaction::Response(ours), Reaction::Response(theirs)) => Some(Pair {
            query,
            peer,
            ours: (**ours).clone(),
            theirs: (**theirs).clone(),
            ours_bytes: case.ours_bytes,
            whole: case.whole,
            whole_bytes: case.whole_bytes,
            served: case.served,
        }),
        _ => None,
    };
    let mut names = Vec::new();
    for predicate in TABLE {
        match (predicate.test, pair.as_mut()) {
            (Test::Exchange(holds), _) => {
                if holds(&exchange) {
                    return Some(vec![predicate.name]);
                }
            }
            (Test::Pair(take_away), Some(pair)) => {
                if take_away(pair) {
                    names.push(predicate.name);
                }
                if pair.ours == pair.theirs {
                    return Some(names);
                }
            }
            (Test::Pair(_), None) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::TABLE;

    #[test]
    fn every_predicate_is_documented_with_its_rule() {
        let page = include_str!("../../../../docs/catlab/diff.md");
        for predicate in TABLE {
            let row = page.lines().find(|line| line.starts_with(&format!("| `{}` |", predicate.name)));
            let row = row.unwrap_or_else(|| panic!("docs/catlab/diff.md has no row for {}", predicate.name));
            let first = predicate.rule.split(',').next().unwrap_or_default();
            assert!(row.contains(first), "docs/catlab/diff.md: {} is settled by {}", predicate.name, predicate.rule);
        }
        assert_eq!(page.matches("\n| `").count(), TABLE.len(), "a row of docs/catlab/diff.md has no predicate");
    }
}
