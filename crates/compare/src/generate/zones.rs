//! Zones with wildcards, zone cuts, DNAMEs, aliases, empty non-terminals and occluded names.

use rand::Rng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Few labels, so that names interact.
const LABELS: &[&str] = &["a", "b", "c", "*", "_tcp", "ns1", "Mixed", "x-1"];
/// Number of names drawn for a zone.
const NAME_COUNT: usize = 60;
/// Maximum length of an alias chain.
const CHAIN_LENGTH_MAX: usize = 24;

/// A zone as text.
#[derive(Clone, Debug)]
pub struct ZoneText {
    /// The apex, with its final dot.
    pub apex: String,
    /// The zone file.
    pub text: String,
    /// Every owner, absolute.
    pub owners: Vec<String>,
}

/// Generates a zone.
pub fn zone(apex: &str, rng: &mut ChaCha8Rng) -> ZoneText {
    let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let apex_data = [
        format!("SOA ns1.{apex} admin.{apex} 2026010100 3600 600 86400 {}", [60, 300, 3600].choose(rng).unwrap_or(&60)),
        format!("NS ns1.{apex}"),
        format!("NS ns2.{apex}"),
    ];
    names.insert(apex.to_string(), apex_data.into());
    for server in ["ns1", "ns2"] {
        names.insert(format!("{server}.{apex}"), BTreeSet::from(["A 192.0.2.53".into(), "AAAA 2001:db8::53".into()]));
    }
    for _ in 0..NAME_COUNT {
        let owner = draw_name(apex, rng);
        if names.contains_key(&owner) {
            continue;
        }
        let data = draw_data(apex, &owner, rng);
        names.insert(owner, data);
    }
    add_chain(apex, &mut names, rng);
    add_long_dname(apex, &mut names);
    drop_what_no_server_loads(&mut names);
    let mut text = String::from("$TTL 300\n");
    for (owner, data) in &names {
        let ttl = 60 * (1 + owner.len() % 5);
        for line in data {
            let _written = writeln!(text, "{owner} {ttl} IN {line}");
        }
    }
    ZoneText { apex: apex.to_string(), text, owners: names.into_keys().collect() }
}

/// Adds a chain of aliases, longer than some servers follow. Some chains are loops.
fn add_chain(apex: &str, names: &mut BTreeMap<String, BTreeSet<String>>, rng: &mut ChaCha8Rng) {
    let length_max = if rng.random_bool(0.2) { CHAIN_LENGTH_MAX } else { 5 };
    let length = rng.random_range(2..=length_max);
    let end = if rng.random_bool(0.2) { format!("l0.{apex}") } else { draw_name(apex, rng) };
    for link in 0..length {
        let target = if link + 1 < length { format!("l{}.{apex}", link + 1) } else { end.clone() };
        names.insert(format!("l{link}.{apex}"), BTreeSet::from([format!("CNAME {target}")]));
    }
}

/// Adds a DNAME with a long target. Most names below its owner would be too long (RFC 6672 2.2).
fn add_long_dname(apex: &str, names: &mut BTreeMap<String, BTreeSet<String>>) {
    let target = format!("{}{apex}", format!("{}.", "x".repeat(50)).repeat(4));
    names.insert(format!("long.{apex}"), BTreeSet::from([format!("DNAME {target}")]));
}

fn draw_name(apex: &str, rng: &mut ChaCha8Rng) -> String {
    let depth = rng.random_range(1..=4);
    let mut owner = String::new();
    for _ in 0..depth {
        owner.push_str(LABELS.choose(rng).unwrap_or(&"a"));
        owner.push('.');
    }
    owner + apex
}

fn draw_data(apex: &str, owner: &str, rng: &mut ChaCha8Rng) -> BTreeSet<String> {
    let target = draw_name(apex, rng);
    let one = |line: String| BTreeSet::from([line]);
    match rng.random_range(0..100) {
        0..14 => one(format!("CNAME {target}")),
        14..18 => one("CNAME out.of.zone.invalid.".into()),
        18..24 => one(format!("DNAME {target}")),
        24..34 if !owner.starts_with('*') => cut(apex, owner, rng),
        34..42 => one(format!("MX 10 {target}")),
        42..48 => one(format!("SRV 0 5 443 {target}")),
        48..53 => one(format!("HTTPS 1 {target} alpn=h2")),
        53..56 => one("HTTPS 1 . alpn=h2,h3 ipv4hint=192.0.2.7".into()),
        56..60 => one(format!("SVCB 0 {target}")),
        60..68 => (0..rng.random_range(1..30)).map(|n| format!("TXT \"{:0>200}\"", n)).collect(),
        68..72 => BTreeSet::from(["TYPE65280 \\# 3 0a0b0c".into(), "CAA 0 issue \"ca.example\"".into()]),
        72..75 => one(format!("PTR {target}")),
        75..78 => one(format!("NAPTR 10 20 \"u\" \"E2U+sip\" \"!^.*$!sip:x@y!\" {target}")),
        78..88 => (1..=rng.random_range(1..6)).map(|n| format!("A 192.0.2.{n}")).collect(),
        _ => BTreeSet::from(["A 192.0.2.1".into(), "AAAA 2001:db8::1".into(), "TXT \"t\"".into()]),
    }
}

/// A delegation with servers below it, beside it or elsewhere, and sometimes with DS.
fn cut(apex: &str, owner: &str, rng: &mut ChaCha8Rng) -> BTreeSet<String> {
    let mut data = BTreeSet::new();
    for server in 0..rng.random_range(1..4) {
        data.insert(match rng.random_range(0..3) {
            0 => format!("NS s{server}.{owner}"),
            1 => format!("NS ns1.{apex}"),
            _ => "NS ns.elsewhere.invalid.".to_string(),
        });
    }
    if rng.random_bool(0.4) {
        data.insert(format!("DS 12345 13 2 {:064x}", rng.random::<u64>()));
    }
    data
}

/// Drops records that a primary refuses to load: data below a DNAME or beside a CNAME. Keeps glue for servers below a
/// cut.
fn drop_what_no_server_loads(names: &mut BTreeMap<String, BTreeSet<String>>) {
    let has = |data: &BTreeSet<String>, rtype: &str| data.iter().any(|line| line.starts_with(rtype));
    let dnames: Vec<String> =
        names.iter().filter(|(_, data)| has(data, "DNAME")).map(|(owner, _)| format!(".{owner}")).collect();
    names.retain(|owner, _| !dnames.iter().any(|dname| owner.to_lowercase().ends_with(&dname.to_lowercase())));
    let glue: Vec<String> = names
        .iter()
        .filter(|(_, data)| !has(data, "SOA"))
        .flat_map(|(owner, data)| data.iter().filter_map(move |line| Some((owner, line.strip_prefix("NS ")?))))
        .filter(|(owner, server)| server.ends_with(owner.as_str()))
        .map(|(_, server)| server.to_string())
        .collect();
    for server in glue {
        names.entry(server).or_insert_with(|| BTreeSet::from(["A 192.0.2.99".into(), "AAAA 2001:db8::99".into()]));
    }
}

/// How a generated zone is signed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signing {
    /// Not at all.
    No,
    /// With NSEC.
    Nsec,
    /// With NSEC3, no salt, no further iterations (RFC 9276).
    Nsec3,
    /// With NSEC3 and opt-out.
    OptOut,
}

/// Writes the zone to `folder`, signed with BIND's tools if requested. Returns the file.
///
/// # Errors
/// If a file cannot be written or a tool fails, with the output of the tool.
pub fn sign(zone: &ZoneText, signing: Signing, folder: &Path) -> io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let plain = folder.join("plain");
    std::fs::write(&plain, &zone.text)?;
    if signing == Signing::No {
        return Ok(plain);
    }
    let quiet = ["-q", "-a", "ECDSAP256SHA256", "-K"];
    for flags in [&["-f", "KSK"][..], &[]] {
        tool(Command::new("dnssec-keygen").args(quiet).arg(folder).args(flags).arg(&zone.apex))?;
    }
    let signed = folder.join("signed");
    let mut command = Command::new("dnssec-signzone");
    // Fixed signing times would expire, so signatures differ in each run.
    command.args(["-S", "-P", "-z", "-Q", "-x", "-K"]).arg(folder).arg("-d").arg(folder);
    command.arg("-o").arg(&zone.apex).arg("-f").arg(&signed);
    match signing {
        Signing::Nsec3 => drop(command.args(["-3", "-"]).args(["-H", "0"])),
        Signing::OptOut => drop(command.args(["-3", "-", "-A"]).args(["-H", "0"])),
        Signing::No | Signing::Nsec => {}
    }
    tool(command.arg(&plain))?;
    Ok(signed)
}

fn tool(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))))
}
