//! Frames between nodes, made by hand: one of each kind in the encoding, with the numbers that an attacker would
//! choose.

/// The claimed sender and content of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) term: u64,
    pub(crate) index: u64,
    pub(crate) commit: u64,
}

/// Raft's own messages, by their numbers in the encoding.
pub(crate) const APPEND: u8 = 1;
pub(crate) const HEARTBEAT: u8 = 6;
const RAFT: std::ops::RangeInclusive<u8> = 1..=10;

/// A frame of each kind.
pub(crate) fn of_each_kind(claim: Claim) -> Vec<(String, Vec<u8>)> {
    let raft = RAFT.map(|kind| (format!("raft {kind}"), raft(kind, claim, &[])));
    let Claim { term, index, commit, .. } = claim;
    let numbers = |numbers: &[u64]| numbers.iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<u8>>();
    let hash = [7; 16];
    let own = [
        (2, [&numbers(&[1]), &[3, 1][..]].concat()),
        (3, [&numbers(&[1]), &[1][..]].concat()),
        (4, [&numbers(&[term, 9, commit, index]), &hash[..]].concat()),
        (5, [&numbers(&[term, 9, commit]), &[0, 0, 0, 9][..], &numbers(&[index]), &[1], &hash].concat()),
        (6, [&numbers(&[index]), &hash[..]].concat()),
        (7, numbers(&[1])),
        (8, numbers(&[1, commit])),
        (9, vec![1; 40]),
        (10, vec![0]),
        (11, [&numbers(&[1, 2]), &[1][..]].concat()),
        (12, numbers(&[1, 2, 3])),
        (13, numbers(&[commit])),
        (14, [&numbers(&[commit]), &[1][..]].concat()),
        (15, [&numbers(&[1, term]), &[3, 1][..]].concat()),
        (16, [&numbers(&[term, commit]), &[0, 0, 0, 1][..], &numbers(&[claim.to])].concat()),
        (17, numbers(&[commit, 1])),
        (20, numbers(&[1])),
        (21, vec![1]),
        (200, vec![0; 8]),
    ];
    let own = own.into_iter().map(|(kind, body)| (format!("frame {kind}"), [&[1, kind, 0, 0][..], &body].concat()));
    raft.chain(own).collect()
}

/// A Raft message. An append carries these entries, as (term, index, data).
pub(crate) fn raft(kind: u8, claim: Claim, entries: &[(u64, u64, Vec<u8>)]) -> Vec<u8> {
    let mut frame = vec![1, 1, 0, 0, kind];
    let log_term = claim.term.saturating_sub(1);
    for number in [claim.to, claim.from, claim.term, log_term, claim.index, claim.commit, 0, 0, 0] {
        frame.extend(number.to_be_bytes());
    }
    // Not a rejection, no priority, no context.
    frame.push(0);
    frame.extend(0u64.to_be_bytes());
    frame.extend(0u32.to_be_bytes());
    frame.extend((entries.len() as u32).to_be_bytes());
    for (term, index, data) in entries {
        frame.push(0);
        frame.extend(term.to_be_bytes());
        frame.extend(index.to_be_bytes());
        frame.extend((data.len() as u32).to_be_bytes());
        frame.extend(data);
        frame.extend(0u32.to_be_bytes());
    }
    // No snapshot.
    frame.push(0);
    frame
}
