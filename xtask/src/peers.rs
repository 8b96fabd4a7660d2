//! The Debian peers that the comparisons need.

use crate::command::{command, has, run};

/// A program that a test runs, and the Debian package that has it.
const PEERS: &[(&str, &str)] = &[
    ("named", "bind9"),
    ("dig", "bind9-dnsutils"),
    ("delv", "bind9-dnsutils"),
    ("nsupdate", "bind9-dnsutils"),
    ("named-checkzone", "bind9-utils"),
    ("knotd", "knot"),
    ("kdig", "knot-dnsutils"),
    ("knsupdate", "knot-dnsutils"),
    ("kzonecheck", "knot-dnssecutils"),
    ("nsd", "nsd"),
    ("unbound", "unbound"),
    ("curl", "curl"),
    ("xz", "xz-utils"),
    // Namespaces, and what a thread asks of the kernel.
    ("ip", "iproute2"),
    ("strace", "strace"),
    // Draws the laboratory's report, to see that it can be drawn.
    ("chromium", "chromium"),
];

/// Installs what is missing when run as root; otherwise names it.
///
/// # Errors
/// Under `CI=true`, when a peer is missing after all.
pub(crate) fn ensure() -> Result<(), String> {
    let mut missing = missing();
    if !missing.is_empty() && is_root() && has("apt-get") {
        install(&missing);
        missing = self::missing();
    }
    if missing.is_empty() {
        return Ok(());
    }
    let packages = missing.join(" ");
    if must_be_there() {
        return Err(format!("missing peers under CI=true: install {packages}"));
    }
    println!("xtask: tests against these peers will be skipped; install them with: apt-get install {packages}");
    Ok(())
}

/// Whether a missing peer is a failure: under `CI=true`.
pub(crate) fn must_be_there() -> bool {
    std::env::var("CI").is_ok_and(|ci| ci == "true")
}

fn missing() -> Vec<&'static str> {
    let mut packages: Vec<_> = PEERS.iter().filter(|(program, _)| !has(program)).map(|(_, package)| *package).collect();
    packages.dedup();
    packages
}

fn is_root() -> bool {
    command("id", &["-u"]).output().is_ok_and(|output| output.stdout == b"0\n")
}

/// A failure shows itself by what is still missing afterwards.
fn install(packages: &[&str]) {
    let apt = |arguments: &[&str]| {
        let mut apt = command("apt-get", arguments);
        apt.env("DEBIAN_FRONTEND", "noninteractive").stdout(std::process::Stdio::null());
        if let Err(reason) = run(apt) {
            eprintln!("xtask: {reason}");
        }
    };
    apt(&["update", "-q"]);
    let mut arguments = vec!["install", "-q", "-y", "--no-install-recommends"];
    arguments.extend(packages);
    apt(&arguments);
}
