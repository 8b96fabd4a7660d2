//! Update policies by command and over the wire, through each node.

use crate::keys::client_key;
use crate::support::cluster::{Cluster, Scratch, text, wait_for};
use crate::support::dns::Transport;
use crate::support::message::{describe, name, sign};
use crate::support::pipeline::outcome_of;
use crate::support::tools::{dig, has, nsupdate};
use std::path::{Path, PathBuf};
use wire::Rtype;
use wire::builder::MessageBuilder;

mod external;
mod named;

/// Makes a key without grants, and its file.
fn key(cluster: &Cluster, scratch: &Scratch, name: &str) -> PathBuf {
    PathBuf::from(scratch.file(&format!("{name}.key"), &cluster.done(&["key", "add", name])))
}

/// Adds a third address to a name that may have two. The leader counts them and refuses the update, with the reason in
/// an extended error (RFC 8914).
fn assert_prohibited(cluster: &Cluster, id: u64, key: &Path) {
    let owner = name(&format!("h{id}.example.test."));
    let third = MessageBuilder::update(0, name("example.test.").as_ref());
    let third = third.add(owner.as_ref(), Rtype::A, 60, &[192, 0, 2, 4]).edns(1232, false).build();
    let third = sign(&client_key(&std::fs::read_to_string(key).unwrap()), third, 0);
    let response = outcome_of(Transport::Udp, cluster.dns(id), &third);
    assert_eq!(describe(&third, &response), "REFUSED, question, opt, ede 18, tsig noerror, mac");
}

#[test]
fn rules_apply_through_each_node() {
    if !has("nsupdate") {
        return;
    }
    let scratch = Scratch::new("policy");
    let cluster = Cluster::start("policy", 3, &[]);
    let dhcp = key(&cluster, &scratch, "dhcp");
    let host = key(&cluster, &scratch, "host.example.test");
    let add = |id: u64, key: &PathBuf, line: &str| nsupdate(cluster.dns(id), key, line);
    cluster.settle();
    for id in cluster.ids() {
        let printed = add(id, &dhcp, "update add a.example.test 60 A 192.0.2.1").unwrap_err();
        assert!(printed.contains("REFUSED"), "{printed}");
    }
    let rules = "grant dhcp zonesub A(2) TXT;\ngrant *.example.test self . AAAA;\nlimit dhcp update-records 3;\n";
    let file = scratch.file("rules", rules);
    assert_eq!(cluster.done(&["policy", "set", "example.test", &file]), "replaced the rules of zone example.test.\n");
    assert!(cluster.done(&["policy", "set", "example.test", &file]).contains("did not change"));
    let shown = cluster.done(&["policy", "show"]);
    let head = shown.strip_prefix("# the rules of zone example.test., revision ").unwrap().split_at(16);
    assert!(head.1.starts_with("\ngrant \"dhcp.\" zonesub A(2) TXT;\n"), "{shown}");
    // A change that is based on these rules is refused after another client has changed them.
    let set = |rules: &str, expect: &str| {
        cluster.run(&["policy", "set", "example.test", &scratch.file("others", rules), "--expect", expect])
    };
    let more = format!("{rules}grant dhcp zonesub DHCID;");
    assert!(set(&more, head.0).status.success());
    let refused = set(&format!("{rules}grant dhcp zonesub MX;"), head.0);
    assert!(refused.status.code() == Some(5) && text(&refused).contains("the rules have changed"), "{refused:?}");
    assert!(text(&refused).contains("cannot set the rules of zone example.test."), "{refused:?}");
    assert!(cluster.done(&["policy", "show", "example.test"]).contains("DHCID"));
    let wrong = set(&more, "7");
    assert!(wrong.status.code() == Some(3) && text(&wrong).contains("`7` is not a revision"), "{wrong:?}");
    cluster.done(&["policy", "set", "example.test", &file]);
    // The rules apply on every node at once, also on a node that has not received them yet.
    for id in cluster.ids() {
        for (key, line, is_granted) in [
            (&dhcp, format!("update add h{id}.example.test 60 A 192.0.2.1"), true),
            (&dhcp, format!("update add h{id}.example.test 60 AAAA 2001:db8::1"), false),
            (&dhcp, format!("update add h{id}.example.test 60 A 192.0.2.2"), true),
            (&dhcp, format!("update add h{id}.example.test 60 A 192.0.2.3"), false),
            (
                &dhcp,
                format!("update delete h{id}.example.test A 192.0.2.1\nupdate add h{id}.example.test 60 A 192.0.2.3"),
                true,
            ),
            (&dhcp, "update add example.test 60 NS ns.example.".to_owned(), false),
            (&dhcp, (1..=4).map(|n| format!("update add m{id}.example.test 60 TXT {n}\n")).collect(), false),
            (&host, format!("update add host.example.test 60 AAAA 2001:db8::{id}"), true),
            (&host, "update add ftp.example.test 60 AAAA 2001:db8::1".to_owned(), false),
        ] {
            let outcome = add(id, key, line.trim_end());
            assert_eq!(outcome.is_ok(), is_granted, "node {id}: {line}: {outcome:?}");
            assert!(outcome.is_ok() || outcome.as_ref().unwrap_err().contains("REFUSED"), "{outcome:?}");
        }
        assert_prohibited(&cluster, id, &dhcp);
    }
    cluster.settle();
    for id in cluster.ids() {
        assert_eq!(dig(cluster.dns(id), &["+short", "host.example.test", "AAAA"]).lines().count(), 3);
        assert_eq!(dig(cluster.dns(id), &["+short", "h1.example.test", "A"]).lines().count(), 2);
        assert_eq!(dig(cluster.dns(id), &["+short", "m1.example.test", "TXT"]), "");
    }
    // An empty file removes all rules.
    cluster.done(&["policy", "set", "example.test", &scratch.file("nothing", "")]);
    cluster.settle();
    assert!(add(1, &dhcp, "update add z.example.test 60 A 192.0.2.1").is_err());
    assert!(cluster.done(&["policy", "show", "example.test"]).contains("there are no rules"));
}

#[test]
fn a_decision_is_explained() {
    let scratch = Scratch::new("policy-check");
    let cluster = Cluster::start("policy-check", 1, &[]);
    key(&cluster, &scratch, "dhcp");
    let rules = "deny dhcp name www.example.test;\ngrant dhcp zonesub A(4);\nlimit dhcp name-records 9;\n\
                 grant * tcp-self . PTR(1);";
    cluster.done(&["policy", "set", "example.test", &scratch.file("rules", rules)]);
    cluster.done(&["policy", "set", "--all-zones", &scratch.file("all", "grant dhcp zonesub TXT;")]);
    for (arguments, expected) in [
        (
            ["dhcp", "a.example.test", "A"],
            "granted by rule 2 of the zone, up to 4 records\nzone: example.test.\n\
            rule: grant \"dhcp.\" zonesub A(4);\nlimits of the key: name-records 9\n",
        ),
        (
            ["dhcp", "WWW.example.test", "A"],
            "denied by rule 1 of the zone\nzone: example.test.\n\
            rule: deny \"dhcp.\" name \"www.example.test.\";\n",
        ),
        (
            ["dhcp", "a.example.test", "TXT"],
            "granted by rule 1 for all zones\nzone: example.test.\n\
            rule: grant \"dhcp.\" zonesub TXT;\nlimits of the key: name-records 9\n",
        ),
        (["dhcp", "a.example.test", "MX"], "denied: no rule grants it\nzone: example.test.\n"),
        (
            ["dhcp", "a.example.test", "RRSIG"],
            "denied: only the signer of the zone writes this DNSSEC type, whatever the rules\n\
            zone: example.test.\n",
        ),
        (
            ["nobody", "a.example.test", "A"],
            "denied: no rule grants it\nzone: example.test.\nthe cluster has no key \
            with this name, so updates signed with it are refused\n",
        ),
        (
            ["update.catamaran", "example.test", "SOA"],
            "granted by the grant of updates to the key\nzone: example.test.\n",
        ),
    ] {
        assert_eq!(cluster.done(&[&["policy", "check"][..], &arguments].concat()), expected, "{arguments:?}");
    }
    for (arguments, code, expected) in [
        (["dhcp", "a.elsewhere", "A"], 5, "is not in a zone"),
        (["dhcp", "a..b", "A"], 3, "is not a domain name"),
        (["dhcp", "a.example.test", "NONSENSE"], 3, "unknown type"),
    ] {
        let output = cluster.run(&[&["policy", "check"][..], &arguments].concat());
        assert!(
            output.status.code() == Some(code) && text(&output).contains(expected),
            "{arguments:?}: {}",
            text(&output)
        );
    }
    // Errors contain file, line and column.
    let wrong = scratch.file("wrong", "grant dhcp zonesub;\ngrant dhcp zonesub B;\n");
    let output = cluster.run(&["policy", "set", "example.test", &wrong]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output).contains(&format!("{wrong}:2:20")), "{}", text(&output));
    let output = cluster.run(&["policy", "set", "other.test", &scratch.file("r", "grant k zonesub;")]);
    assert!(output.status.code() == Some(5) && text(&output).contains("no such zone"), "{}", text(&output));
}

#[test]
fn a_key_is_rolled_without_a_moment_in_which_none_signs() {
    if !has("nsupdate") {
        return;
    }
    let scratch = Scratch::new("roll");
    let cluster = Cluster::start("roll", 3, &[]);
    let old = PathBuf::from(scratch.file("old.key", &cluster.done(&["key", "add", "k", "--update"])));
    cluster.settle();
    let add = |id: u64, key: &PathBuf| nsupdate(cluster.dns(id), key, "update add r.example.test 60 TXT r");
    add(1, &old).unwrap();
    let new = PathBuf::from(scratch.file("new.key", &cluster.done(&["key", "roll", "k"])));
    cluster.settle();
    for id in cluster.ids() {
        add(id, &old).unwrap();
        add(id, &new).unwrap();
    }
    assert!(cluster.done(&["key", "list"]).contains("key k. hmac-sha256: update on all zones, two secrets"));
    let again = cluster.run(&["key", "roll", "k"]);
    assert!(again.status.code() == Some(5) && text(&again).contains("already has two secrets"), "{}", text(&again));
    assert_eq!(cluster.done(&["key", "retire", "k"]), "key k. now has one secret\n");
    for id in cluster.ids() {
        wait_for("the old secret to be void", || add(id, &old).err());
        add(id, &new).unwrap();
    }
    // A secret is printed only when it is made.
    let secrets = [&old, &new].map(|file| std::fs::read_to_string(file).unwrap().split('"').nth(3).unwrap().to_owned());
    let listed = cluster.done(&["key", "list"]);
    assert!(secrets.iter().all(|secret| !listed.contains(secret)), "{listed}");
}

#[test]
fn a_grant_is_taken_back_on_all_nodes_and_the_key_stays() {
    if !has("nsupdate") || !has("dig") {
        return;
    }
    let scratch = Scratch::new("revoke");
    let cluster = Cluster::start("revoke", 3, &[]);
    let file = PathBuf::from(scratch.file("k.key", &cluster.done(&["key", "add", "k", "--update"])));
    cluster.settle();
    let add = |id: u64| nsupdate(cluster.dns(id), &file, "update add r.example.test 60 TXT r");
    let transfer = |id: u64| {
        let (ip, port) = (cluster.dns(id).ip().to_string(), cluster.dns(id).port().to_string());
        let file = file.to_str().unwrap();
        let output = std::process::Command::new("dig")
            .args([&format!("@{ip}"), "-p", &port, "-k", file, "example.test", "AXFR"])
            .output()
            .unwrap();
        text(&output).contains("SOA")
    };
    assert!(cluster.ids().all(|id| add(id).is_ok() && !transfer(id)));
    let printed = cluster.done(&["key", "grant", "k", "--transfer", "--zone", "example.test"]);
    assert_eq!(printed, "key k. is now granted transfer on example.test.\n");
    assert!(cluster.ids().all(transfer));
    // The grant for all zones is a different one, and does not exist.
    let other = cluster.run(&["key", "revoke", "k", "--transfer"]);
    assert_eq!(other.status.code(), Some(5), "{}", text(&other));
    assert!(text(&other).contains("has no grant of transfer on all zones"), "{}", text(&other));
    assert!(cluster.ids().all(transfer));
    let printed = cluster.done(&["key", "revoke", "k", "--transfer", "--zone", "example.test"]);
    assert_eq!(printed, "key k. is no longer granted transfer on example.test.\n");
    cluster.done(&["key", "revoke", "k", "--update"]);
    for id in cluster.ids() {
        assert!(!transfer(id) && add(id).is_err_and(|printed| printed.contains("REFUSED")), "node {id}");
    }
    assert!(cluster.done(&["key", "list"]).contains("key k. hmac-sha256: no grants"));
    let nothing = cluster.run(&["key", "revoke", "k"]);
    assert_eq!(nothing.status.code(), Some(2), "{}", text(&nothing));
    let unknown = cluster.run(&["key", "grant", "nobody", "--update"]);
    assert!(!unknown.status.success() && text(&unknown).contains("no such key"), "{}", text(&unknown));
}
