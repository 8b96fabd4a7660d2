//! Adds the update key and zones once the cluster has a leader. Uses the API like any other client, and never changes
//! existing zones or keys.

use super::plan::Plan;
use cli::client::{Client, query};
use cli::target::program;
use config::api_types::{GrantJson, KeyJson, ZoneJson};
use config::files::key_file::TsigKey;
use config::files::zone_load::{EXAMPLE_TEST, LoadedZone, load, load_text};
use config::files::zone_source::ZoneArgument;
use process::problem::{Exit, Problem};
use std::net::SocketAddr;

/// A zone of the command line, loaded and checked.
#[derive(Clone, Debug)]
pub(crate) struct ZoneToServe {
    /// The argument of `--zone`.
    argument: String,
    zone: LoadedZone,
}

/// Reads the zone files of the command line.
pub(crate) fn load_zones(arguments: &[String]) -> Result<Vec<ZoneToServe>, Problem> {
    let mut zones: Vec<ZoneToServe> = Vec::new();
    for text in arguments {
        let zone = load(&ZoneArgument::parse(text)?)?;
        for warning in &zone.warnings {
            process::log::say(format_args!("warning: {warning}"));
        }
        if let Some(twin) = zones.iter().find(|other| other.zone.apex == zone.apex) {
            let why = format!("{} and {text} are both {}", twin.argument, zone.apex);
            return Err(Problem::new(Exit::Usage, "a zone is given twice", why));
        }
        zones.push(ZoneToServe { argument: text.clone(), zone });
    }
    Ok(zones)
}

/// Result of the setup.
pub(crate) struct Done {
    /// Lines for the user: unchanged zones, and commands to try.
    pub(crate) lines: Vec<String>,
    /// Zones that every node must answer for before the cluster is ready. If there are many, only some.
    pub(crate) probes: Vec<String>,
}

/// Zones that are queried before the cluster is ready.
const PROBES_MAX: usize = 16;

/// Adds missing keys and zones. The memory of the zones is freed as soon as the cluster has them.
pub(crate) fn apply(client: &Client, plan: &Plan, zones: Vec<ZoneToServe>) -> Result<Done, Problem> {
    grant_update_key(client, plan)?;
    let existing: Vec<ZoneJson> = client.get_json("/v1/zones")?;
    let mut lines = Vec::new();
    if zones.is_empty() && existing.is_empty() {
        let zone = load_text(EXAMPLE_TEST, "built-in example.test")?;
        add(client, &zone)?;
    }
    for zone in zones {
        let apex = zone.zone.apex.to_string();
        if existing.iter().any(|zone| zone.zone.eq_ignore_ascii_case(&apex)) {
            lines.push(format!(
                "zone {apex} already exists and was not changed; to compare it with the file and replace it:\n  \
                 {} zone replace {} --dir {}",
                program(),
                zone.argument,
                plan.layout.dir().display()
            ));
        } else {
            add(client, &zone.zone)?;
        }
    }
    crate::sys::memory::trim();
    let all: Vec<ZoneJson> = client.get_json("/v1/zones")?;
    lines.extend(to_try(plan, &all, client.nodes()));
    Ok(Done { lines, probes: all.into_iter().take(PROBES_MAX).map(|zone| zone.zone).collect() })
}

fn add(client: &Client, zone: &LoadedZone) -> Result<(), Problem> {
    let path = format!("/v1/zone?{}", query("zone", &zone.apex.to_string()));
    match client.change_zone("POST", &path, &zone.records) {
        Ok(_) => Ok(()),
        Err(problem) => Err(problem.of(format!("cannot add zone {}", zone.apex))),
    }
}

/// Adds the key in DIR with all rights on all zones. The cluster still refuses updates of presigned zones.
fn grant_update_key(client: &Client, plan: &Plan) -> Result<(), Problem> {
    let key = TsigKey::load(&plan.layout.update_key())?;
    let grant = |right: &str| GrantJson { zone: None, right: right.to_owned() };
    let key_json = KeyJson {
        // The file may be older than the minimum length, and the cluster may have the key already.
        allow_short_secret: true,
        name: key.name.to_string(),
        algorithm: key.algorithm.mnemonic().to_owned(),
        allow_weak: None,
        secret: Some(data_encoding::BASE64.encode(&key.secret)),
        grants: vec![grant("update"), grant("transfer")],
        rolling: false,
    };
    let body =
        serde_json::to_vec(&key_json).map_err(|error| Problem::new(Exit::Failed, "cannot send the key", error))?;
    let cannot = |problem: Problem| problem.of("cannot add update.key").at(plan.layout.update_key().display());
    client.change("POST", "/v1/keys", &body).map_err(cannot)?;
    let level = client.nodes().iter().find_map(|&node| client.status(node, false).ok()).map(|of| of.feature_level);
    if level.is_some_and(|level| level >= 2) {
        // Below that level, `update` includes `update-apex`, which is not known as a right.
        let body = KeyJson { secret: None, grants: vec![grant("update-apex")], ..key_json };
        let body =
            serde_json::to_vec(&body).map_err(|error| Problem::new(Exit::Failed, "cannot send the key", error))?;
        client.change("POST", "/v1/keys", &body).map_err(cannot)?;
    }
    Ok(())
}

/// Commands that the user can try.
fn to_try(plan: &Plan, zones: &[ZoneJson], members: &[SocketAddr]) -> Vec<String> {
    let key = plan.layout.update_key();
    let mut lines = vec!["try:".to_owned()];
    let Some(first) = zones.first() else { return Vec::new() };
    lines.push(format!("  dig @127.0.0.1 -p {} {} SOA", plan.ports.dns, first.zone));
    if let Some(zone) = zones.iter().find(|zone| !zone.presigned) {
        let new = if zone.zone == "." { "new.".to_owned() } else { format!("new.{}", zone.zone) };
        let mut ports = plan.nodes.iter().filter(|node| members.contains(&node.api)).map(|node| node.dns.port());
        let first_port = ports.next().unwrap_or(plan.ports.dns);
        let last = ports.next_back().unwrap_or(first_port);
        lines.push(format!(
            "  printf 'server 127.0.0.1 {}\\nzone {}\\nupdate add {new} 60 A 192.0.2.1\\nsend\\n' | nsupdate -k {}",
            first_port,
            zone.zone,
            key.display()
        ));
        lines.push(format!("  dig @127.0.0.1 -p {last} {new} A +short"));
        lines.push(format!("  dig @127.0.0.1 -p {} -k {} {} AXFR", plan.ports.dns, key.display(), zone.zone));
    }
    lines.extend(to_try_encrypted(plan, &first.zone));
    lines.push(format!("  {} status --dir {}", program(), plan.layout.dir().display()));
    lines
}

/// The same for the encrypted transports.
fn to_try_encrypted(plan: &Plan, zone: &str) -> Vec<String> {
    let (mut lines, ca) = (Vec::new(), plan.layout.ca_cert().display().to_string());
    let kdig = |port: u16, how: &str| {
        format!("  kdig @127.0.0.1 -p {port} {how} +tls-ca={ca} +tls-hostname=localhost {zone} SOA")
    };
    if let Some(port) = plan.ports.dot {
        lines.push(kdig(port, "+tls"));
    }
    if let Some(port) = plan.ports.doh {
        lines.push(kdig(port, "+https"));
        if let Ok(apex) = zone.parse::<wire::Name>() {
            let query = wire::builder::MessageBuilder::query(0, apex.as_ref(), wire::Rtype::SOA).build();
            let query = data_encoding::BASE64URL_NOPAD.encode(&query);
            lines.push(format!("  curl -s --cacert {ca} 'https://localhost:{port}/dns-query?dns={query}' | strings"));
        }
    }
    if let Some(port) = plan.ports.doq {
        lines.push(format!("  (DNS over QUIC: port {port}; the CA is {ca})"));
    }
    lines
}
