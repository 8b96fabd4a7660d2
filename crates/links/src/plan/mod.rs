//! The plan of a net: its groups and the shapes of their links.

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

/// Name of the hub in a net.
const HUB_NAME: &str = "hub";

/// The networks of the hub. No group has them, not even a group with all other addresses.
pub const HUB_NETWORKS: [(IpAddr, u8); 2] =
    [(IpAddr::V4(Ipv4Addr::new(10, 53, 0, 0)), 16), (IpAddr::V6(Ipv6Addr::new(0xFD53, 0x0CA7, 0, 0, 0, 0, 0, 0)), 64)];
/// All addresses.
const EVERYTHING: [(IpAddr, u8); 2] = [(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0), (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0)];

/// The mechanism that carries the packets of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mechanism {
    /// netem if the kernel has it and it does exactly what is requested, otherwise the relay.
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

/// A net: a hub, and groups of clients connected to it. Without groups, it is for machines only.
#[derive(Clone, PartialEq, Debug)]
pub struct NetPlan {
    /// Its name. The names of its namespaces begin with it.
    pub name: String,
    /// Seed of losses and round trips.
    pub seed: u64,
    /// The mechanism of the links.
    pub mechanism: Mechanism,
    /// The relay stops sleeping this long before a packet is due.
    pub spin: Duration,
    /// Its groups.
    pub groups: Vec<GroupPlan>,
}

/// A group of clients behind one link.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupPlan {
    /// Its name.
    pub name: String,
    /// The shape of its link.
    pub shape: Shape,
    /// Networks of its clients, besides those of [`NetPlan::networks_of`].
    pub networks: Vec<(IpAddr, u8)>,
}

impl NetPlan {
    /// Namespace of the hub.
    #[must_use]
    pub fn hub(&self) -> String {
        format!("{}.{HUB_NAME}", self.name)
    }

    /// Namespace of a group.
    #[must_use]
    pub fn namespace_of(&self, group: &GroupPlan) -> String {
        format!("{}.{}", self.name, group.name)
    }

    /// Seed of one group's link.
    #[must_use]
    pub fn seed_of(&self, index: usize) -> u64 {
        self.seed.wrapping_add((index as u64) << 32)
    }

    /// The networks of group `index`: its default networks and those in the plan. The only group of a net has all
    /// addresses if the plan names none.
    #[must_use]
    pub fn networks_of(&self, index: usize) -> Vec<(IpAddr, u8)> {
        let networks = &self.groups[index].networks;
        let has_all = self.groups.len() == 1 && networks.is_empty();
        let others = if has_all { &EVERYTHING[..] } else { networks };
        network_of(index).iter().chain(others).copied().collect()
    }

    /// Checks the plan.
    ///
    /// # Errors
    ///
    /// The plan cannot be made. The error names the part and the reason.
    pub fn check(&self) -> Result<(), String> {
        check_name("the net", &self.name)?;
        if self.groups.len() > GROUPS_MAX {
            return Err(format!("a net has at most {GROUPS_MAX} groups, this one has {}", self.groups.len()));
        }
        if self.spin > SPIN_MAX {
            return Err(format!("spin: the limit is {} us", SPIN_MAX.as_micros()));
        }
        let mut networks: Vec<(IpAddr, u8)> = Vec::new();
        for (index, group) in self.groups.iter().enumerate() {
            check_name("a group", &group.name)?;
            if group.name == HUB_NAME || self.groups[..index].iter().any(|other| other.name == group.name) {
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

    /// Checks the name of a machine that is added to the net.
    pub(crate) fn check_machine(&self, name: &str) -> Result<(), String> {
        check_name("a machine", name)?;
        match name == HUB_NAME || self.groups.iter().any(|group| group.name == name) {
            true => Err(format!("the name {name} is used twice")),
            false => Ok(()),
        }
    }
}

impl GroupPlan {
    /// Checks the shape and the networks of the group.
    ///
    /// # Errors
    ///
    /// A value is out of range.
    pub fn check(&self) -> Result<(), String> {
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

/// Default networks of group `index`.
#[must_use]
pub fn network_of(index: usize) -> [(IpAddr, u8); 2] {
    let index = index as u8;
    let six = Ipv6Addr::new(0xFD53, 0x0CA7, u16::from(index) + 1, 0, 0, 0, 0, 0);
    [(Ipv4Addr::new(10, 100 + index, 0, 0).into(), 16), (six.into(), 64)]
}

/// Address `number` of group `index` in both families. Programs send from address 1 by default.
#[must_use]
pub fn address_of(index: usize, number: u16) -> [IpAddr; 2] {
    let [high, low] = number.to_be_bytes();
    let index = index as u8;
    let six = Ipv6Addr::new(0xFD53, 0x0CA7, u16::from(index) + 1, 0, 0, 0, 0, number);
    [Ipv4Addr::new(10, 100 + index, high, low).into(), six.into()]
}

pub(crate) fn check_name(kind: &str, name: &str) -> Result<(), String> {
    let fits = (1..=NET_NAME_BYTES_MAX).contains(&name.len());
    if fits && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') {
        return Ok(());
    }
    Err(format!("{name:?} is not a name for {kind}; write 1 to {NET_NAME_BYTES_MAX} of a-z, 0-9 and -"))
}
