//! The order of flows, and their shares of the queue.

use super::*;
use crate::command::UpdateCommand;
use crate::entry::{ImportChunk, StageId};
use proptest::prelude::*;
use zone::RecordList;

const APEX: &[u8] = b"\x01a\0";

/// An update by a key, with this size in bytes.
fn update(key: u32, bytes: usize) -> Command {
    let mut message = [&[0; HEADER_BYTES], APEX].concat();
    message.resize(bytes.max(HEADER_BYTES + APEX.len()), 0);
    Command::Update(UpdateCommand {
        external: Default::default(),
        identity: [0; 16],
        key_name: format!("key{key}.").parse().unwrap(),
        time_signed: 1,
        fudge: 300,
        source: [0; 16],
        reception: None,
        message,
    })
}

fn chunk(stage: u8, bytes: usize) -> Command {
    let owner = "a.".parse().unwrap();
    let record = zone::Record { owner, rtype: wire::number::Rtype::TXT, ttl: 1, rdata: vec![0; 1_000].into() };
    let records: RecordList = vec![record; bytes / 1_000].iter().collect();
    Command::Propose(Body::ImportChunk(ImportChunk { stage: StageId([stage; 16]), chunk_index: 0, records }))
}

fn from(token: u64) -> Origin {
    Origin { peer: None, token }
}

/// Tokens in the order of evaluation.
fn all(queue: &mut EvaluationQueue) -> Vec<u64> {
    std::iter::from_fn(|| queue.pop()).map(|(origin, _)| origin.token).collect()
}

#[test]
fn new_flow_is_served_early_during_a_flood() {
    let mut queue = EvaluationQueue::default();
    for token in 0..5_000 {
        assert!(queue.push(from(token), update(1, 200)));
    }
    assert!(queue.push(from(9_999), update(2, 200)));
    let order = all(&mut queue);
    assert_eq!(order.len(), 5_001);
    assert!(order.iter().position(|&token| token == 9_999).unwrap() <= 2, "{:?}", &order[..4]);
}

#[test]
fn a_flow_leaves_room_for_others_and_all_together_are_bounded() {
    let mut queue = EvaluationQueue::default();
    let fill = |queue: &mut EvaluationQueue, key| (0..).take_while(|_| queue.push(from(0), update(key, 200))).count();
    assert_eq!(fill(&mut queue, 1), EVALUATION_QUEUE_MAX / 2);
    assert_eq!(fill(&mut queue, 2), EVALUATION_QUEUE_MAX / 4);
    assert!((3..20_000).all(|key| queue.len == EVALUATION_QUEUE_MAX || queue.push(from(0), update(key, 200))));
    assert_eq!(queue.len, EVALUATION_QUEUE_MAX);
    assert!(!queue.push(from(0), update(0, 200)));
    assert_eq!(queue.drain().len(), EVALUATION_QUEUE_MAX);
    assert!(queue.pop().is_none() && queue.push(from(0), update(0, 200)));
}

#[test]
fn large_commands_are_bounded_by_their_bytes() {
    let mut queue = EvaluationQueue::default();
    let pushed = (0..).take_while(|&number| queue.push(from(0), chunk(number as u8 % 16, 256_000))).count();
    assert!(queue.large_bytes <= LARGE_COMMANDS_BYTES_MAX && queue.large_bytes + 300_000 > LARGE_COMMANDS_BYTES_MAX);
    assert!(queue.push(from(0), update(1, 200)), "small commands still have room");
    assert_eq!(all(&mut queue).len(), pushed + 1);
    assert_eq!((queue.large_bytes, queue.len), (0, 0));
}

/// While both classes wait, small commands get three quarters of the bytes, and large ones a quarter.
#[test]
fn small_and_large_flows_share() {
    let mut queue = EvaluationQueue::default();
    for token in 0..8_000 {
        queue.push(from(token), update(1, 500));
    }
    for token in 0..100 {
        queue.push(from(10_000 + token), chunk(1, 256_000));
    }
    let (mut small, mut large) = (0, 0);
    while small + large < 4_000_000 {
        let (_, command) = queue.pop().unwrap();
        let cost = bytes_of(&command) + COMMAND_COST;
        if is_large(&command, bytes_of(&command)) { large += cost } else { small += cost }
    }
    let share = large as f64 / (small + large) as f64;
    assert!((0.18..0.32).contains(&share), "{share}");
}

/// A class gets no extra share later for the time in which it was idle.
#[test]
fn idle_flow_gets_no_lasting_priority() {
    let mut queue = EvaluationQueue::default();
    for token in 0..20 {
        queue.push(from(token), chunk(1, 256_000));
    }
    assert_eq!((0..10).map(|_| queue.pop().unwrap().0.token).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    for token in 100..8_000 {
        queue.push(from(token), update(1, 500));
    }
    let order = all(&mut queue);
    let next = order.iter().position(|&token| token == 10).unwrap();
    assert!(next <= 3 * 270_000 / 1_000, "{next} small ones before the next chunk");
}

fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![Just(200), Just(5_000), Just(60_000)]
}

proptest! {
    /// Every command comes out once, and commands of one flow come out in their order. Their sizes do not matter.
    #[test]
    fn order_in_a_flow_is_kept(
        steps in proptest::collection::vec((0u32..6, sizes(), any::<bool>()), 0..300),
    ) {
        let mut queue = EvaluationQueue::default();
        let (mut waiting, mut out) = (BTreeMap::<u32, VecDeque<u64>>::new(), 0);
        let mut took = |waiting: &mut BTreeMap<u32, VecDeque<u64>>, (origin, command): (Origin, Command)| {
            let Command::Update(update) = command else { panic!("only updates") };
            let key = update.key_name.to_string()[3..4].parse().unwrap();
            out += 1;
            assert_eq!(waiting.get_mut(&key).and_then(VecDeque::pop_front), Some(origin.token));
        };
        let count = steps.len();
        for (token, (key, bytes, pops)) in steps.into_iter().enumerate() {
            prop_assert!(queue.push(from(token as u64), update(key, bytes)));
            waiting.entry(key).or_default().push_back(token as u64);
            if pops && let Some(next) = queue.pop() {
                took(&mut waiting, next);
            }
        }
        while let Some(next) = queue.pop() {
            took(&mut waiting, next);
        }
        prop_assert_eq!(out, count);
        prop_assert_eq!((queue.len, queue.large_bytes), (0, 0));
        prop_assert!(queue.flows.is_empty() && queue.rings.iter().all(|ring| ring.turns.is_empty()));
    }

    /// Flows that always wait get equal shares, even if their commands differ in size.
    #[test]
    fn flows_share_by_bytes(sizes in proptest::collection::vec(100usize..4_000, 2..8)) {
        let mut queue = EvaluationQueue::default();
        for (key, &bytes) in sizes.iter().enumerate() {
            for _ in 0..1_000_000 / (bytes + COMMAND_COST) {
                queue.push(from(key as u64), update(key as u32, bytes));
            }
        }
        let mut taken = vec![0; sizes.len()];
        while taken.iter().all(|&taken| taken < 100_000) {
            let key = queue.pop().unwrap().0.token as usize;
            taken[key] += sizes[key] + COMMAND_COST;
            let (least, most) = (taken.iter().min().unwrap(), taken.iter().max().unwrap());
            prop_assert!(most - least <= 2 * (4_000 + COMMAND_COST + TURN_COST[0]), "{:?}", taken);
        }
    }
}
