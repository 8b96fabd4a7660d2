//! Admission and eviction when all slots are in use.

use super::*;
use std::pin::pin;
use std::time::Duration;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn v4(number: usize) -> IpAddr {
    Ipv4Addr::from(0xC000_0200 + number as u32).into()
}

fn is_evicted(permit: &ConnectionPermit) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(permit.unless_evicted(pin!(std::future::ready(())))).is_none()
}

#[test]
fn both_limits_apply_and_permits_are_released() {
    let table = ConnectionTable::new(3, 2);
    let first = table.acquire(ip("2001:db8::1")).unwrap();
    let _second = table.acquire(ip("2001:db8:0:ff::2")).unwrap();
    assert!(table.acquire(ip("2001:db8:0:12::3")).is_none(), "the same /56");
    assert!(!table.is_nearly_full(), "two of three");
    let _third = table.acquire(ip("192.0.2.1")).unwrap();
    assert!(table.is_nearly_full());
    assert!(table.acquire(ip("192.0.2.1")).is_none(), "it would then have the most connections");
    drop(first);
    assert!(table.acquire(ip("192.0.2.2")).is_some());
    let inner = table.table();
    assert_eq!((inner.of.len(), inner.by_count.len(), table.count()), (2, 2, 2));
}

#[test]
fn the_most_idle_connection_of_the_client_with_the_most_is_evicted() {
    let table = ConnectionTable::new(10, 100);
    let greedy: Vec<ConnectionPermit> = (0..8).map(|_| table.acquire(v4(1)).unwrap()).collect();
    let modest: Vec<ConnectionPermit> = (0..2).map(|_| table.acquire(v4(2)).unwrap()).collect();
    let later = Instant::now() + Duration::from_secs(1);
    greedy
        .iter()
        .enumerate()
        .filter(|(index, _)| *index != 5)
        .for_each(|(_, permit)| permit.slot.record_activity(later));
    let new = table.acquire(v4(3)).unwrap();
    assert!(is_evicted(&greedy[5]) && greedy.iter().filter(|permit| is_evicted(permit)).count() == 1);
    assert!(!modest.iter().any(is_evicted) && !is_evicted(&new));
    assert_eq!(table.count(), 10);
    drop(greedy);
    assert_eq!((table.count(), table.table().evicted_count), (3, 0));
    drop((modest, new));
    let inner = table.table();
    assert!(inner.of.is_empty() && inner.by_count.is_empty() && table.count() == 0);
}

#[test]
fn a_client_without_connections_is_always_accepted() {
    let table = ConnectionTable::new(100, 100);
    let mut permits: Vec<ConnectionPermit> = (0..100).map(|number| table.acquire(v4(number)).unwrap()).collect();
    // Each connection becomes the most idle one in turn. Successive searches examine all of them.
    for number in 100..500 {
        let permit = table.acquire(v4(number)).expect("a client without connections");
        assert!(!is_evicted(&permit));
        permits.retain(|permit| !is_evicted(permit));
        permits.push(permit);
        assert_eq!((permits.len(), table.count()), (100, 100));
    }
    assert!(table.acquire(v4(499)).is_none(), "each has one");
}

#[test]
fn two_clients_end_up_with_equal_shares_and_stop_evicting_each_other() {
    let table = ConnectionTable::new(20, 100);
    let greedy: Vec<ConnectionPermit> = (0..20).map(|_| table.acquire(v4(1)).unwrap()).collect();
    let other: Vec<ConnectionPermit> = std::iter::from_fn(|| table.acquire(v4(2))).take(100).collect();
    assert_eq!(other.len(), 10);
    assert!(table.acquire(v4(1)).is_none() && table.acquire(v4(2)).is_none());
    assert_eq!(greedy.iter().filter(|permit| is_evicted(permit)).count(), 10);
    assert!(!other.iter().any(is_evicted));
}

#[test]
fn evicted_connections_that_have_not_ended_are_bounded() {
    let table = ConnectionTable::new(2, 2);
    let kept: Vec<ConnectionPermit> = (0..2 * EVICTED_MAX).map_while(|number| table.acquire(v4(number))).collect();
    assert_eq!(kept.len(), EVICTED_MAX + 2);
}

#[test]
fn a_waiting_task_is_woken_when_it_is_evicted() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let table = ConnectionTable::new(1, 1);
    let permit = table.acquire(v4(1)).unwrap();
    runtime.block_on(async {
        let newcomer = async {
            tokio::task::yield_now().await;
            table.acquire(v4(2)).unwrap()
        };
        let waits = tokio::time::timeout(Duration::from_secs(10), async {
            permit.unless_evicted(pin!(std::future::pending::<()>())).await
        });
        let (heard, _newcomer) = tokio::join!(waits, newcomer);
        assert_eq!(heard, Ok(None));
    });
}

#[test]
fn permits_are_released_in_any_order() {
    let table = ConnectionTable::new(100, 100);
    let mut permits: Vec<ConnectionPermit> = (0..60).map(|number| table.acquire(v4(number % 3)).unwrap()).collect();
    let mut step = 7;
    while !permits.is_empty() {
        step = step * 31 % 1_009;
        drop(permits.swap_remove(step % permits.len()));
        let inner = table.table();
        let slot_count: usize = inner.of.values().map(|theirs| theirs.slots.len()).sum();
        assert_eq!((slot_count, table.count()), (permits.len(), permits.len()));
        for theirs in inner.of.values() {
            assert!(theirs.slots.iter().enumerate().all(|(index, slot)| slot.index() == index));
        }
    }
}

#[test]
fn new_limits_apply_to_new_connections_and_open_ones_stay() {
    let table = ConnectionTable::new(4, 4);
    let address = "192.0.2.1".parse().unwrap();
    let permits: Vec<_> = (0..3).map(|_| table.acquire(address).unwrap()).collect();
    table.set_limits(2, 2);
    assert!(table.acquire(address).is_none() && table.is_nearly_full());
    assert_eq!(table.count(), 3);
    table.set_limits(5, 4);
    assert!(table.acquire(address).is_some());
    drop(permits);
}
