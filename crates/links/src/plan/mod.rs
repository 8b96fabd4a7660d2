//! What a net is to be: its groups of clients and what their links do.

mod file;
#[cfg(test)]
mod tests;

use crate::delay::{Rtt, Shape};
use crate::limits::{GROUPS_MAX, NET_NAME_BYTES_MAX, NETWORKS_MAX, SAMPLES_MAX, SPIN_MAX};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// The hub's IPv4 address.
pub const HUB_V4: Ipv4Addr = Ipv4Addr::new(10, 53, 0, 1);
/// The hub's IPv6 address.
pub const HUB_V6: Ipv6Addr = Ipv6Addr::new(0xFD53, 0x0CA7, 0, 0, 0, 0, 0, 1);

/// The network of the hub, which no group has even if it has all others.
pub const HUB_NETWORKS: [(IpAddr, u8); 2] =
    [(IpAddr::V4(Ipv4Addr::new(10, 53, 0, 0)), 16), (IpAddr::V6(Ipv6Addr::new(0xFD53, 0x0CA7, 0, 0, 0, 0, 0, 0)), 64)];
/// Every address that there is.
const EVERYTHING: [(IpAddr, u8); 2] = [(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0), (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0)];

/// What carries the packets of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mechanism {
    /// netem where the kernel has it and it does exactly what is asked, the relay otherwise.
    #[default]
    Auto,
    /// The kernel's `netem`.
    Netem,
    /// A thread of this process, between two TUN interfaces.
    Relay,
}

impl std::str::FromStr for Mechanism {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "netem" => Ok(Self::Netem),
            "relay" => Ok(Self::Relay),
            _ => Err(format!("{text} is not a mechanism; write auto, netem or relay")),
        }
    }
}

/// A net: a hub, and groups of clients that reach it.
#[derive(Clone, PartialEq, Debug)]
pub struct NetPlan {
    /// Its name, which the names of its namespaces begin with.
    pub name: String,
    /// Decides losses, and the round trip of each client.
    pub seed: u64,
    /// What carries packets.
    pub mechanism: Mechanism,
    /// How long before a packet is due the relay ceases to sleep.
    pub spin: Duration,
    /// Its groups.
    pub groups: Vec<GroupPlan>,
}

/// A group of clients behind one link.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupPlan {
    /// Its name.
    pub name: String,
    /// What its link does.
    pub shape: Shape,
    /// Networks whose addresses are its clients', besides those that each group has ([`NetPlan::networks_of`]).
    pub networks: Vec<(IpAddr, u8)>,
}

impl NetPlan {
    /// The namespace of the hub.
    #[must_use]
    pub fn hub(&self) -> String {
        format!("{}.hub", self.name)
    }

    /// The namespace of a group.
    #[must_use]
    pub fn namespace_of(&self, group: &GroupPlan) -> String {
        format!("{}.{}", self.name, group.name)
    }

    /// The seed of one group's link.
    #[must_use]
    pub fn seed_of(&self, index: usize) -> u64 {
        self.seed.wrapping_add((index as u64) << 32)
    }

    /// The networks whose addresses are the clients' of group `index`: its own, and those that the plan names; of the
    /// only group of a net, if none are named, all.
    #[must_use]
    pub fn networks_of(&self, index: usize) -> Vec<(IpAddr, u8)> {
        let named = &self.groups[index].networks;
        let has_all = self.groups.len() == 1 && named.is_empty();
        let others = if has_all { &EVERYTHING[..] } else { named };
        network_of(index).iter().chain(others).copied().collect()
    }

    /// Refuses what cannot be made.
    ///
    /// # Errors
    /// What is wrong, and with what.
    pub fn check(&self) -> Result<(), String> {
        check_name("the net", &self.name)?;
        if self.groups.is_empty() || self.groups.len() > GROUPS_MAX {
            return Err(format!("a net has 1 to {GROUPS_MAX} groups, this one has {}", self.groups.len()));
        }
        if self.spin > SPIN_MAX {
            return Err(format!("spin: the limit is {} us", SPIN_MAX.as_micros()));
        }
        let mut networks: Vec<(IpAddr, u8)> = Vec::new();
        for (index, group) in self.groups.iter().enumerate() {
            check_name("a group", &group.name)?;
            if group.name == "hub" || self.groups[..index].iter().any(|other| other.name == group.name) {
                return Err(format!("the name {} is used twice", group.name));
            }
            group.check().map_err(|error| format!("group {}: {error}", group.name))?;
            networks.extend(network_of(index));
            networks.extend(&group.networks);
        }
        networks.sort_unstable();
        match networks.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("the network {}/{} belongs to two groups", pair[0].0, pair[0].1)),
            None => Ok(()),
        }
    }
}

impl GroupPlan {
    fn check(&self) -> Result<(), String> {
        match &self.shape.rtt {
            Rtt::List(list) if list.is_empty() || list.len() > SAMPLES_MAX => {
                return Err(format!("rtt: 1 to {SAMPLES_MAX} round trips, not {}", list.len()));
            }
            Rtt::Lognormal { sigma, .. } if !(0.0..=5.0).contains(sigma) => {
                return Err("rtt: sigma of lognormal is 0 to 5".into());
            }
            Rtt::Pareto { shape, .. } if !(0.1..=100.0).contains(shape) => {
                return Err("rtt: shape of pareto is 0.1 to 100".into());
            }
            _ => {}
        }
        if !(1.0..=1e6).contains(&self.shape.loss.burst) {
            return Err("burst: 1 packet or more".into());
        }
        if self.networks.len() > NETWORKS_MAX {
            return Err(format!("the limit is {NETWORKS_MAX} networks"));
        }
        Ok(())
    }
}

/// The networks that group `index` has in any case.
#[must_use]
pub fn network_of(index: usize) -> [(IpAddr, u8); 2] {
    let index = index as u8;
    let six = Ipv6Addr::new(0xFD53, 0x0CA7, u16::from(index) + 1, 0, 0, 0, 0, 0);
    [(Ipv4Addr::new(10, 100 + index, 0, 0).into(), 16), (six.into(), 64)]
}

/// Address `number` of group `index`, in both families; 1 is the one that it sends from if nothing else is said.
#[must_use]
pub fn address_of(index: usize, number: u16) -> [IpAddr; 2] {
    let [high, low] = number.to_be_bytes();
    let index = index as u8;
    let six = Ipv6Addr::new(0xFD53, 0x0CA7, u16::from(index) + 1, 0, 0, 0, 0, number);
    [Ipv4Addr::new(10, 100 + index, high, low).into(), six.into()]
}

pub(crate) fn check_name(what: &str, name: &str) -> Result<(), String> {
    let fits = (1..=NET_NAME_BYTES_MAX).contains(&name.len());
    if fits && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') {
        return Ok(());
    }
    Err(format!("{name:?} is not a name for {what}; write 1 to {NET_NAME_BYTES_MAX} of a-z, 0-9 and -"))
}
