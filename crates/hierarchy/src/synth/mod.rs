//! Generates a hierarchy: a root, top-level domains, and zones below them.
//!
//! The same plan gives the same zones. The servers of a zone have their own addresses and names in the zone, so each
//! delegation has glue. The root has the names and addresses of the real one.

use crate::limits::{SYNTH_ADDRESSES_MAX, SYNTH_DEPTH_MAX, SYNTH_SERVERS_MAX, ZONES_MAX};
use crate::roots::ROOT_SERVERS;
use crate::{Folder, ZoneEntry, file_name};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// The query file in the folder, in the format of dnsperf: one query for each zone without zones below it.
pub const QUERIES: &str = "queries.txt";

/// First server address of each family. They look like public addresses, because some resolvers insist on that.
const FIRST_SERVER: (u32, u128) = (0x1700_0000, 0x2600 << 112);
/// First host address of each family: from the ranges for benchmarks (RFC 2544) and documentation (RFC 3849).
const FIRST_HOST: (u32, u128) = (0xC612_0000, 0x2001_0DB8 << 96);
/// Number of IPv4 host addresses.
const HOST_COUNT: u32 = 1 << 17;

/// Families of the addresses of servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Families {
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
    /// One address of each family per server.
    #[default]
    Both,
}

/// The plan of a hierarchy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SynthPlan {
    /// Zones, including the root and the top-level domains.
    pub zone_count: usize,
    /// Levels, including the root and the top-level domains.
    pub depth: usize,
    /// Top-level domains. By default the square root of the number of zones, or all zones if there are two levels.
    pub tld_count: Option<usize>,
    /// Servers of each zone except the root.
    pub server_count: usize,
    /// Servers of the root, in order of their letters.
    pub root_server_count: usize,
    /// Families of the addresses of servers.
    pub families: Families,
    /// Decides the parent of each zone.
    pub seed: u64,
}

impl Default for SynthPlan {
    fn default() -> Self {
        Self {
            zone_count: 1_000,
            depth: 3,
            tld_count: None,
            server_count: 2,
            root_server_count: ROOT_SERVERS.len(),
            families: Families::Both,
            seed: 1,
        }
    }
}

/// The generated hierarchy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Synthesized {
    /// Number of zones.
    pub zone_count: usize,
    /// Top-level domains among them.
    pub tld_count: usize,
    /// Number of server addresses.
    pub address_count: usize,
    /// Number of queries.
    pub query_count: usize,
}

impl SynthPlan {
    /// Writes zones, index and queries into a folder.
    ///
    /// # Errors
    /// The plan cannot be made, or the folder cannot be written.
    pub fn write(&self, folder: &Path) -> io::Result<Synthesized> {
        let tld_count = self.check().map_err(|problem| io::Error::new(io::ErrorKind::InvalidInput, problem))?;
        let tree = Tree::new(self, tld_count);
        fs::create_dir_all(folder.join("zones"))?;
        let mut queries = BufWriter::new(File::create(folder.join(QUERIES))?);
        let mut synthesized = Synthesized { zone_count: self.zone_count, tld_count, address_count: 0, query_count: 0 };
        let mut entries = Vec::with_capacity(self.zone_count);
        for number in 0..self.zone_count {
            let name = tree.name(number);
            let file = file_name(&name, number);
            fs::write(folder.join(&file), self.zone_text(&tree, number))?;
            if number > 0 && tree.children[number].is_empty() {
                writeln!(queries, "www.{name} A")?;
                synthesized.query_count += 1;
            }
            let servers: Vec<_> = self.servers(number).into_iter().map(|(_, address)| address).collect();
            synthesized.address_count += servers.len();
            entries.push(ZoneEntry { name, file, servers });
        }
        queries.flush()?;
        Folder::new(entries).write(folder)?;
        Ok(synthesized)
    }

    /// Returns the number of top-level domains.
    fn check(&self) -> Result<usize, String> {
        let within = |what: &str, value: usize, least: usize, most: usize| {
            let fits = (least..=most).contains(&value);
            fits.then_some(()).ok_or(format!("{what}: {least} to {most}, not {value}"))
        };
        within("zones", self.zone_count, 2, ZONES_MAX)?;
        within("levels", self.depth, 2, SYNTH_DEPTH_MAX)?;
        within("servers of a zone", self.server_count, 1, SYNTH_SERVERS_MAX)?;
        within("servers of the root", self.root_server_count, 1, ROOT_SERVERS.len())?;
        if self.zone_count as u64 * self.server_count as u64 >= SYNTH_ADDRESSES_MAX {
            return Err(format!("zones times servers: below {SYNTH_ADDRESSES_MAX}"));
        }
        let below_root = self.zone_count - 1;
        let tld_count = match (self.depth, self.tld_count) {
            (2, _) => below_root,
            (_, Some(count)) => count,
            (_, None) => self.zone_count.isqrt().min(below_root),
        };
        within("top-level domains", tld_count, 1, below_root)?;
        Ok(tld_count)
    }

    /// The servers of a zone, one entry for each address.
    fn servers(&self, number: usize) -> Vec<(String, IpAddr)> {
        let count = if number == 0 { self.root_server_count } else { self.server_count };
        let mut servers = Vec::new();
        for index in 0..count {
            let (name, addresses) = match number {
                0 => root_server(index),
                _ => (format!("ns{}", index + 1), server_addresses(number * self.server_count + index)),
            };
            let is_wanted = |address: &IpAddr| match self.families {
                Families::V4 => address.is_ipv4(),
                Families::V6 => address.is_ipv6(),
                Families::Both => true,
            };
            servers.extend(addresses.into_iter().filter(is_wanted).map(|address| (name.clone(), address)));
        }
        servers
    }

    /// The zone file.
    fn zone_text(&self, tree: &Tree, number: usize) -> String {
        let mut text = format!("$ORIGIN {}\n$TTL 3600\n", tree.name(number));
        let primary = self.servers(number)[0].0.clone();
        line(&mut text, format_args!("@ SOA {primary} hostmaster 1 7200 900 1209600 300"));
        self.write_servers(&mut text, "@", number, "");
        if number > 0 {
            write_hosts(&mut text, number);
        }
        for &child in &tree.children[number] {
            let label = tree.label(child as usize);
            self.write_servers(&mut text, &label, child as usize, &format!(".{label}"));
        }
        text
    }

    /// The NS RRset of an owner, and the addresses of its servers. Their names end with `ending`.
    fn write_servers(&self, text: &mut String, owner: &str, number: usize, ending: &str) {
        let servers = self.servers(number);
        let mut before = "";
        for (name, _) in &servers {
            if name != before {
                line(text, format_args!("{owner} NS {name}{ending}"));
            }
            before = name;
        }
        for (name, address) in &servers {
            line(text, format_args!("{name}{ending} {} {address}", rtype(address)));
        }
    }
}

/// Appends a line.
fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing into a string cannot fail.
    let _written = writeln!(text, "{arguments}");
}

fn rtype(address: &IpAddr) -> &'static str {
    if address.is_ipv4() { "A" } else { "AAAA" }
}

/// The hosts of a zone.
fn write_hosts(text: &mut String, number: usize) {
    let four = Ipv4Addr::from(FIRST_HOST.0 + number as u32 % HOST_COUNT);
    let six = Ipv6Addr::from(FIRST_HOST.1 + number as u128);
    for owner in ["@", "www", "mail"] {
        line(text, format_args!("{owner} A {four}"));
        line(text, format_args!("{owner} AAAA {six}"));
    }
    line(text, format_args!("@ MX 10 mail"));
    line(text, format_args!("@ TXT \"zone {number}\""));
    line(text, format_args!("alias CNAME www"));
    line(text, format_args!("*.wild A {four}"));
}

/// The name of a server of the root, absolute, and its addresses.
fn root_server(index: usize) -> (String, Vec<IpAddr>) {
    let server = ROOT_SERVERS[index];
    let addresses = server.addresses.iter().filter_map(|text| text.parse().ok()).collect();
    (server.name(), addresses)
}

/// The addresses of a server, one of each family.
fn server_addresses(number: usize) -> Vec<IpAddr> {
    let four = Ipv4Addr::from(FIRST_SERVER.0 + number as u32);
    let six = Ipv6Addr::from(FIRST_SERVER.1 + number as u128);
    vec![four.into(), six.into()]
}

/// The tree of zones. Zone 0 is the root, followed by the top-level domains.
struct Tree {
    tld_count: usize,
    parents: Vec<u32>,
    children: Vec<Vec<u32>>,
}

impl Tree {
    fn new(plan: &SynthPlan, tld_count: usize) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(plan.seed);
        let mut parents = vec![0; plan.zone_count];
        let mut children = vec![Vec::new(); plan.zone_count];
        // The zones of each level below the root.
        let mut levels: Vec<Vec<u32>> = vec![Vec::new(); plan.depth];
        for number in 1..plan.zone_count {
            let mut level = 1;
            if let Some(index) = number.checked_sub(tld_count + 1) {
                // Levels take turns, so that each parent exists before its children.
                level = 2 + index % (plan.depth - 2);
                let above = &levels[level - 1];
                parents[number] = above[rng.random_range(0..above.len())];
            }
            levels[level].push(number as u32);
            children[parents[number] as usize].push(number as u32);
        }
        Self { tld_count, parents, children }
    }

    fn label(&self, number: usize) -> String {
        if number <= self.tld_count { format!("t{number}") } else { format!("z{number}") }
    }

    fn name(&self, number: usize) -> String {
        if number == 0 {
            return ".".to_owned();
        }
        let (mut name, mut at) = (String::new(), number);
        while at > 0 {
            let _written = write!(name, "{}.", self.label(at));
            at = self.parents[at] as usize;
        }
        name
    }
}

#[cfg(test)]
mod tests;
