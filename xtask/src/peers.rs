//! The programs that tests need beside our own: Debian's, and some that Debian does not have, or not as new.

use crate::command::{command, has, root, run, target};
use crate::test::Extent;
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
    // Resolvers that walk an emulated hierarchy.
    ("pdns_recursor", "pdns-recursor"),
    ("kresd", "knot-resolver"),
    // Carries the messages to the agents of the laboratory.
    ("nats-server", "nats-server"),
    ("curl", "curl"),
    ("xz", "xz-utils"),
    // Namespaces, and what a thread asks of the kernel.
    ("ip", "iproute2"),
    ("strace", "strace"),
    // Reads the units that we ship.
    ("systemd-analyze", "systemd"),
    // A real lease, and who writes it down in DNS.
    ("kea-dhcp4", "kea-dhcp4-server"),
    ("kea-dhcp-ddns", "kea-dhcp-ddns-server"),
    ("udhcpc", "udhcpc"),
    // Reads captures and takes them, beside the laboratory.
    ("tshark", "tshark"),
    ("dumpcap", "wireshark-common"),
    // Draws the laboratory's report, to see that it can be drawn.
    ("chromium", "chromium"),
];

/// A conformance test of HTTP/2, from the Go module proxy.
const H2SPEC: &str = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible";
/// A client of QUIC that shares no code with ours, from PyPI.
const AIOQUIC: &str = "aioquic==1.7.2";
/// A client of RFC 2136, from PyPI.
const DNSPYTHON: &str = "dnspython==2.9.2";
/// ACME's DNS challenge by RFC 2136, from PyPI.
const CERTBOT: &[&str] = &["certbot==5.8.0", "certbot-dns-rfc2136==5.8.0"];
/// An ACME server for tests, from the Go module proxy.
const PEBBLE: &str = "github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.1";
/// Another client of ACME, from the Go module proxy.
const LEGO: &str = "github.com/go-acme/lego/v5";
const LEGO_VERSION: &str = "v5.4.1";
/// What takes the place of its list of providers, and where that is.
const LEGO_PROVIDER: &str = "crates/server/tests/it/clients/lego/one_provider.go";
const LEGO_PROVIDERS: &str = "providers/dns/zz_gen_dns_providers.go";
/// The parts of external-dns that write to DNS, from the Go module proxy: all of it takes modules that the proxy does
/// not hand out.
const EXTERNAL_DNS: &str = "crates/server/tests/it/clients/external_dns";

/// A server beside which ours is measured, from the Go module proxy: Debian has none. Tests do without it.
const COREDNS: &str = "github.com/coredns/coredns@v1.11.3";

/// Where what is not Debian's is installed, without root.
pub(crate) fn folder() -> PathBuf {
    target().join("peers")
}

/// A program of that folder, the variable that tells tests where it is, and how it comes there.
struct Fetched {
    variable: &'static str,
    path: &'static str,
    /// With these arguments it succeeds if it is there whole.
    check: &'static [&'static str],
    install: fn() -> Result<(), String>,
    by_hand: &'static str,
    /// Whether it is fetched only for `--full`, because it takes long to fetch or to build; without `--full` the test
    /// of it is skipped, under `CI=true` too.
    is_heavy: bool,
}

const FETCHED: &[Fetched] = &[
    Fetched {
        variable: "CATAMARAN_H2SPEC",
        path: "h2spec",
        check: &["--version"],
        install: || go_install(H2SPEC),
        by_hand: "go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible",
        is_heavy: false,
    },
    Fetched {
        variable: "CATAMARAN_AIOQUIC_PYTHON",
        path: "aioquic/bin/python3",
        check: &["-c", "import aioquic"],
        install: || pip_install("aioquic", &[AIOQUIC]),
        by_hand: "pip install aioquic",
        is_heavy: false,
    },
    Fetched {
        variable: "CATAMARAN_DNSPYTHON",
        path: "dnspython/bin/python3",
        check: &["-c", "import dns.update"],
        install: || pip_install("dnspython", &[DNSPYTHON]),
        by_hand: "pip install dnspython",
        is_heavy: false,
    },
    Fetched {
        variable: "CATAMARAN_CERTBOT",
        path: "certbot/bin/certbot",
        check: &["--version"],
        install: || pip_install("certbot", CERTBOT),
        by_hand: "pip install certbot certbot-dns-rfc2136",
        is_heavy: true,
    },
    Fetched {
        variable: "CATAMARAN_PEBBLE",
        path: "pebble",
        check: &["-version"],
        install: || go_install(PEBBLE),
        by_hand: "go install github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.1",
        is_heavy: true,
    },
    Fetched {
        variable: "CATAMARAN_LEGO",
        path: "lego",
        check: &["--version"],
        install: lego,
        by_hand: "go install github.com/go-acme/lego/v5@v5.4.1",
        is_heavy: true,
    },
    Fetched {
        variable: "CATAMARAN_EXTERNAL_DNS",
        path: "external-dns-rfc2136",
        check: &[],
        install: || {
            let mut go = command("go", &["build", "-o"]);
            go.arg(folder().join("external-dns-rfc2136")).arg(".");
            go.current_dir(root().join(EXTERNAL_DNS)).env("GOTOOLCHAIN", "local");
            run(go)
        },
        by_hand: "go build in crates/server/tests/it/clients/external_dns",
        is_heavy: true,
    },
];

/// With the toolchain that is there: none is fetched.
fn go_install(module: &str) -> Result<(), String> {
    let mut go = command("go", &["install", module]);
    go.env("GOBIN", folder()).env("GOTOOLCHAIN", "local");
    run(go)
}

/// What is done about CoreDNS before a bench that measures it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Supply {
    /// The bench finds it where programs are.
    Installed,
    /// It was built here before.
    Built,
    Build,
    /// There is no Go to build it with.
    NoGo,
}

impl Supply {
    const fn of(is_installed: bool, is_built: bool, has_go: bool) -> Self {
        match (is_installed, is_built, has_go) {
            (true, ..) => Self::Installed,
            (_, true, _) => Self::Built,
            (_, _, true) => Self::Build,
            _ => Self::NoGo,
        }
    }
}

/// Builds CoreDNS where it is missing and Go is there, and tells the bench where it lies. Whatever comes of it, the
/// bench goes on.
pub(crate) fn supply_coredns(bench: &mut Command) {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let (program, variable) = (folder().join("coredns"), "CATAMARAN_COREDNS");
    let is_installed = std::env::var_os(variable).is_some() || has("coredns") || home.join("go/bin/coredns").is_file();
    match Supply::of(is_installed, program.is_file(), has("go")) {
        Supply::Installed => return,
        Supply::Built => {}
        Supply::Build => {
            println!("xtask: CoreDNS is not installed: Go builds it, which takes minutes");
            if let Err(reason) = go_install(COREDNS) {
                println!("xtask: {reason}; its rows will say \"not measured\"");
                return;
            }
        }
        Supply::NoGo => {
            println!(
                "xtask: neither CoreDNS nor Go, which would build it, is installed; its rows will say \"not \
                 measured\"; put Go on PATH, or run: go install {COREDNS}"
            );
            return;
        }
    }
    bench.env(variable, program);
}

/// Builds lego with one provider: a copy of its module, in which the list of all of them is another.
fn lego() -> Result<(), String> {
    let place = folder().join("lego-source");
    let module = place.join("module");
    let failed = |error: std::io::Error| format!("{}: {error}", place.display());
    if place.exists() {
        std::fs::remove_dir_all(&place).map_err(failed)?;
    }
    std::fs::create_dir_all(&place).map_err(failed)?;
    let own = format!(
        "module lego-with-one-provider\n\ngo 1.26.0\n\nrequire {LEGO} {LEGO_VERSION}\n\nreplace {LEGO} => ./module\n"
    );
    let mut download = command("go", &["mod", "download", "-json", &format!("{LEGO}@{LEGO_VERSION}")]);
    let output = download.current_dir(&place).env("GOTOOLCHAIN", "local").output().map_err(failed)?;
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    let folder_of = listing.lines().find_map(|line| line.trim().strip_prefix("\"Dir\": \"")?.split('"').next());
    let source = folder_of.ok_or_else(|| format!("go mod download {LEGO}: {listing}"))?;
    run(command("cp", &["-r", "--no-preserve=mode", source, &module.display().to_string()]))?;
    std::fs::copy(root().join(LEGO_PROVIDER), module.join(LEGO_PROVIDERS)).map_err(failed)?;
    std::fs::write(place.join("go.mod"), own).map_err(failed)?;
    let mut go = command("go", &["build", "-mod=mod", "-o"]);
    go.arg(folder().join("lego")).arg(LEGO);
    go.current_dir(&place).env("GOTOOLCHAIN", "local");
    run(go)
}

fn pip_install(venv: &str, packages: &[&str]) -> Result<(), String> {
    let venv = folder().join(venv);
    let mut python = command("python3", &["-m", "venv"]);
    python.arg(&venv);
    run(python)?;
    let mut pip = Command::new(venv.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(packages);
    run(pip)
}

impl Fetched {
    fn is_there(&self) -> bool {
        if self.check.is_empty() {
            return folder().join(self.path).is_file();
        }
        let mut check = Command::new(folder().join(self.path));
        check.args(self.check).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        check.status().is_ok_and(|status| status.success())
    }
}

/// Tells tests where the programs are that Debian does not have; what is not there they look for on PATH.
pub(crate) fn set_environment(tests: &mut Command) {
    for fetched in FETCHED.iter().filter(|fetched| fetched.is_there() && std::env::var_os(fetched.variable).is_none()) {
        tests.env(fetched.variable, folder().join(fetched.path));
    }
}

/// Fetches what Debian does not have; says how to get by hand what did not come.
fn fetch(extent: Extent) -> Vec<&'static str> {
    let mut missing = Vec::new();
    let is_wanted = |fetched: &&Fetched| !fetched.is_heavy || extent == Extent::Full;
    for fetched in FETCHED
        .iter()
        .filter(is_wanted)
        .filter(|fetched| !fetched.is_there() && std::env::var_os(fetched.variable).is_none())
    {
        if let Err(reason) = (fetched.install)() {
            println!("xtask: {reason}");
            missing.push(fetched.by_hand);
        }
    }
    missing
}

/// Installs what is missing, Debian's when run as root; otherwise names it.
///
/// # Errors
/// When something is missing after all, and everything is demanded.
pub(crate) fn ensure(extent: Extent) -> Result<(), String> {
    let mut by_hand: Vec<String> = fetch(extent).into_iter().map(str::to_owned).collect();
    let mut missing = missing();
    if !missing.is_empty() && is_root() && has("apt-get") {
        install(&missing);
        missing = self::missing();
    }
    if !missing.is_empty() {
        by_hand.push(format!("apt-get install {}", missing.join(" ")));
    }
    let notice = report_missing(&by_hand, is_all_demanded(extent))?;
    notice.into_iter().for_each(|notice| println!("xtask: {notice}"));
    Ok(())
}

/// The message about missing programs, which these commands would install.
///
/// # Errors
/// When all of them are demanded.
fn report_missing(by_hand: &[String], is_demanded: bool) -> Result<Option<String>, String> {
    let commands = by_hand.join("; ");
    match (by_hand.is_empty(), is_demanded) {
        (true, _) => Ok(None),
        (false, false) => Ok(Some(format!("tests against missing peers will be skipped; get them with: {commands}"))),
        (false, true) => Err(format!("with --full or CI=true no peer may be missing; get them with: {commands}")),
    }
}

/// Whether nothing may be skipped for the machine's sake: with `--full`, and under `CI=true`.
pub(crate) fn is_all_demanded(extent: Extent) -> bool {
    extent == Extent::Full || must_be_there()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coredns_is_built_only_where_there_is_none_and_go_is_there() {
        assert_eq!(Supply::of(true, true, true), Supply::Installed);
        assert_eq!(Supply::of(true, false, false), Supply::Installed);
        assert_eq!(Supply::of(false, true, false), Supply::Built);
        assert_eq!(Supply::of(false, false, true), Supply::Build);
        assert_eq!(Supply::of(false, false, false), Supply::NoGo);
    }

    #[test]
    fn missing_programs_fail_only_if_demanded_and_are_named() {
        let missing = ["pip install certbot".to_owned(), "apt-get install nsd".to_owned()];
        let refused = report_missing(&missing, true).unwrap_err();
        let listed = report_missing(&missing, false).unwrap().unwrap();
        for text in [refused, listed] {
            assert!(missing.iter().all(|command| text.contains(command)), "{text}");
        }
        assert_eq!(report_missing(&[], true), Ok(None));
        assert!(is_all_demanded(Extent::Full));
    }
}
