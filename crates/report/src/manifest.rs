//! `manifest.json`: how to repeat the run.

use super::Validity;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Options whose value may be a secret key.
const KEY_OPTIONS: [&str; 2] = ["--tsig", "--freshness-tsig"];

/// How a run was made.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Manifest {
    /// The command line without secrets, because run folders are shared.
    pub command: Vec<String>,
    /// This program's version.
    pub version: String,
    /// Start in seconds since 1970.
    pub started: f64,
    /// Seed of all random choices.
    pub seed: u64,
    /// Name of the machine.
    pub host: String,
    /// Its kernel.
    pub kernel: String,
    /// Its CPU.
    pub cpu: String,
    /// Number of CPUs.
    pub cpu_count: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Whether the results are valid. Set when the folder is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validity: Option<Validity>,
    /// For a merged run: the manifests of its runs. It has no seed itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<Self>,
}

impl Manifest {
    /// The manifest of a run that began at `started`.
    #[must_use]
    pub fn new(started: SystemTime, seed: u64) -> Self {
        let cpu = read("/proc/cpuinfo");
        let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        Self {
            command: without_secrets(std::env::args()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
            seed,
            host: host_name(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            cpu: cpu.map_or("", |(_, name)| name).to_owned(),
            cpu_count: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_bytes(&read("/proc/meminfo")),
            validity: None,
            merged: Vec::new(),
        }
    }
}

/// Options whose value is a URL that may contain a password.
const URL_OPTIONS: [&str; 1] = ["--nats"];

/// Replaces user and password in the URL.
fn without_user(url: &str) -> String {
    match url.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?.1))) {
        Some((scheme, rest)) => format!("{scheme}://***@{rest}"),
        None => url.to_owned(),
    }
}

/// A key argument without its secret: a path is unchanged, and `NAME:SECRET` loses the secret.
#[must_use]
pub fn without_secret(argument: &str) -> String {
    match argument.rsplit_once(':') {
        Some((name, _)) if !Path::new(argument).exists() => format!("{name}:***"),
        _ => argument.to_owned(),
    }
}

/// The arguments of a command line. Keys are reduced to their names.
fn without_secrets(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let (mut is_key, mut is_url) = (false, false);
    let printable = |argument: String| {
        let was_key = std::mem::replace(&mut is_key, KEY_OPTIONS.contains(&argument.as_str()));
        let was_url = std::mem::replace(&mut is_url, URL_OPTIONS.contains(&argument.as_str()));
        match argument.split_once('=') {
            Some((option, key)) if KEY_OPTIONS.contains(&option) => format!("{option}={}", without_secret(key)),
            Some((option, url)) if URL_OPTIONS.contains(&option) => format!("{option}={}", without_user(url)),
            _ if was_key => without_secret(&argument),
            _ if was_url => without_user(&argument),
            _ => argument,
        }
    };
    arguments.map(printable).collect()
}

/// Parses `MemTotal:  8123456 kB` of /proc/meminfo. Zero if missing.
fn memory_bytes(text: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1_024
}

/// The host name.
#[must_use]
pub fn host_name() -> String {
    read("/proc/sys/kernel/hostname").trim().to_owned()
}

/// Reads a file. Empty on errors: the manifest is useful without it.
fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_describes_the_machine() {
        assert_eq!(memory_bytes("MemFree: 1 kB\nMemTotal:        8024364 kB\n"), 8_024_364 * 1_024);
        assert_eq!(memory_bytes(""), 0);
        let own = Manifest::new(UNIX_EPOCH, 7);
        assert!(own.memory_bytes > 1 << 26 && own.cpu_count > 0 && !own.kernel.is_empty(), "{own:?}");
    }

    #[test]
    fn a_manifest_has_no_secrets() {
        let line = "load --tsig hmac-sha256:k.test:c2VjcmV0 --freshness-tsig=k.test:c2VjcmV0 --tsig keys/k --name a:b";
        let printable = without_secrets(line.split(' ').map(str::to_owned)).join(" ");
        let expected = "load --tsig hmac-sha256:k.test:*** --freshness-tsig=k.test:*** --tsig keys/k --name a:b";
        assert_eq!(printable, expected);
        let line = "--nats nats://user:pass@h:4222 --nats=tls://token@h --nats nats://h:4222 x@y";
        let printable = without_secrets(line.split(' ').map(str::to_owned)).join(" ");
        assert_eq!(printable, "--nats nats://***@h:4222 --nats=tls://***@h --nats nats://h:4222 x@y");
    }
}
