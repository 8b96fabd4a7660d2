//! Where servers and loads run: on loopback, or on machines of a net, behind links.

use super::cell::CellError;
use super::process::wait_until;
use crate::definition::{Action, Links};
use links::plan::{GroupPlan, Mechanism, NetPlan};
use links::{Cut, Net};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use testbed::free_address;

/// The group with the loads.
const LOADS: &str = "loads";
/// Time limit for a cut to have its effect.
const CUT_MAX: Duration = Duration::from_secs(2);

/// The hosts of a cell. The net, if there is one, is removed on drop.
pub(super) struct Hosts {
    net: Option<RefCell<Net>>,
    /// The indices of the machines that are cut off.
    cut: RefCell<BTreeSet<usize>>,
}

/// The host of a node.
#[derive(Clone, Debug)]
pub(super) struct Host {
    ip: IpAddr,
    /// The network namespace of its machine.
    pub(super) namespace: Option<String>,
    /// The index of its machine.
    pub(super) machine: Option<usize>,
}

impl Hosts {
    /// Makes the net of a cell.
    ///
    /// # Errors
    /// This machine does not support it, for example because this user has no permission.
    pub(super) fn new(links: Option<&Links>, values: &BTreeMap<String, String>) -> Result<Self, CellError> {
        let Some(links) = links else { return Ok(Self { net: None, cut: RefCell::default() }) };
        let shape = links.shape(values).map_err(CellError::Failed)?;
        let group = GroupPlan { name: LOADS.into(), shape, networks: Vec::new() };
        let plan = NetPlan {
            name: net_name(),
            seed: 1,
            // Also without delay, so that cells with different round trips are comparable.
            mechanism: Mechanism::Relay,
            spin: Duration::ZERO,
            groups: vec![group],
        };
        let net = Net::make(&plan).map_err(|error| {
            let text = format!("cannot create the links (this needs root and iproute2): {error}");
            match error.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound | io::ErrorKind::Unsupported => {
                    CellError::Unsupported(text)
                }
                _ => CellError::Failed(text),
            }
        })?;
        Ok(Self { net: Some(net.into()), cut: RefCell::default() })
    }

    /// The host of the next node.
    pub(super) fn next(&self) -> io::Result<Host> {
        let Some(net) = &self.net else {
            return Ok(Host { ip: Ipv4Addr::LOCALHOST.into(), namespace: None, machine: None });
        };
        let mut net = net.borrow_mut();
        let index = net.machines().len();
        let machine = net.add_machine(&format!("s{index}"))?;
        let (ip, namespace) = (machine.address(), machine.namespace().name().to_owned());
        Ok(Host { ip, namespace: Some(namespace), machine: Some(index) })
    }

    /// The network namespace of the loads.
    pub(super) fn of_loads(&self) -> Option<String> {
        self.net.as_ref().and_then(|net| Some(net.borrow().groups().first()?.name().to_owned()))
    }

    /// Whether the links still carry packets.
    pub(super) fn are_alive(&self) -> bool {
        self.net.as_ref().is_none_or(|net| net.borrow().is_alive())
    }

    /// Cuts off or heals machines, all of them before it looks for the effect. Returns whether the effect was observed.
    /// A machine that is not cut off cannot be healed.
    pub(super) fn act(&self, machines: &[usize], action: Action) -> bool {
        let Some(net) = &self.net else { return false };
        let (net, mut cut) = (net.borrow(), self.cut.borrow_mut());
        let wanted = match action {
            Action::Cut => Some(Cut::Both),
            Action::CutIn => Some(Cut::In),
            Action::CutOut => Some(Cut::Out),
            _ => None,
        };
        let mut are_set = true;
        for index in machines {
            let Some(machine) = net.machines().get(*index) else { return false };
            are_set &= match wanted {
                Some(wanted) => {
                    cut.insert(*index);
                    machine.cut(wanted).is_ok()
                }
                None => cut.remove(index) && machine.heal().is_ok(),
            };
        }
        let is_observed = |index: &usize| net.machines()[*index].observed_cut().is_ok_and(|found| found == wanted);
        are_set && machines.iter().all(|index| wait_until(CUT_MAX, || is_observed(index)))
    }
}

impl Host {
    /// An address for a service: with its usual port on a machine, with a free port on loopback.
    pub(super) fn address(&self, port: u16) -> io::Result<SocketAddr> {
        if self.machine.is_some() { Ok((self.ip, port).into()) } else { free_address() }
    }

    /// The same on the loopback of the host.
    pub(super) fn loopback(&self, port: u16) -> io::Result<SocketAddr> {
        if self.machine.is_some() { Ok((Ipv4Addr::LOCALHOST, port).into()) } else { free_address() }
    }
}

/// A name for the next net of this process. Names of nets are short, so its number has base 36.
fn net_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut number = u64::from(std::process::id()) << 8 | u64::from(NEXT.fetch_add(1, Ordering::Relaxed) & 0xFF);
    let mut name = String::from("x");
    for _ in 0..6 {
        name.extend(char::from_digit((number % 36) as u32, 36));
        number /= 36;
    }
    name
}
