//! A hierarchy that nobody has: a root, top-level domains, and zones below them, as many as wanted.
//!
//! The same plan makes the same zones. Each zone has servers of its own, at addresses that no other zone has; they are
//! named in the zone, so each delegation has glue. The root has the names and addresses of the real one.

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

/// The file of queries in the folder: one for each zone at the end of a branch, in the format of dnsperf.
pub const QUERIES: &str = "queries.txt";

/// The first address of servers of each family: they look like any of the Internet, which some resolvers insist on.
const FIRST_SERVER: (u32, u128) = (0x1700_0000, 0x2600 << 112);
/// Addresses of what zones hold: those for benchmarks (RFC 2544), and for documentation (RFC 3849).
const FIRST_HOST: (u32, u128) = (0xC612_0000, 0x2001_0DB8 << 96);
/// How many of the former there are.
const HOST_COUNT: u32 = 1 << 17;

/// Families of the addresses of servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Families {
    /// IPv4 alone.
    V4,
    /// IPv6 alone.
    V6,
    /// An address of each for each server.
    #[default]
    Both,
}

/// What is to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SynthPlan {
    /// Zones, the root and top-level domains counted.
    pub zone_count: usize,
    /// Levels, the root and top-level domains counted.
    pub depth: usize,
    /// Top-level domains; without it, the square root of the zones, and all of them where there are two levels.
    pub tld_count: Option<usize>,
    /// Servers of each zone but the root.
    pub server_count: usize,
    /// Servers of the root, by their letters.
    pub root_server_count: usize,
    /// Families of the addresses of servers.
    pub families: Families,
    /// Decides which zone is below which.
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

/// What was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Synthesized {
    /// Zones.
    pub zone_count: usize,
    /// Of these: top-level domains.
    pub tld_count: usize,
    /// Addresses of their servers.
    pub address_count: usize,
    /// Lines of the file of queries.
    pub query_count: usize,
}

impl SynthPlan {
    /// Writes zones, index and queries into a folder.
    ///
    /// # Errors
    /// The plan cannot be made, or the folder cannot be written.
    pub fn write(&self, folder: &Path) -> io::Result<Synthesized> {
        let tld_count = self.check().map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        let tree = Tree::new(self, tld_count);
        fs::create_dir_all(folder.join("zones"))?;
        let mut queries = BufWriter::new(File::create(folder.join(QUERIES))?);
        let mut made = Synthesized { zone_count: self.zone_count, tld_count, address_count: 0, query_count: 0 };
        let mut entries = Vec::with_capacity(self.zone_count);
        for number in 0..self.zone_count {
            let name = tree.name(number);
            let file = file_name(&name, number);
            fs::write(folder.join(&file), self.zone_text(&tree, number))?;
            if number > 0 && tree.children[number].is_empty() {
                writeln!(queries, "www.{name} A")?;
                made.query_count += 1;
            }
            let servers: Vec<_> = self.servers(number).into_iter().map(|(_, address)| address).collect();
            made.address_count += servers.len();
            entries.push(ZoneEntry { name, file, servers });
        }
        queries.flush()?;
        Folder::new(entries).write(folder)?;
        Ok(made)
    }

    /// Gives how many top-level domains there will be.
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

    /// The servers of a zone: names, each as often as it has addresses.
    fn servers(&self, number: usize) -> Vec<(String, IpAddr)> {
        let count = if number == 0 { self.root_server_count } else { self.server_count };
        let mut servers = Vec::new();
        for place in 0..count {
            let (name, addresses) = match number {
                0 => root_server(place),
                _ => (format!("ns{}", place + 1), server_addresses(number * self.server_count + place)),
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

    /// The NS RRset of an owner and the addresses of its servers, whose names end with `ending` in this zone.
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
fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    // A string takes all that is written.
    let _written = writeln!(text, "{words}");
}

fn rtype(address: &IpAddr) -> &'static str {
    if address.is_ipv4() { "A" } else { "AAAA" }
}

/// What a zone holds besides its servers and delegations.
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
fn root_server(place: usize) -> (String, Vec<IpAddr>) {
    let server = ROOT_SERVERS[place];
    let addresses = server.addresses.iter().filter_map(|text| text.parse().ok()).collect();
    (server.name(), addresses)
}

/// The addresses of a server by its number, one of each family.
fn server_addresses(number: usize) -> Vec<IpAddr> {
    let four = Ipv4Addr::from(FIRST_SERVER.0 + number as u32);
    let six = Ipv6Addr::from(FIRST_SERVER.1 + number as u128);
    vec![four.into(), six.into()]
}

/// Which zone is below which: zone 0 is the root, top-level domains come next.
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
            if let Some(place) = number.checked_sub(tld_count + 1) {
                // The levels in turn, so that each parent is there before its children.
                level = 2 + place % (plan.depth - 2);
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
