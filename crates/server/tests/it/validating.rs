//! `delv`: a client that validates signatures, and rejects answers that lack one.

use crate::support::cluster::{Cluster, Scratch};
use crate::support::tools::has;
use std::process::{Command, Stdio};

const ZONE: &str = "$TTL 300
@ SOA ns hostmaster 1 3600 600 86400 60
@ NS ns
@ TXT \"apex\"
ns A 127.0.0.1
www A 192.0.2.80
www AAAA 2001:db8::80
alias CNAME www
other CNAME elsewhere
elsewhere CNAME www
*.wild TXT \"from a wildcard\"
a.b.deep A 192.0.2.81
x.short DNAME deep
";

fn tool(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Signs a zone in a folder. Returns the zone file and the file of trust anchors.
fn sign(scratch: &Scratch, zone: &str, denial: &[&str]) -> (String, String) {
    let file = scratch.file(&format!("{zone}.zone"), ZONE);
    let folder = scratch.path().to_str().unwrap();
    let keygen = |flags: &[&str]| {
        tool(Command::new("dnssec-keygen").args(["-q", "-a", "ECDSAP256SHA256", "-K", folder]).args(flags).arg(zone))
    };
    let (key_signing, _zone_signing) = (keygen(&["-f", "KSK"]), keygen(&[]));
    let signed = format!("{file}.signed");
    let mut sign = Command::new("dnssec-signzone");
    sign.args(["-S", "-q", "-K", folder, "-d", folder, "-o", zone, "-f", &signed]).args(denial).arg(&file);
    tool(&mut sign);
    let key = std::fs::read_to_string(scratch.path().join(format!("{key_signing}.key"))).unwrap();
    let key = key.lines().find(|line| !line.starts_with(';')).unwrap();
    let words: Vec<&str> = key.split_whitespace().skip_while(|word| *word != "DNSKEY").collect();
    let [flags, protocol, algorithm] = [1, 2, 3].map(|at| words[at]);
    let bytes = words[4..].concat();
    let trusted = format!("trust-anchors {{ \"{zone}\" static-key {flags} {protocol} {algorithm} \"{bytes}\"; }};\n");
    (signed, scratch.file(&format!("{zone}.keys"), &trusted))
}

#[test]
fn delv_validates_every_kind_of_answer() {
    if !["delv", "dnssec-signzone", "dnssec-keygen"].into_iter().all(has) {
        return;
    }
    let scratch = Scratch::new("delv");
    let cluster = Cluster::start("delv", 1, &[]);
    let zones: [(&str, &[&str]); 2] = [("nsec.test", &[]), ("nsec3.test", &["-3", "ab12", "-H", "0"])];
    for (zone, denial) in zones {
        let (file, trusted) = sign(&scratch, zone, denial);
        let added = cluster.run(&["zone", "add", &format!("{zone}={file}")]);
        assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
        let server = cluster.dns(1);
        let ask = |owner: &str, rtype: &str, flags: &[&str]| {
            let mut delv = Command::new("delv");
            delv.args([format!("@{}", server.ip()), "-p".into(), server.port().to_string(), "-a".into()]);
            delv.args([trusted.clone(), format!("+root={zone}")]).args(flags);
            let output = delv.args([format!("{owner}{zone}"), rtype.into()]).stdin(Stdio::null()).output().unwrap();
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat()
        };
        for (owner, rtype, wanted) in [
            ("www.", "A", "192.0.2.80"),
            ("www.", "AAAA", "2001:db8::80"),
            ("", "SOA", "hostmaster"),
            ("", "DNSKEY", "257 3 13"),
            ("alias.", "A", "192.0.2.80"),
            ("other.", "A", "192.0.2.80"),
            ("a.wild.", "TXT", "from a wildcard"),
            ("b.c.wild.", "TXT", "from a wildcard"),
            ("a.b.deep.", "A", "192.0.2.81"),
            ("a.b.x.short.", "A", "192.0.2.81"),
        ] {
            for flags in [&[][..], &["+tcp"]] {
                let printed = ask(owner, rtype, flags);
                let is_right = printed.contains("; fully validated") && printed.contains(wanted);
                assert!(is_right && !printed.contains("unsigned"), "{owner}{zone} {rtype} {flags:?}: {printed}");
            }
        }
        for (owner, rtype, wanted) in [
            ("nothing.", "A", "ncache nxdomain"),
            ("x.y.nothing.", "A", "ncache nxdomain"),
            ("www.", "MX", "ncache nxrrset"),
            ("a.wild.", "A", "ncache nxrrset"),
            // An empty non-terminal.
            ("b.deep.", "A", "ncache nxrrset"),
        ] {
            let printed = ask(owner, rtype, &[]);
            let is_right = printed.contains("negative response, fully validated") && printed.contains(wanted);
            assert!(is_right, "{owner}{zone} {rtype}: {printed}");
        }
    }
    // A client with another trust anchor accepts no answer.
    let other = Scratch::new("delv-other");
    let (_, wrong) = sign(&other, "nsec.test", &[]);
    let server = cluster.dns(1);
    let mut delv = Command::new("delv");
    delv.args([format!("@{}", server.ip()), "-p".into(), server.port().to_string(), "-a".into(), wrong]);
    let output = delv.args(["+root=nsec.test", "www.nsec.test", "A"]).stdin(Stdio::null()).output().unwrap();
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(!printed.contains("fully validated") && printed.contains("resolution failed"), "{printed}");
}
