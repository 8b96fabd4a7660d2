//! Who gets in when all places are taken, and who makes room.

use super::*;
use std::pin::pin;
use std::time::Duration;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn v4(number: usize) -> IpAddr {
    Ipv4Addr::from(0xC000_0200 + number as u32).into()
}

fn is_evicted(place: &Place) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(place.unless_evicted(pin!(std::future::ready(())))).is_none()
}

#[test]
fn both_limits_hold_and_places_come_back() {
    let clients = Clients::new(3, 2);
    let first = clients.enter(ip("2001:db8::1")).unwrap();
    let _second = clients.enter(ip("2001:db8:0:ff::2")).unwrap();
    assert!(clients.enter(ip("2001:db8:0:12::3")).is_none(), "the same /56");
    assert!(!clients.is_crowded(), "two of three");
    let _third = clients.enter(ip("192.0.2.1")).unwrap();
    assert!(clients.is_crowded());
    assert!(clients.enter(ip("192.0.2.1")).is_none(), "nobody has more than it would have");
    drop(first);
    assert!(clients.enter(ip("192.0.2.2")).is_some());
    let table = clients.table();
    assert_eq!((table.of.len(), table.by_count.len(), clients.count()), (2, 2, 2));
}

#[test]
fn the_idlest_connection_of_the_client_with_the_most_makes_room() {
    let clients = Clients::new(10, 100);
    let greedy: Vec<Place> = (0..8).map(|_| clients.enter(v4(1)).unwrap()).collect();
    let modest: Vec<Place> = (0..2).map(|_| clients.enter(v4(2)).unwrap()).collect();
    let later = Instant::now() + Duration::from_secs(1);
    greedy.iter().enumerate().filter(|(index, _)| *index != 5).for_each(|(_, place)| place.seat.active(later));
    let new = clients.enter(v4(3)).unwrap();
    assert!(is_evicted(&greedy[5]) && greedy.iter().filter(|place| is_evicted(place)).count() == 1);
    assert!(!modest.iter().any(is_evicted) && !is_evicted(&new));
    assert_eq!(clients.count(), 10);
    drop(greedy);
    assert_eq!((clients.count(), clients.table().evicted_count), (3, 0));
    drop((modest, new));
    let table = clients.table();
    assert!(table.of.is_empty() && table.by_count.is_empty() && clients.count() == 0);
}

#[test]
fn whoever_has_none_gets_in_however_many_clients_there_are() {
    let clients = Clients::new(100, 100);
    let mut places: Vec<Place> = (0..100).map(|number| clients.enter(v4(number)).unwrap()).collect();
    // Each in turn is the idlest; the sample of a search goes round all of them.
    for number in 100..500 {
        let place = clients.enter(v4(number)).expect("one that has none");
        assert!(!is_evicted(&place));
        places.retain(|place| !is_evicted(place));
        places.push(place);
        assert_eq!((places.len(), clients.count()), (100, 100));
    }
    assert!(clients.enter(v4(499)).is_none(), "each has one");
}

#[test]
fn two_clients_end_up_with_equal_shares_and_do_not_take_turns() {
    let clients = Clients::new(20, 100);
    let greedy: Vec<Place> = (0..20).map(|_| clients.enter(v4(1)).unwrap()).collect();
    let other: Vec<Place> = std::iter::from_fn(|| clients.enter(v4(2))).take(100).collect();
    assert_eq!(other.len(), 10);
    assert!(clients.enter(v4(1)).is_none() && clients.enter(v4(2)).is_none());
    assert_eq!(greedy.iter().filter(|place| is_evicted(place)).count(), 10);
    assert!(!other.iter().any(is_evicted));
}

#[test]
fn what_was_evicted_and_has_not_ended_is_bounded() {
    let clients = Clients::new(2, 2);
    let kept: Vec<Place> = (0..2 * EVICTED_MAX).map_while(|number| clients.enter(v4(number))).collect();
    assert_eq!(kept.len(), EVICTED_MAX + 2);
}

#[test]
fn a_task_that_waits_hears_that_it_is_evicted() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let clients = Clients::new(1, 1);
    let place = clients.enter(v4(1)).unwrap();
    runtime.block_on(async {
        let newcomer = async {
            tokio::task::yield_now().await;
            clients.enter(v4(2)).unwrap()
        };
        let waits = tokio::time::timeout(Duration::from_secs(10), async {
            place.unless_evicted(pin!(std::future::pending::<()>())).await
        });
        let (heard, _newcomer) = tokio::join!(waits, newcomer);
        assert_eq!(heard, Ok(None));
    });
}

#[test]
fn places_end_in_any_order() {
    let clients = Clients::new(100, 100);
    let mut places: Vec<Place> = (0..60).map(|number| clients.enter(v4(number % 3)).unwrap()).collect();
    let mut step = 7;
    while !places.is_empty() {
        step = step * 31 % 1_009;
        drop(places.swap_remove(step % places.len()));
        let table = clients.table();
        let held: usize = table.of.values().map(|theirs| theirs.seats.len()).sum();
        assert_eq!((held, clients.count()), (places.len(), places.len()));
        for theirs in table.of.values() {
            assert!(theirs.seats.iter().enumerate().all(|(index, seat)| seat.index() == index));
        }
    }
}

#[test]
fn other_limits_hold_for_new_connections_and_open_ones_stay() {
    let clients = Clients::new(4, 4);
    let address = "192.0.2.1".parse().unwrap();
    let places: Vec<_> = (0..3).map(|_| clients.enter(address).unwrap()).collect();
    clients.set_limits(2, 2);
    assert!(clients.enter(address).is_none() && clients.is_crowded());
    assert_eq!(clients.count(), 3);
    clients.set_limits(5, 4);
    assert!(clients.enter(address).is_some());
    drop(places);
}
