//! Clients of other projects: kdig, dig, curl, Unbound, aioquic, h2spec. Also our laboratory.

use super::query;
use crate::support::cluster::{CATAMARAN, Cluster, Scratch, wait_for};
use crate::support::dns::{Transport, exchange};
use crate::support::encrypted::WAIT;
use crate::support::tools::{dig, missing};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testbed::{Kind, Setup, start};
use wire::number::Rtype;

/// Whether a program is installed: with these arguments it prints its version. Without it the test is skipped and
/// listed, and with `CI=true` it fails.
fn is_there(program: &str, arguments: &[&str]) -> bool {
    runs(program, arguments) || missing(program, "apt-get install knot-dnsutils bind9-dnsutils curl unbound")
}

fn runs(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The program that `cargo xtask test` installed, from the environment, or the system's.
fn installed(variable: &str, program: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| program.to_owned())
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap();
    let shown = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{program} {arguments:?}: {shown:?}");
    shown[0].clone()
}

fn ca(cluster: &Cluster) -> String {
    cluster.cluster_json()["ca"].as_str().unwrap().to_owned()
}

#[test]
fn kdig_dig_and_curl_are_answered_through_each_node() {
    let cluster = Cluster::start_encrypted("tools", 3);
    let (ca, json) = (ca(&cluster), cluster.cluster_json());
    for id in cluster.ids() {
        let node = &json["nodes"][id as usize - 1];
        assert_eq!(node["dot"], cluster.dot(id).to_string());
        assert_eq!(node["doh"], cluster.doh(id).to_string());
        assert_eq!(node["doq"], cluster.dot(id).to_string());
    }
    let trusted = [format!("+tls-ca={ca}"), "+tls-hostname=localhost".to_owned()];
    let mut addresses = vec!["@127.0.0.1"];
    if std::net::UdpSocket::bind("[::1]:0").is_ok() {
        addresses.push("@::1");
    }
    // The port of each node, and the shared one.
    for offset in 0..=3 {
        let [dot, doh] = [cluster.dot(offset), cluster.doh(offset)].map(|address| address.port().to_string());
        for (program, version) in [("kdig", "-V"), ("dig", "-v")] {
            if !is_there(program, &[version]) {
                continue;
            }
            for (port, how) in [(&dot, "+tls"), (&doh, "+https"), (&doh, "+https-get")] {
                for address in &addresses {
                    if program == "dig" && how != "+tls" && *address == "@::1" {
                        // dig 9.18 leaves out the brackets around an IPv6 address in `:authority` (RFC 3986 3.2.2). h2
                        // correctly treats that as a malformed request.
                        continue;
                    }
                    let query_arguments =
                        [address, "-p", port, how, &trusted[0], &trusted[1], "+short", "www.example.test", "A"];
                    assert_eq!(
                        run(program, &query_arguments).trim(),
                        "192.0.2.80",
                        "{program} {how} at {address} {port}"
                    );
                }
            }
        }
        if is_there("curl", &["--version"]) {
            let target = data_encoding::BASE64URL_NOPAD.encode(&query("www.example.test.", Rtype::A).build());
            let url = format!("https://localhost:{doh}/dns-query?dns={target}");
            let headers = run("curl", &["-s", "--http2", "--cacert", &ca, "-D", "-", "-o", "/dev/null", &url]);
            assert!(headers.starts_with("HTTP/2 200") && headers.contains("cache-control: max-age=300"), "{headers}");
            // curl resolves the name itself over HTTPS. No other resolver knows the name, and nothing listens at its
            // address.
            let resolver = format!("https://localhost:{doh}/dns-query");
            let query_arguments =
                ["-sv", "--max-time", "5", "--doh-insecure", "--doh-url", &resolver, "http://ns1.example.test:1/"];
            let shown = Command::new("curl").args(query_arguments).output().unwrap().stderr;
            assert!(String::from_utf8_lossy(&shown).contains("127.0.0.1:1"), "{}", String::from_utf8_lossy(&shown));
        }
    }
    // The commands that `up` prints work as printed.
    for (line, want) in [(" +tls ", "ns1.example.test."), (" +https ", "ns1.example.test."), ("curl ", "hostmaster")] {
        let printed = cluster.wait_for_line(line);
        let words: Vec<&str> = printed.split_whitespace().collect();
        if is_there(words[0], &[if words[0] == "curl" { "--version" } else { "-V" }]) {
            let shown = run("sh", &["-c", &printed]);
            assert!(shown.contains(want), "{printed}: {shown}");
        }
    }
}

#[test]
fn unbound_resolves_over_tls() {
    if !is_there("unbound", &["-V"]) || !is_there("dig", &["-v"]) {
        return;
    }
    let cluster = Cluster::start_encrypted("unbound", 1);
    let scratch = Scratch::new("unbound");
    let resolver = SocketAddr::from((Ipv4Addr::LOCALHOST, cluster.port + 18));
    // It queries one server over TLS, and checks its certificate.
    let lines = format!(
        "server:\n  do-not-query-localhost: no\n  local-zone: \"test.\" nodefault\n  tls-cert-bundle: \"{}\"\n\
         stub-zone:\n  name: \"example.test\"\n  stub-addr: 127.0.0.1@{}#localhost\n  stub-tls-upstream: yes\n",
        ca(&cluster),
        cluster.dot(1).port()
    );
    let setup = Setup { lines, ..Setup::new(scratch.path(), resolver, Vec::new()) };
    let _unbound = start(Kind::Unbound, &setup).unwrap();
    wait_for("an answer of Unbound's", || {
        (dig(resolver, &["www.example.test", "A", "+short"]).trim() == "192.0.2.80").then_some(())
    });
    assert_eq!(dig(resolver, &["a.wild.example.test", "TXT", "+short"]).trim(), "\"from a wildcard\"");
    assert!(dig(resolver, &["nothing.example.test", "A"]).contains("status: NXDOMAIN"));
    assert!(cluster.metric(1, "catamaran_requests_total{transport=\"dot\"}") >= 3);
}

#[test]
fn aioquic_is_answered_over_quic() {
    let python = installed("CATAMARAN_AIOQUIC_PYTHON", "python3");
    if !runs(&python, &["-c", "import aioquic"]) {
        missing(
            "aioquic",
            "python3 -m venv DIR; DIR/bin/pip install aioquic; CATAMARAN_AIOQUIC_PYTHON=DIR/bin/python3",
        );
        return;
    }
    let cluster = Cluster::start_encrypted("aioquic", 1);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/encrypted/doq_client.py");
    for (qname, qtype) in [("www.example.test.", Rtype::A), ("nothing.example.test.", Rtype::A)] {
        let message = query(qname, qtype).build();
        let (port, hex) = (cluster.dot(1).port().to_string(), data_encoding::HEXLOWER.encode(&message));
        let shown = run(&python, &[script, "127.0.0.1", &port, &ca(&cluster), &hex]);
        let want = exchange(Transport::Tcp, cluster.dns(1), &message, WAIT).unwrap();
        assert_eq!(shown.trim(), data_encoding::HEXLOWER.encode(&want), "{qname}");
    }
}

/// A program of this workspace, built beside the program under test. A test run of the whole workspace builds all of
/// them.
fn beside(name: &str) -> Option<PathBuf> {
    let program = Path::new(CATAMARAN).with_file_name(name);
    let is_there = program.is_file() || missing(name, "cargo build --workspace, with the profile of the tests");
    is_there.then_some(program)
}

#[test]
fn catlab_gets_an_answer_to_each_query() {
    let Some(catlab) = beside("catlab") else { return };
    let cluster = Cluster::start_encrypted("lab", 1);
    let (catlab, ca) = (catlab.to_str().unwrap(), ca(&cluster));
    let mut servers =
        vec![("tcp", cluster.dns(1)), ("dot", cluster.dot(1)), ("doh", cluster.doh(1)), ("doq", cluster.dot(1))];
    if std::net::UdpSocket::bind("[::1]:0").is_ok() {
        // No other client here uses IPv6 with QUIC.
        servers.push(("doq", SocketAddr::from((Ipv6Addr::LOCALHOST, cluster.dot(1).port()))));
    }
    for (transport, server) in servers {
        let server = server.to_string();
        let mut arguments = vec!["load", "--server", &server, "--transport", transport, "--ca", &ca];
        arguments.extend(["--tls-name", "localhost", "--name", "www.example.test", "--types", "A"]);
        arguments.extend(["--rate", "1000", "--duration", "2s", "--workers", "1", "--connections", "10"]);
        arguments.extend(["--queries-per-connection", "50", "--resumption", "0.5", "--expect-rcode", "NOERROR"]);
        // Its send lag depends on the load of the machine, and is not tested here.
        arguments.extend(["--lag-limit", "10s"]);
        let shown = run(catlab, &arguments);
        let answered = shown.lines().find(|line| line.starts_with("answered")).unwrap_or_default();
        assert!(answered.contains("(100.000 %)"), "{transport} at {server}: {shown}");
    }
}

#[test]
fn http2_conforms() {
    let h2spec = installed("CATAMARAN_H2SPEC", "h2spec");
    if !runs(&h2spec, &["--version"]) {
        missing("h2spec", "go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible");
        return;
    }
    let cluster = Cluster::start_encrypted("h2spec", 1);
    let port = cluster.doh(1).port().to_string();
    let target = data_encoding::BASE64URL_NOPAD.encode(&query("www.example.test.", Rtype::A).build());
    let path = format!("/dns-query?dns={target}");
    let output = Command::new(&h2spec)
        .args(["-h", "127.0.0.1", "-p", &port, "-t", "-k", "-P", &path, "-o", "5"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{shown}");
    let summary = shown.lines().rfind(|line| line.contains(" tests, ")).unwrap_or_else(|| panic!("{shown}")).to_owned();
    assert!(summary.contains(" 0 failed"), "{summary}");
}
