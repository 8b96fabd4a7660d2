//! Which responses of a batch go to the kernel as one message that it takes apart (UDP_SEGMENT).
//!
//! A client that asks much in a short time (a resolver behind a balancer, a load generator) gets its responses
//! together: the way through the kernel's network stack is taken once for all of them. A message is cut into datagrams
//! of one length, and what is left over at its end is one more, which is shorter. So those of one client are put in
//! order of length, the longest first: many of one length and one of the next go together, and even of lengths that are
//! all different, two and two.

use crate::limits::UDP_BATCH_COUNT;

/// Longest datagram that is sent together with others: it fits the smallest link of IPv6 (RFC 8200 5), and a message
/// whose parts do not fit the link would not be sent at all.
const SEGMENT_OCTETS_MAX: usize = 1_232;
/// Octets of all datagrams of a message; the kernel takes no more than an IP packet holds.
const RUN_OCTETS_MAX: usize = 61_440;
/// Datagrams of a message (UDP_MAX_SEGMENTS).
const RUN_COUNT_MAX: usize = 64;

/// A response that is to be sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Response {
    /// The datagram of the batch that it answers.
    pub(super) index: usize,
    pub(super) octets: usize,
}

/// Puts responses that can go together beside one another. Those of a client stay where its first one was, as long as
/// it was not interrupted by another client.
pub(super) fn arrange(responses: &mut [Response], same_way: impl Fn(usize, usize) -> bool) {
    // Visit, then length, the longest first, then place, in one number: numbers are quickly sorted.
    let mut keys = [0u32; UDP_BATCH_COUNT];
    const { assert!(UDP_BATCH_COUNT <= 1 << 8, "visit and place are an octet each") };
    let mut visit = 0u32;
    for at in 0..responses.len() {
        if at > 0 && !same_way(responses[at - 1].index, responses[at].index) {
            visit += 1;
        }
        let shortness = u16::MAX - responses[at].octets as u16;
        keys[at] = visit << 24 | u32::from(shortness) << 8 | at as u32;
    }
    if visit as usize + 1 >= responses.len() {
        return;
    }
    let keys = &mut keys[..responses.len()];
    keys.sort_unstable();
    let mut arranged = [Response::default(); UDP_BATCH_COUNT];
    for (to, &key) in arranged.iter_mut().zip(&*keys) {
        *to = responses[(key & 0xFF) as usize];
    }
    responses.copy_from_slice(&arranged[..responses.len()]);
}

/// How many of the first responses go together: at least one.
pub(super) fn run_len(responses: &[Response], same_way: impl Fn(usize, usize) -> bool) -> usize {
    let first = responses[0];
    if first.octets > SEGMENT_OCTETS_MAX || first.octets == 0 {
        return 1;
    }
    let most = (RUN_OCTETS_MAX / first.octets).min(RUN_COUNT_MAX);
    let is_along = |other: &&Response| same_way(first.index, other.index);
    let alike = |other: &&Response| other.octets == first.octets && is_along(other);
    let equal = responses.iter().take(most).take_while(alike).count();
    let is_last = |other: &&Response| (1..first.octets).contains(&other.octets) && is_along(other);
    equal + responses[equal..].first().filter(|_| equal < most).filter(is_last).map_or(0, |_| 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Responses of these clients and lengths, and the runs they make: of each the datagrams.
    fn runs(datagrams: &[(char, usize)]) -> Vec<Vec<usize>> {
        let mut responses: Vec<Response> =
            datagrams.iter().enumerate().map(|(index, &(_, octets))| Response { index, octets }).collect();
        let same_way = |one: usize, other: usize| datagrams[one].0 == datagrams[other].0;
        arrange(&mut responses, same_way);
        let mut rest = &responses[..];
        let mut runs = Vec::new();
        while !rest.is_empty() {
            let (run, after) = rest.split_at(run_len(rest, same_way));
            runs.push(run.iter().map(|response| response.index).collect());
            rest = after;
        }
        runs
    }

    #[test]
    fn equal_lengths_of_one_client_go_together() {
        assert_eq!(runs(&[('a', 50)]), [[0]]);
        assert_eq!(runs(&[('a', 50), ('a', 50), ('a', 50)]), [[0, 1, 2]]);
        assert_eq!(runs(&[('a', 50), ('b', 50), ('a', 50)]), [[0], [1], [2]]);
        assert_eq!(runs(&[('a', 50), ('b', 50), ('b', 50), ('a', 50)]), [vec![0], vec![1, 2], vec![3]]);
    }

    #[test]
    fn the_last_of_a_message_may_be_shorter() {
        assert_eq!(runs(&[('a', 50), ('a', 60), ('a', 50), ('a', 60)]), [vec![1, 3, 0], vec![2]]);
        assert_eq!(runs(&[('a', 50), ('a', 60), ('a', 70), ('a', 40)]), [[2, 1], [0, 3]]);
        assert_eq!(runs(&[('a', 70), ('b', 60), ('b', 70)]), [vec![0], vec![2, 1]]);
        assert_eq!(runs(&[('a', 0), ('a', 60)]), [[1], [0]]);
        assert_eq!(runs(&[('a', 1_233), ('a', 60), ('a', 50)]), [vec![0], vec![1, 2]]);
        // Forty-nine of 1,232 octets are all that a message holds.
        let mut full = vec![('a', 1_232); 49];
        full.push(('a', 60));
        assert_eq!(runs(&full).iter().map(Vec::len).collect::<Vec<_>>(), [49, 1]);
    }

    #[test]
    fn what_does_not_fit_the_smallest_link_goes_alone() {
        assert_eq!(runs(&[('a', 1_233), ('a', 1_233)]), [[0], [1]]);
        assert_eq!(runs(&[('a', 1_232), ('a', 1_232)]), [[0, 1]]);
    }

    #[test]
    fn a_message_has_no_more_than_an_ip_packet_holds() {
        let runs = runs(&[('a', 1_232); UDP_BATCH_COUNT]);
        assert_eq!(runs.iter().map(Vec::len).collect::<Vec<_>>(), [49, 15]);
    }
}
