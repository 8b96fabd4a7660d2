//! Knot Resolver as forwarder: it asks its backends, and answers from its cache. It has no limit of connections.
//!
//! A process has one thread. With several threads, as many processes share the ports and the cache.

use super::error::PeerError;
use super::setup::{Setup, create_folder};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a process for each folder, and stops all of them with SIGTERM.
const SCRIPT: &str = r#"trap 'kill $pids; wait; exit' TERM
program=$1; config=$2; shift 2
for folder in "$@"; do "$program" -n -c "$config" "$folder" & pids="$pids $!"; done
wait"#;
/// Modules that send queries of their own, or that refuse answers because of the clock.
const UNWANTED_MODULES: [&str; 4] = ["ta_update", "ta_signal_query", "priming", "detect_time_skew"];

pub(super) fn command(program: &Path, setup: &Setup) -> Result<Command, PeerError> {
    let config = setup.write("kresd.conf", &config(setup))?;
    let folders: Vec<PathBuf> =
        (0..setup.threads.unwrap_or(1)).map(|number| setup.folder.join(format!("process-{number}"))).collect();
    folders.iter().try_for_each(|folder| create_folder(folder))?;
    if let [folder] = &folders[..] {
        let mut command = Command::new(program);
        command.arg("-n").arg("-c").arg(config).arg(folder);
        return Ok(command);
    }
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT, "sh"]).arg(program).arg(config).args(folders);
    Ok(command)
}

fn config(setup: &Setup) -> String {
    let (ip, folder) = (setup.address.ip(), setup.folder.display());
    let mut text = String::new();
    let mut listen = |kind: &str, port: Option<u16>| {
        if let Some(port) = port {
            let _written = writeln!(text, "net.listen('{ip}', {port}, {{ kind = '{kind}' }})");
        }
    };
    listen("dns", Some(setup.address.port()));
    if let Some(encryption) = &setup.encryption {
        listen("tls", encryption.dot);
        listen("doh2", encryption.doh);
        let (certificate, key) = (encryption.certificate.display(), encryption.key.display());
        let _written = writeln!(text, "net.tls('{certificate}', '{key}')");
    }
    let _written = writeln!(text, "cache.open(100 * MB, 'lmdb://{folder}/cache')");
    for module in UNWANTED_MODULES {
        let _written = writeln!(text, "modules.unload('{module}')");
    }
    // The built-in anchor is that of the real root. At most four backends are possible.
    let backends = setup.backends.iter().map(|backend| format!("'{}@{}'", backend.ip(), backend.port()));
    let backends = backends.collect::<Vec<_>>().join(", ");
    let _written = writeln!(text, "trust_anchors.remove('.')\npolicy.add(policy.all(policy.FORWARD({{{backends}}})))");
    text.push_str(&setup.lines);
    text
}
