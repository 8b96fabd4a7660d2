//! Other programs that tests need: Debian packages, and programs that Debian does not have in the needed version.

use crate::command::{command, has, root, run, target};
use crate::test::Extent;
use std::path::PathBuf;
use std::process::Command;

/// Programs that tests run, each with its Debian package.
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
    // A balancer and a TLS proxy.
    ("dnsdist", "dnsdist"),
    ("haproxy", "haproxy"),
    // Resolvers that walk an emulated hierarchy.
    ("pdns_recursor", "pdns-recursor"),
    ("kresd", "knot-resolver"),
    // Carries messages between the laboratory's coordinator and agents.
    ("nats-server", "nats-server"),
    ("curl", "curl"),
    ("xz", "xz-utils"),
    // Namespaces, and the system calls of a thread.
    ("ip", "iproute2"),
    ("strace", "strace"),
    // Checks the systemd units in `deploy`.
    ("systemd-analyze", "systemd"),
    // A DHCP server and client, and Kea's DNS updates for leases.
    ("kea-dhcp4", "kea-dhcp4-server"),
    ("kea-dhcp-ddns", "kea-dhcp-ddns-server"),
    ("udhcpc", "udhcpc"),
    // Read and take captures, for comparison with the laboratory.
    ("tshark", "tshark"),
    ("dumpcap", "wireshark-common"),
    // Renders the laboratory's report.
    ("chromium", "chromium"),
];

/// A conformance test for HTTP/2, from the Go module proxy.
const H2SPEC: &str = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible";
/// A QUIC client that shares no code with the server, from PyPI.
const AIOQUIC: &str = "aioquic==1.7.2";
/// A client for updates (RFC 2136), from PyPI.
const DNSPYTHON: &str = "dnspython==2.9.2";
/// An ACME client that sets DNS challenges by RFC 2136, from PyPI.
const CERTBOT: &[&str] = &["certbot==5.8.0", "certbot-dns-rfc2136==5.8.0"];
/// An ACME server for tests, from the Go module proxy.
const PEBBLE: &str = "github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.1";
/// Another ACME client, from the Go module proxy.
const LEGO: &str = "github.com/go-acme/lego/v5";
const LEGO_VERSION: &str = "v5.4.1";
/// The file with one provider that replaces lego's list of all providers, and the path of that list.
const LEGO_PROVIDER: &str = "crates/server/tests/it/clients/lego/one_provider.go";
const LEGO_PROVIDERS: &str = "providers/dns/zz_gen_dns_providers.go";
/// A program with the parts of external-dns that write to DNS, from the Go module proxy. The whole of external-dns
/// needs modules that the proxy does not have.
const EXTERNAL_DNS: &str = "crates/server/tests/it/clients/external_dns";

/// A server for comparison in benchmarks, from the Go module proxy. Tests do not need it.
const COREDNS: &str = "github.com/coredns/coredns@v1.11.3";

/// The folder of programs that are not from Debian. Installing there needs no root.
pub(crate) fn folder() -> PathBuf {
    target().join("peers")
}

/// A program in that folder, the environment variable with its path, and how to install it.
struct Fetched {
    variable: &'static str,
    path: &'static str,
    /// Arguments for a run that succeeds if the program is complete.
    check: &'static [&'static str],
    install: fn() -> Result<(), String>,
    install_command: &'static str,
    /// Whether it is fetched only with `--full`, because that takes long. Without `--full`, its test is skipped, even
    /// with `CI=true`.
    is_heavy: bool,
}

const FETCHED: &[Fetched] = &[
    Fetched {
        variable: "CATAMARAN_H2SPEC",
        path: "h2spec",
        check: &["--version"],
        install: || go_install(H2SPEC),
        install_command: "go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible",
        is_heavy: false,
    },
    Fetched {
        variable: "CATAMARAN_AIOQUIC_PYTHON",
        path: "aioquic/bin/python3",
        check: &["-c", "import aioquic"],
        install: || pip_install("aioquic", &[AIOQUIC]),
        install_command: "pip install aioquic",
        is_heavy: false,
    },
    Fetched {
        variable: "CATAMARAN_DNSPYTHON",
        path: "dnspython/bin/python3",
        check: &["-c", "import dns.update"],
        install: || pip_install("dnspython", &[DNSPYTHON]),
        install_command: "pip install dnspython",
        is_heavy: false,
    },
    Fetched {
        variable: "CATAMARAN_CERTBOT",
        path: "certbot/bin/certbot",
        check: &["--version"],
        install: || pip_install("certbot", CERTBOT),
        install_command: "pip install certbot certbot-dns-rfc2136",
        is_heavy: true,
    },
    Fetched {
        variable: "CATAMARAN_PEBBLE",
        path: "pebble",
        check: &["-version"],
        install: || go_install(PEBBLE),
        install_command: "go install github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.1",
        is_heavy: true,
    },
    Fetched {
        variable: "CATAMARAN_LEGO",
        path: "lego",
        check: &["--version"],
        install: lego,
        install_command: "go install github.com/go-acme/lego/v5@v5.4.1",
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
        install_command: "go build in crates/server/tests/it/clients/external_dns",
        is_heavy: true,
    },
];

/// Installs with the present Go toolchain; `GOTOOLCHAIN=local` prevents the download of another.
fn go_install(module: &str) -> Result<(), String> {
    let mut go = command("go", &["install", module]);
    go.env("GOBIN", folder()).env("GOTOOLCHAIN", "local");
    run(go)
}

/// How a bench gets CoreDNS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CoreDnsSource {
    /// It is installed, and the bench finds it.
    Installed,
    /// It was built by an earlier run.
    Built,
    /// Go can build it.
    Build,
    /// Neither CoreDNS nor Go is installed.
    NoGo,
}

impl CoreDnsSource {
    const fn of(is_installed: bool, is_built: bool, has_go: bool) -> Self {
        match (is_installed, is_built, has_go) {
            (true, ..) => Self::Installed,
            (_, true, _) => Self::Built,
            (_, _, true) => Self::Build,
            _ => Self::NoGo,
        }
    }
}

/// Builds CoreDNS if it is missing and Go is installed, and gives its path to the bench. The bench runs in any case.
pub(crate) fn supply_coredns(bench: &mut Command) {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let (program, variable) = (folder().join("coredns"), "CATAMARAN_COREDNS");
    let is_installed = std::env::var_os(variable).is_some() || has("coredns") || home.join("go/bin/coredns").is_file();
    match CoreDnsSource::of(is_installed, program.is_file(), has("go")) {
        CoreDnsSource::Installed => return,
        CoreDnsSource::Built => {}
        CoreDnsSource::Build => {
            println!("xtask: CoreDNS is not installed; building it with Go takes minutes");
            if let Err(reason) = go_install(COREDNS) {
                println!("xtask: {reason}; the rows of CoreDNS will say \"not measured\"");
                return;
            }
        }
        CoreDnsSource::NoGo => {
            println!(
                "xtask: neither CoreDNS nor Go is installed; the rows of CoreDNS will say \"not measured\"; put Go \
                 on PATH to build it, or run: go install {COREDNS}"
            );
            return;
        }
    }
    bench.env(variable, program);
}

/// Builds lego with one provider, from a copy of its module with another list of providers.
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

/// Sets the variables with the paths of fetched programs. Tests look for missing ones on PATH.
pub(crate) fn set_environment(tests: &mut Command) {
    for fetched in FETCHED.iter().filter(|fetched| fetched.is_there() && std::env::var_os(fetched.variable).is_none()) {
        tests.env(fetched.variable, folder().join(fetched.path));
    }
}

/// Fetches the programs that Debian does not have. Returns a command for each program that failed.
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
            missing.push(fetched.install_command);
        }
    }
    missing
}

/// Installs missing programs, Debian packages only as root. Prints the commands for programs that stay missing.
///
/// # Errors
/// A program stays missing, and all are required.
pub(crate) fn ensure(extent: Extent) -> Result<(), String> {
    let mut install_commands: Vec<String> = fetch(extent).into_iter().map(str::to_owned).collect();
    let mut missing = missing();
    if !missing.is_empty() && is_root() && has("apt-get") {
        install(&missing);
        missing = self::missing();
    }
    if !missing.is_empty() {
        install_commands.push(format!("apt-get install {}", missing.join(" ")));
    }
    let notice = report_missing(&install_commands, is_all_required(extent))?;
    notice.into_iter().for_each(|notice| println!("xtask: {notice}"));
    Ok(())
}

/// The message about missing programs. The commands would install them.
///
/// # Errors
/// A program is missing, and all are required.
fn report_missing(install_commands: &[String], is_required: bool) -> Result<Option<String>, String> {
    let commands = install_commands.join("; ");
    match (install_commands.is_empty(), is_required) {
        (true, _) => Ok(None),
        (false, false) => Ok(Some(format!("tests against missing peers will be skipped; get them with: {commands}"))),
        (false, true) => Err(format!("with --full or CI=true no peer may be missing; get them with: {commands}")),
    }
}

/// Whether all programs are required: with `--full` or `CI=true`.
pub(crate) fn is_all_required(extent: Extent) -> bool {
    extent == Extent::Full || is_ci()
}

/// Whether `CI=true` requires all tools.
pub(crate) fn is_ci() -> bool {
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

/// Runs apt-get. The caller detects failures by programs that are still missing.
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
    fn coredns_is_built_only_if_missing_and_go_is_installed() {
        assert_eq!(CoreDnsSource::of(true, true, true), CoreDnsSource::Installed);
        assert_eq!(CoreDnsSource::of(true, false, false), CoreDnsSource::Installed);
        assert_eq!(CoreDnsSource::of(false, true, false), CoreDnsSource::Built);
        assert_eq!(CoreDnsSource::of(false, false, true), CoreDnsSource::Build);
        assert_eq!(CoreDnsSource::of(false, false, false), CoreDnsSource::NoGo);
    }

    #[test]
    fn missing_programs_are_an_error_only_if_required() {
        let missing = ["pip install certbot".to_owned(), "apt-get install nsd".to_owned()];
        let refused = report_missing(&missing, true).unwrap_err();
        let listed = report_missing(&missing, false).unwrap().unwrap();
        for text in [refused, listed] {
            assert!(missing.iter().all(|command| text.contains(command)), "{text}");
        }
        assert_eq!(report_missing(&[], true), Ok(None));
        assert!(is_all_required(Extent::Full));
    }
}
