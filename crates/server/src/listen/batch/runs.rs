//! Which responses of a batch go to the kernel as one message that it cuts into datagrams (UDP_SEGMENT).
//!
//! Responses to a client with many queries (a resolver, a load generator) then pass the kernel's network stack only
//! once. All datagrams of a message have the same length, except the last one, which may be shorter.
//!
//! So each length starts a message, the longest first. If a length has at most as many responses as there are messages
//! without a shorter end, its responses become those ends. Three lengths with two responses each make two messages;
//! lengths that all differ make one message per two responses.

use crate::limits::UDP_BATCH_COUNT;

/// Longest datagram in a run. It fits the smallest MTU of IPv6 (RFC 8200 5): the kernel rejects a run whose datagrams
/// do not fit the link.
const SEGMENT_BYTES_MAX: usize = 1_232;
/// Most bytes of all datagrams of a message. The kernel accepts at most what one IP packet holds.
const RUN_BYTES_MAX: usize = 61_440;
/// Most datagrams of a message (UDP_MAX_SEGMENTS).
const RUN_COUNT_MAX: usize = 64;

/// A response that is to be sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Response {
    /// The datagram of the batch that it answers.
    pub(super) index: usize,
    pub(super) bytes: usize,
}

/// Sorts responses so that those that can share a message are adjacent. Only responses to the same client that already
/// follow one another (a visit) are reordered.
pub(super) fn group_by_route(responses: &mut [Response], same_route: impl Fn(usize, usize) -> bool) {
    // A sort key in one number: the visit, then the length (longest first), then the position.
    let mut keys = [0u32; UDP_BATCH_COUNT];
    const { assert!(UDP_BATCH_COUNT <= 1 << 8, "visit and position are a byte each") };
    let mut visit = 0u32;
    for at in 0..responses.len() {
        if at > 0 && !same_route(responses[at - 1].index, responses[at].index) {
            visit += 1;
        }
        let shortness = u16::MAX - responses[at].bytes as u16;
        keys[at] = visit << 24 | u32::from(shortness) << 8 | at as u32;
    }
    if visit as usize + 1 >= responses.len() {
        return;
    }
    let keys = &mut keys[..responses.len()];
    keys.sort_unstable();
    let mut arranged = [Response::default(); UDP_BATCH_COUNT];
    let mut rest = &mut arranged[..];
    for visit in keys.chunk_by(|one, other| one >> 24 == other >> 24) {
        let (arranged_visit, others) = rest.split_at_mut(visit.len());
        group_by_length(visit, responses, arranged_visit);
        rest = others;
    }
    responses.copy_from_slice(&arranged[..responses.len()]);
}

/// A message: a range of responses of one length, as positions in the visit, and the shorter response that ends it.
#[derive(Clone, Copy, Default)]
struct Head {
    from: u8,
    to: u8,
    end: Option<u8>,
}

/// Orders the responses of one visit, whose keys are sorted, so that they make few messages.
fn group_by_length(visit: &[u32], responses: &[Response], arranged: &mut [Response]) {
    let response_of = |key: u32| responses[(key & 0xFF) as usize];
    let mut heads = [Head::default(); UDP_BATCH_COUNT];
    // The number of heads. The first `ended` of them have an end.
    let (mut head_count, mut ended, mut from) = (0, 0, 0);
    for class in visit.chunk_by(|one, other| one >> 8 == other >> 8) {
        let (to, bytes) = (from + class.len(), response_of(class[0]).bytes);
        if bytes > 0 && class.len() <= head_count - ended {
            for (head, end) in heads[ended..].iter_mut().zip(from..to) {
                head.end = Some(end as u8);
            }
            ended += class.len();
        } else {
            heads[head_count] = Head { from: from as u8, to: to as u8, end: None };
            head_count += 1;
            if bytes > SEGMENT_BYTES_MAX {
                // They are sent alone.
                ended = head_count;
            }
        }
        from = to;
    }
    let in_order = heads[..head_count].iter().flat_map(|head| (head.from..head.to).chain(head.end));
    for (to, at) in arranged.iter_mut().zip(in_order) {
        *to = response_of(visit[usize::from(at)]);
    }
}

/// How many of the first responses share a message: at least one.
pub(super) fn run_len(responses: &[Response], same_route: impl Fn(usize, usize) -> bool) -> usize {
    let first = responses[0];
    if first.bytes > SEGMENT_BYTES_MAX || first.bytes == 0 {
        return 1;
    }
    let most = (RUN_BYTES_MAX / first.bytes).min(RUN_COUNT_MAX);
    let is_along = |other: &&Response| same_route(first.index, other.index);
    let alike = |other: &&Response| other.bytes == first.bytes && is_along(other);
    let equal = responses.iter().take(most).take_while(alike).count();
    let is_last = |other: &&Response| (1..first.bytes).contains(&other.bytes) && is_along(other);
    equal + responses[equal..].first().filter(|_| equal < most).filter(is_last).map_or(0, |_| 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The runs made of responses to these clients, of these lengths; each run is a list of datagrams.
    fn runs(datagrams: &[(char, usize)]) -> Vec<Vec<usize>> {
        let mut responses: Vec<Response> =
            datagrams.iter().enumerate().map(|(index, &(_, bytes))| Response { index, bytes }).collect();
        let same_route = |one: usize, other: usize| datagrams[one].0 == datagrams[other].0;
        group_by_route(&mut responses, same_route);
        let mut rest = &responses[..];
        let mut runs = Vec::new();
        while !rest.is_empty() {
            let (run, after) = rest.split_at(run_len(rest, same_route));
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
        // A message holds at most 49 datagrams of 1,232 bytes.
        let mut full = vec![('a', 1_232); 49];
        full.push(('a', 60));
        assert_eq!(runs(&full).iter().map(Vec::len).collect::<Vec<_>>(), [49, 1]);
    }

    #[test]
    fn a_length_of_few_ends_messages_of_longer_ones() {
        let two = |bytes| [('a', bytes), ('a', bytes)];
        assert_eq!(runs(&[two(50), two(70), two(60)].concat()), [[2, 3, 0], [4, 5, 1]]);
        // Four lengths have one response each, and one length has two.
        let mixed = [('a', 40), ('a', 90), ('a', 80), ('a', 50), ('a', 70), ('a', 40)];
        assert_eq!(runs(&mixed), [vec![1, 2], vec![4, 3], vec![0, 5]]);
    }

    proptest! {
        #[test]
        fn each_goes_once_and_no_more_messages_are_made_than_in_order_of_length(
            datagrams in prop::collection::vec(
                (prop::sample::select(vec!['a', 'a', 'a', 'b']), prop_oneof![8 => 40..60usize, 1 => 0..2_000usize]),
                1..=UDP_BATCH_COUNT
            )
        ) {
            let made = runs(&datagrams);
            let mut seen: Vec<usize> = made.concat();
            for run in &made {
                let of = |index: usize| datagrams[index];
                let (client, bytes) = of(run[0]);
                prop_assert!(run.len() == 1 || bytes <= SEGMENT_BYTES_MAX);
                let (last, equal) = run.split_last().unwrap();
                prop_assert!(equal.iter().all(|&index| of(index) == (client, bytes)));
                prop_assert!(of(*last).0 == client && of(*last).1 <= bytes);
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..datagrams.len()).collect::<Vec<_>>());
            // For comparison: each visit simply sorted from the longest to the shortest.
            let mut in_order = 0;
            for visit in datagrams.chunk_by(|one, other| one.0 == other.0) {
                let mut visit: Vec<Response> =
                    visit.iter().enumerate().map(|(index, &(_, bytes))| Response { index, bytes }).collect();
                visit.sort_by_key(|response| std::cmp::Reverse(response.bytes));
                let mut rest = &visit[..];
                while !rest.is_empty() {
                    rest = &rest[run_len(rest, |_, _| true)..];
                    in_order += 1;
                }
            }
            prop_assert!(made.len() <= in_order, "{} messages, {in_order} in order of length", made.len());
        }
    }

    #[test]
    fn responses_above_the_smallest_mtu_are_sent_alone() {
        assert_eq!(runs(&[('a', 1_233), ('a', 1_233)]), [[0], [1]]);
        assert_eq!(runs(&[('a', 1_232), ('a', 1_232)]), [[0, 1]]);
    }

    #[test]
    fn a_message_has_no_more_than_an_ip_packet_holds() {
        let runs = runs(&[('a', 1_232); UDP_BATCH_COUNT]);
        assert_eq!(runs.iter().map(Vec::len).collect::<Vec<_>>(), [49, 15]);
    }
}
