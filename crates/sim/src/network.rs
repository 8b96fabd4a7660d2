//! The network between members. A seed decides which frames are delayed, lost, repeated, reordered and cut.
//!
//! A real channel is a TLS connection: frames arrive in order or not at all, and never twice.
//! [`NetworkConfig::in_order`] models that in two seeds of three. In the third, frames of one channel overtake each
//! other and are repeated, up to seconds later, because members must not depend on order. A cut loses frames, or holds
//! them back until it heals, as TCP does.

use crate::rng::Rng;
use std::collections::{BTreeMap, BTreeSet};

/// The raft id of a member.
pub type MemberId = u64;

/// The quality of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkConfig {
    /// Shortest delay, in microseconds.
    pub delay_min_us: u64,
    /// Longest normal delay.
    pub delay_max_us: u64,
    /// Share of slow frames, in parts of a million.
    pub slow_ppm: u64,
    /// Longest delay of a slow frame.
    pub slow_max_us: u64,
    /// Share of lost frames, in parts of a million.
    pub loss_ppm: u64,
    /// Share of repeated frames, in parts of a million.
    pub repeat_ppm: u64,
    /// Longest additional delay of the repeat, in microseconds.
    pub repeat_later_max_us: u64,
    /// Whether frames of one channel never overtake each other.
    pub in_order: bool,
    /// Whether a cut holds frames back until it heals. Otherwise it loses them.
    pub buffers_during_cut: bool,
}

/// Maximum number of frames that cuts hold back. Further frames are lost.
const BUFFERED_MAX: usize = 20_000;

impl Default for NetworkConfig {
    /// A good network: 50 to 300 microseconds, in order, nothing lost.
    fn default() -> Self {
        Self {
            delay_min_us: 50,
            delay_max_us: 300,
            slow_ppm: 0,
            slow_max_us: 0,
            loss_ppm: 0,
            repeat_ppm: 0,
            repeat_later_max_us: 0,
            in_order: true,
            buffers_during_cut: false,
        }
    }
}

impl NetworkConfig {
    /// A network with the random quality of a seed. One in three reorders and repeats frames within a channel.
    pub fn random(rng: &mut Rng) -> Self {
        let is_lossy = rng.happens(500_000);
        let in_order = rng.below(3) > 0;
        Self {
            delay_min_us: rng.between(20, 200),
            delay_max_us: rng.between(300, 3_000),
            slow_ppm: rng.below(20_000),
            slow_max_us: rng.between(3_000, 80_000),
            loss_ppm: if is_lossy { rng.below(50_000) } else { 0 },
            repeat_ppm: if in_order { 0 } else { rng.between(1_000, 30_000) },
            repeat_later_max_us: rng.between(1_000, 2_000_000),
            in_order,
            buffers_during_cut: rng.happens(500_000),
        }
    }
}

/// A frame on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery<L> {
    /// Time of arrival in microseconds, unless [`Network::arrives`] decides otherwise then.
    pub at_us: u64,
    /// The sender.
    pub from: MemberId,
    /// The receiver.
    pub to: MemberId,
    /// The frame.
    pub frame: Vec<u8>,
    /// The channel.
    pub channel: L,
    /// Number of the connection.
    connection: u64,
    /// Position in the order of sending.
    number: u64,
}

/// Counts of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkCount {
    /// Frames given to the network.
    pub sent: u64,
    /// Frames lost by chance.
    pub lost: u64,
    /// Frames stopped by a cut, on sending or on arrival.
    pub cut: u64,
    /// Frames of connections that ended while they were on their way.
    pub broken: u64,
    /// Frames that were repeated.
    pub repeated: u64,
    /// Frames that arrived after a later one of the same channel, including repeats.
    pub reordered: u64,
    /// Frames that arrived.
    pub arrived: u64,
}

/// The network, with channels of kind `L` between each two members.
#[derive(Debug)]
pub struct Network<L> {
    config: NetworkConfig,
    rng: Rng,
    /// Directions without any connection.
    cut: BTreeSet<(MemberId, MemberId)>,
    /// By pair, the lower id first: number of times that their connection was restarted.
    connections: BTreeMap<(MemberId, MemberId), u64>,
    /// By direction and channel: arrival time of the last frame.
    last_us: BTreeMap<(MemberId, MemberId, L), u64>,
    /// By direction and channel: the latest frame that arrived.
    last_number: BTreeMap<(MemberId, MemberId, L), u64>,
    /// Frames held back by cuts.
    buffered: Vec<Delivery<L>>,
    count: NetworkCount,
}

impl<L: Copy + Ord> Network<L> {
    /// A network without cuts.
    pub fn new(config: NetworkConfig, rng: Rng) -> Self {
        Self {
            config,
            rng,
            cut: BTreeSet::new(),
            connections: BTreeMap::new(),
            last_us: BTreeMap::new(),
            last_number: BTreeMap::new(),
            buffered: Vec::new(),
            count: NetworkCount::default(),
        }
    }

    /// Changes the quality from now on.
    pub fn configure(&mut self, config: NetworkConfig) {
        self.config = config;
    }

    /// Counts of frames.
    pub fn count(&self) -> NetworkCount {
        self.count
    }

    /// Sends a frame. Returns zero, one or two deliveries.
    pub fn send(&mut self, now_us: u64, from: MemberId, to: MemberId, channel: L, frame: Vec<u8>) -> Vec<Delivery<L>> {
        self.count.sent += 1;
        let (connection, number) = (self.connection(from, to), self.count.sent);
        if self.is_cut(from, to) {
            self.meets_cut(Delivery { at_us: now_us, from, to, frame, channel, connection, number });
            return Vec::new();
        }
        if self.rng.happens(self.config.loss_ppm) {
            self.count.lost += 1;
            return Vec::new();
        }
        let copies = if self.rng.happens(self.config.repeat_ppm) { 2 } else { 1 };
        self.count.repeated += copies - 1;
        let mut deliveries = Vec::new();
        for copy in 0..copies {
            let later_us = if copy == 0 { 0 } else { self.rng.below(self.config.repeat_later_max_us + 1) };
            let at_us = self.arrival_us(now_us + later_us, from, to, channel);
            deliveries.push(Delivery { at_us, from, to, frame: frame.clone(), channel, connection, number });
        }
        deliveries
    }

    fn arrival_us(&mut self, now_us: u64, from: MemberId, to: MemberId, channel: L) -> u64 {
        let mut at_us = now_us.saturating_add(self.delay_us());
        if self.config.in_order {
            let last = self.last_us.entry((from, to, channel)).or_default();
            at_us = at_us.max(*last);
            *last = at_us;
        }
        at_us
    }

    fn meets_cut(&mut self, delivery: Delivery<L>) {
        self.count.cut += 1;
        if self.config.buffers_during_cut && self.buffered.len() < BUFFERED_MAX {
            self.buffered.push(delivery);
        }
    }

    /// Whether a delivery that is now due arrives.
    pub fn arrives(&mut self, delivery: &Delivery<L>) -> bool {
        let Delivery { from, to, connection, channel, number, .. } = *delivery;
        if self.is_cut(from, to) {
            self.meets_cut(delivery.clone());
            return false;
        }
        if self.connection(from, to) != connection {
            self.count.broken += 1;
            return false;
        }
        self.count.arrived += 1;
        let last = self.last_number.entry((from, to, channel)).or_default();
        self.count.reordered += u64::from(number < *last);
        *last = number.max(*last);
        true
    }

    /// Cuts one direction between two members. The other direction is not affected.
    pub fn cut_one_way(&mut self, from: MemberId, to: MemberId) {
        self.cut.insert((from, to));
    }

    /// Cuts all connections between the two sides.
    pub fn cut_between(&mut self, one: &[MemberId], other: &[MemberId]) {
        for a in one {
            for b in other {
                self.cut_one_way(*a, *b);
                self.cut_one_way(*b, *a);
            }
        }
    }

    /// Cuts the network at random: two sides, one isolated member, one direction of one pair, or one direction of all
    /// connections of a member.
    pub fn cut_drawn(&mut self, members: &[MemberId]) {
        let mut order = members.to_vec();
        self.rng.shuffle(&mut order);
        let [first, rest @ ..] = &order[..] else { return };
        match self.rng.below(5) {
            0 => {
                let (one, other) = order.split_at(order.len() / 2);
                self.cut_between(one, other);
            }
            1 => self.cut_between(&[*first], rest),
            2 => rest.first().into_iter().for_each(|other| self.cut_one_way(*first, *other)),
            3 => rest.iter().for_each(|other| self.cut_one_way(*first, *other)),
            _ => rest.iter().for_each(|other| self.cut_one_way(*other, *first)),
        }
    }

    /// Ends all cuts, and returns the frames that were held back, in the order of sending.
    pub fn heal(&mut self, now_us: u64) -> Vec<Delivery<L>> {
        self.cut.clear();
        let mut buffered = std::mem::take(&mut self.buffered);
        buffered.sort_by_key(|delivery| delivery.number);
        for delivery in &mut buffered {
            delivery.at_us = self.arrival_us(now_us, delivery.from, delivery.to, delivery.channel);
        }
        buffered
    }

    /// Whether this direction is cut.
    pub fn is_cut(&self, from: MemberId, to: MemberId) -> bool {
        self.cut.contains(&(from, to))
    }

    /// Restarts the connections between two members. Frames on their way are lost.
    pub fn reset(&mut self, a: MemberId, b: MemberId) {
        *self.connections.entry(pair(a, b)).or_default() += 1;
        self.last_us.retain(|(from, to, _), _| pair(*from, *to) != pair(a, b));
    }

    /// Restarts all connections of a member because its process died.
    pub fn reset_all(&mut self, member: MemberId, others: &[MemberId]) {
        others.iter().filter(|other| **other != member).for_each(|other| self.reset(member, *other));
    }

    fn connection(&self, a: MemberId, b: MemberId) -> u64 {
        self.connections.get(&pair(a, b)).copied().unwrap_or(0)
    }

    fn delay_us(&mut self) -> u64 {
        let NetworkConfig { delay_min_us, delay_max_us, slow_ppm, slow_max_us, .. } = self.config;
        let ordinary = self.rng.between(delay_min_us, delay_max_us.max(delay_min_us));
        if self.rng.happens(slow_ppm) { self.rng.between(ordinary, slow_max_us.max(ordinary)) } else { ordinary }
    }
}

fn pair(a: MemberId, b: MemberId) -> (MemberId, MemberId) {
    (a.min(b), a.max(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Events;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum Channel {
        Heartbeat,
        Normal,
        Bulk,
    }

    /// Sends numbered frames, one per microsecond, and returns those that arrive, in order of arrival.
    fn run(
        config: NetworkConfig,
        seed: u64,
        count: u64,
        mut each: impl FnMut(&mut Network<Channel>, u64),
    ) -> (Vec<u64>, NetworkCount) {
        let mut network = Network::new(config, Rng::new(seed));
        let mut events = Events::default();
        for number in 0..count {
            each(&mut network, number);
            for delivery in network.send(number, 1, 2, Channel::Normal, number.to_be_bytes().to_vec()) {
                events.at(delivery.at_us, delivery);
            }
        }
        let mut arrived = Vec::new();
        while let Some(delivery) = events.next_event() {
            if network.arrives(&delivery) {
                arrived.push(u64::from_be_bytes(delivery.frame.try_into().unwrap()));
            }
        }
        (arrived, network.count())
    }

    #[test]
    fn a_good_network_brings_everything_once_and_in_order() {
        let (arrived, count) = run(NetworkConfig::default(), 1, 1000, |_, _| {});
        assert_eq!(arrived, (0..1000).collect::<Vec<_>>());
        assert_eq!(count, NetworkCount { sent: 1000, arrived: 1000, ..NetworkCount::default() });
    }

    #[test]
    fn a_bad_network_loses_repeats_and_reorders_the_same_in_every_run() {
        let bad = NetworkConfig {
            loss_ppm: 100_000,
            repeat_ppm: 50_000,
            repeat_later_max_us: 100,
            slow_ppm: 10_000,
            slow_max_us: 50_000,
            in_order: false,
            ..NetworkConfig::default()
        };
        let (arrived, count) = run(bad.clone(), 1, 10_000, |_, _| {});
        assert_eq!((arrived.clone(), count), run(bad.clone(), 1, 10_000, |_, _| {}));
        assert_ne!(arrived, run(bad, 2, 10_000, |_, _| {}).0);
        assert!((900..1100).contains(&count.lost), "{count:?}");
        assert!((350..550).contains(&count.repeated), "{count:?}");
        assert_eq!(count.arrived, count.sent - count.lost + count.repeated);
        let (mut late, mut last) = (0, 0);
        for number in arrived {
            late += u64::from(number < last);
            last = last.max(number);
        }
        assert!(late > 1000 && late == count.reordered, "{late}: {count:?}");
    }

    #[test]
    fn one_network_in_three_reorders_and_repeats() {
        let drawn = |seed| NetworkConfig::random(&mut Rng::new(seed));
        let (orderly, unruly): (Vec<_>, Vec<_>) = (0..300).map(drawn).partition(|config| config.in_order);
        assert!((70..130).contains(&unruly.len()), "{}", unruly.len());
        assert!(unruly.iter().all(|config| config.repeat_ppm > 0));
        assert!(orderly.iter().all(|config| config.repeat_ppm == 0));
    }

    #[test]
    fn a_cut_goes_one_way_and_stops_what_is_on_its_way() {
        let (arrived, count) = run(NetworkConfig::default(), 1, 1000, |network, number| match number {
            500 => network.cut_one_way(2, 1),
            800 => network.cut_one_way(1, 2),
            900 => assert_eq!(network.heal(900), []),
            _ => {}
        });
        assert_eq!((count.cut, arrived.len()), (100, 900));
        let mut network = Network::new(NetworkConfig::default(), Rng::new(1));
        let deliveries = network.send(0, 1, 2, Channel::Bulk, vec![]);
        network.cut_between(&[1], &[2, 3]);
        assert!(!network.arrives(&deliveries[0]) && network.is_cut(3, 1) && !network.is_cut(2, 3));
        for seed in 0..50 {
            let mut network = Network::<Channel>::new(NetworkConfig::default(), Rng::new(seed));
            network.cut_drawn(&[1, 2, 3]);
            assert!(!network.cut.is_empty());
        }
    }

    #[test]
    fn buffering_cut_delivers_in_order_afterwards() {
        let buffers_during_cut = NetworkConfig { buffers_during_cut: true, ..NetworkConfig::default() };
        let mut network = Network::new(buffers_during_cut, Rng::new(1));
        let send = |network: &mut Network<Channel>, number: u8| network.send(0, 1, 2, Channel::Normal, vec![number]);
        let on_its_way = send(&mut network, 1);
        network.cut_one_way(1, 2);
        assert_eq!(send(&mut network, 2), []);
        assert!(!network.arrives(&on_its_way[0]));
        let buffered = network.heal(1_000);
        assert_eq!(buffered.iter().map(|delivery| delivery.frame[0]).collect::<Vec<_>>(), [1, 2]);
        assert!(buffered[0].at_us > 1_000 && buffered[0].at_us <= buffered[1].at_us);
        network.reset(1, 2);
        assert!(!network.arrives(&buffered[0]), "a connection that ended gives nothing back");
    }

    #[test]
    fn frames_in_flight_are_lost_with_their_connection() {
        let (arrived, count) = run(NetworkConfig::default(), 1, 1000, |network, number| {
            if number == 500 {
                network.reset_all(2, &[1, 2, 3]);
            }
        });
        assert_eq!((count.broken, arrived), (500, (500..1000).collect()));
    }

    #[test]
    fn channels_do_not_wait_for_each_other() {
        let slow = NetworkConfig { slow_ppm: 500_000, slow_max_us: 1_000_000, ..NetworkConfig::default() };
        let mut network = Network::new(slow, Rng::new(5));
        let mut last = |channel| (0..20).map(|_| network.send(0, 1, 2, channel, vec![])[0].at_us).collect::<Vec<_>>();
        let (bulk, heartbeat) = (last(Channel::Bulk), last(Channel::Heartbeat));
        assert!(bulk.is_sorted() && heartbeat.is_sorted());
        assert!(heartbeat[0] < *bulk.last().unwrap());
    }
}
