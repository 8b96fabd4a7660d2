//! The programs that tests need beside our own: Debian's, and two that Debian does not have.

use crate::command::{command, has, root, run};
use std::path::PathBuf;
use std::process::Command;

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

/// A conformance test of HTTP/2, from the Go module proxy.
const H2SPEC: &str = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible";
/// A client of QUIC that shares no code with ours, from PyPI.
const AIOQUIC: &str = "aioquic==1.7.2";

/// Where what is not Debian's is installed, without root.
pub(crate) fn folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from).join("peers")
}

/// A program of that folder, the variable that tells tests where it is, and how it comes there.
struct Fetched {
    variable: &'static str,
    path: &'static str,
    /// With these arguments it succeeds if it is there whole.
    check: &'static [&'static str],
    install: fn() -> Result<(), String>,
    by_hand: &'static str,
}

const FETCHED: &[Fetched] = &[
    Fetched {
        variable: "CATAMARAN_H2SPEC",
        path: "h2spec",
        check: &["--version"],
        install: || {
            let mut go = command("go", &["install", H2SPEC]);
            go.env("GOBIN", folder());
            run(go)
        },
        by_hand: "go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible",
    },
    Fetched {
        variable: "CATAMARAN_AIOQUIC_PYTHON",
        path: "aioquic/bin/python3",
        check: &["-c", "import aioquic"],
        install: || {
            let venv = folder().join("aioquic");
            let mut python = command("python3", &["-m", "venv"]);
            python.arg(&venv);
            run(python)?;
            let mut pip = Command::new(venv.join("bin/pip"));
            pip.args(["install", "--quiet", "--disable-pip-version-check", AIOQUIC]);
            run(pip)
        },
        by_hand: "pip install aioquic",
    },
];

impl Fetched {
    fn is_there(&self) -> bool {
        let mut check = Command::new(folder().join(self.path));
        check.args(self.check).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        check.status().is_ok_and(|status| status.success())
    }
}

/// Tells tests where the programs are that Debian does not have; what is not there they look for on PATH.
pub(crate) fn tell(tests: &mut Command) {
    for fetched in FETCHED.iter().filter(|fetched| fetched.is_there() && std::env::var_os(fetched.variable).is_none()) {
        tests.env(fetched.variable, folder().join(fetched.path));
    }
}

/// Fetches what Debian does not have. A test that misses it all the same says so, and fails under `CI=true`.
fn fetch() {
    for fetched in FETCHED.iter().filter(|fetched| !fetched.is_there() && std::env::var_os(fetched.variable).is_none())
    {
        if let Err(reason) = (fetched.install)() {
            println!("xtask: {reason}; a test that needs it will be skipped: {}", fetched.by_hand);
        }
    }
}

/// Installs what is missing, Debian's when run as root; otherwise names it.
///
/// # Errors
/// Under `CI=true`, when a peer of Debian is missing after all.
pub(crate) fn ensure() -> Result<(), String> {
    fetch();
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
