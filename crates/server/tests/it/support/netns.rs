//! Network namespaces, used as separate machines with their own addresses. They need root and iproute2.

use super::tools::forbidden;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};

/// Maximum number of namespaces of one test process.
const NAMESPACES_MAX: u8 = 16;

/// A namespace with a link to the test's own. Both are removed when this is dropped.
pub(crate) struct Namespace {
    name: String,
    /// The interface of our end of the link.
    pub(crate) near: String,
    /// The interface of the other end.
    pub(crate) far: String,
    /// The address of our end.
    pub(crate) here: Ipv4Addr,
    /// The address of the other end.
    pub(crate) there: Ipv4Addr,
}

impl Namespace {
    /// Makes a namespace. `None`, with a message, if this machine does not allow it.
    pub(crate) fn make() -> Option<Self> {
        // Distinguishes the namespaces of this process.
        static MADE: AtomicU8 = AtomicU8::new(0);
        let which = MADE.fetch_add(1, Ordering::Relaxed);
        assert!(which < NAMESPACES_MAX);
        let id = std::process::id();
        let [name, near, far] = ["catamaran-", "cata", "catb"].map(|kind| format!("{kind}{which}{id}"));
        // A /30 of the benchmarking network (RFC 2544: 198.18.0.0/15), different for each process and test.
        let index = (id % 0x800) * u32::from(NAMESPACES_MAX) + u32::from(which);
        let base = u32::from(Ipv4Addr::new(198, 18, 0, 0)) + index * 4;
        let (here, there) = (Ipv4Addr::from(base + 1), Ipv4Addr::from(base + 2));
        let namespace = Self { name: name.clone(), near: near.clone(), far: far.clone(), here, there };
        let made = ip(&["netns", "add", &name])
            && ip(&["link", "add", &near, "type", "veth", "peer", "name", &far, "netns", &name])
            && ip(&["addr", "add", &format!("{here}/30"), "dev", &near])
            && ip(&["link", "set", &near, "up"])
            && ip(&["-n", &name, "addr", "add", &format!("{there}/30"), "dev", &far])
            && ip(&["-n", &name, "link", "set", &far, "up"]);
        if !made {
            // It needs root and iproute2.
            forbidden("making a network namespace");
            return None;
        }
        Some(namespace)
    }

    /// Gives both ends of the link an IPv6 address. Returns ours, and the other one.
    pub(crate) fn add_ipv6(&self) -> Option<(Ipv6Addr, Ipv6Addr)> {
        // A /64 of local addresses (RFC 4193), derived from the unique IPv4 address.
        let [_, _, high, low] = self.here.octets().map(u16::from);
        let [here, there] = [1, 2].map(|end| Ipv6Addr::new(0xFD63, 0x6174, 0x616D, high << 8 | low, 0, 0, 0, end));
        let (near, far) = (format!("{here}/64"), format!("{there}/64"));
        // Without duplicate address detection the addresses are usable at once. The link has no other hosts.
        let made = ip(&["addr", "add", &near, "dev", &self.near, "nodad"])
            && ip(&["-n", &self.name, "addr", "add", &far, "dev", &self.far, "nodad"]);
        if !made {
            forbidden("giving a link addresses of IPv6");
            return None;
        }
        Some((here, there))
    }

    /// Gives our end one more address of its network.
    pub(crate) fn add_near_address(&self, address: Ipv6Addr) {
        assert!(ip(&["addr", "add", &format!("{address}/64"), "dev", &self.near, "nodad"]), "{address}");
    }

    /// Gives the other end one more IPv6 address, from any network.
    pub(crate) fn add_far_address(&self, address: Ipv6Addr) {
        self.ip(&format!("addr add {address}/128 dev {} nodad", self.far));
        assert!(ip(&["route", "add", &format!("{address}/128"), "dev", &self.near]), "a route to {address}");
    }

    /// Makes an interface in the namespace that leads nowhere, and is up.
    pub(crate) fn add_interface(&self, name: &str) {
        let peer = format!("{name}-peer");
        self.ip(&format!("link add {name} type veth peer name {peer}"));
        self.ip(&format!("link set {name} up"));
        self.ip(&format!("link set {peer} up"));
    }

    /// Runs `ip` in the namespace.
    pub(crate) fn ip(&self, arguments: &str) {
        let words: Vec<&str> = ["-n", &self.name].into_iter().chain(arguments.split(' ')).collect();
        assert!(ip(&words), "ip {arguments}");
    }

    /// A program that will run in the namespace.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]).stdin(Stdio::null());
        command
    }

    /// Runs `dig` in the namespace for each line of the file. Returns its output.
    pub(crate) fn dig(&self, server: SocketAddr, arguments: &[&str], questions: &Path) -> String {
        let output = self
            .command("dig")
            .args([format!("@{}", server.ip()), "-p".to_owned(), server.port().to_string()])
            .args(["+tries=1", "+time=2"])
            .args(arguments)
            .arg("-f")
            .arg(questions)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Its end of the link goes with it, and so does the other end.
        let _gone = ip(&["netns", "del", &self.name]);
    }
}

fn ip(arguments: &[&str]) -> bool {
    let status = Command::new("ip").args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
