//! Keys: every node accepts a new key at once, and an administrator can read its secret.

use crate::support::cluster::{Cluster, wait_for};
use crate::support::dns::{Transport, exchange};
use crate::support::http;
use crate::support::message::{describe, name, sign};
use crate::support::pipeline::outcome_of;
use crate::support::tools::{self, nsupdate};
use crate::updates::rcode;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tsig::KeyAlgorithm;
use tsig::client::ClientKey;
use wire::Rtype;
use wire::builder::MessageBuilder;

/// The key in the output of `key add`.
pub(crate) fn client_key(text: &str) -> ClientKey {
    let quoted: Vec<&str> = text.split('"').collect();
    let secret = data_encoding::BASE64.decode(quoted[3].as_bytes()).unwrap();
    ClientKey::new(name(quoted[1]).as_ref(), KeyAlgorithm::HmacSha256, &secret).unwrap()
}

#[test]
fn a_new_key_is_valid_at_every_node_at_once() {
    let cluster = Cluster::start("new-keys", 3, &[]);
    for number in 0..20_u16 {
        let key = client_key(&cluster.done(&["key", "add", &format!("k{number}"), "--update"]));
        for id in cluster.ids() {
            let owner = format!("k{number}-{id}.example.test.");
            let message = MessageBuilder::update(number, name("example.test.").as_ref())
                .add(name(&owner).as_ref(), Rtype::A, 60, &[192, 0, 2, 1])
                .build();
            let message = sign(&key, message, 0);
            // SERVFAIL during an election means that the update was not executed, so the client sends it again. BADKEY
            // and REFUSED would be final.
            let code = wait_for("an outcome", || {
                let response = exchange(Transport::Udp, cluster.dns(id), &message, Duration::from_secs(5))?;
                Some(rcode(&message, &response)).filter(|rcode| *rcode != 2)
            });
            assert_eq!(code, 0, "{owner} through node {id}");
        }
    }
}

/// RFC 8945 6: weak keys for clients that support nothing else. BIND's `nsupdate` signs and verifies.
#[test]
fn a_key_of_a_weak_algorithm_is_taken_only_where_it_is_named() {
    let cluster = Cluster::start("weak-keys", 2, &[]);
    let secret = data_encoding::BASE64.encode(&[7; 32]);
    let has_nsupdate = tools::has("nsupdate");
    for (mnemonic, algorithm) in [
        ("hmac-md5", KeyAlgorithm::HmacMd5),
        ("hmac-sha1", KeyAlgorithm::HmacSha1),
        ("hmac-sha224", KeyAlgorithm::HmacSha224),
    ] {
        let (file, key_name) = (cluster.dir.join(format!("{mnemonic}.key")), format!("of-{mnemonic}"));
        std::fs::write(&file, format!("key {key_name} {{ algorithm {mnemonic}; secret \"{secret}\"; }};\n")).unwrap();
        let add = ["key", "add", "--file", file.to_str().unwrap(), "--update"];
        let other = if mnemonic == "hmac-md5" { "hmac-sha1" } else { "hmac-md5" };
        for refused in [add.to_vec(), [&add[..], &["--allow-weak", other]].concat()] {
            let output = cluster.run(&refused);
            let printed = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(
                !output.status.success() && printed.contains(&format!("{mnemonic} is weak (RFC 8945 6)")),
                "{printed}"
            );
            assert!(printed.contains(&format!("--allow-weak {mnemonic}")), "{printed}");
        }
        let output = cluster.run(&[&add[..], &["--allow-weak", mnemonic]].concat());
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && printed.contains(&format!("warning: {mnemonic} is weak")), "{printed}");
        assert!(cluster.done(&["key", "list"]).contains(&format!("key {key_name}. {mnemonic} (weak): update")));

        let key = ClientKey::new(name(&key_name).as_ref(), algorithm, &[7; 32]).unwrap();
        let message = MessageBuilder::update(9, name("example.test.").as_ref())
            .add(name("weak.example.test.").as_ref(), Rtype::A, 60, &[192, 0, 2, 1])
            .build();
        let message = sign(&key, message, 0);
        let response = outcome_of(Transport::Udp, cluster.dns(1), &message);
        let expected = format!("NOERROR, question, tsig noerror, mac of {}", algorithm.mac_bytes());
        assert_eq!(describe(&message, &response), expected, "{mnemonic}");
        if has_nsupdate {
            let lines = format!("zone example.test.\nupdate add {mnemonic}.example.test. 60 A 192.0.2.2\nsend\n");
            nsupdate(cluster.dns(2), &file, &lines).unwrap_or_else(|error| panic!("{mnemonic}: {error}"));
        }
    }
    // The command makes no key with a weak algorithm, and the API accepts none without `allow_weak`.
    let made = cluster.run(&["key", "add", "new", "--algorithm", "hmac-sha1", "--update"]);
    assert!(String::from_utf8_lossy(&made.stderr).contains("hmac-sha1 is weak"));
}

#[test]
fn short_secrets_are_refused_or_warned_of() {
    let cluster = Cluster::start("short-secrets", 1, &[]);
    let file = |bytes: usize| -> String {
        let secret = data_encoding::BASE64.encode(&vec![7; bytes]);
        let path = cluster.dir.join(format!("short-{bytes}.key"));
        let text = format!("key \"short-{bytes}\" {{ algorithm hmac-sha256; secret \"{secret}\"; }};");
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let add = |bytes: usize, more: &[&str]| {
        let output = cluster.run(&[&["key", "add", "--file", &file(bytes), "--update"], more].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, printed) = add(15, &[]);
    assert_eq!(code, Some(3), "{printed}");
    assert!(printed.contains("its secret has 15 bytes") && printed.contains("--allow-short-secret"), "{printed}");
    let (code, printed) = add(15, &["--allow-short-secret"]);
    assert_eq!(
        (code, printed.contains("warning: the secret has 15 bytes, so it can be guessed")),
        (Some(0), true),
        "{printed}"
    );
    let (code, printed) = add(16, &[]);
    assert_eq!((code, printed.contains("for hmac-sha256 use 32")), (Some(0), true), "{printed}");
    assert_eq!(add(32, &[]), (Some(0), String::new()));
    // The node's API refuses it too.
    let body = format!(r#"{{"name":"raw","algorithm":"hmac-sha256","secret":"{}"}}"#, "AAAA");
    let answer = http::request(cluster.api(1), "POST", "/v1/keys", Some(&cluster.token()), body.as_bytes());
    let answer = answer.unwrap();
    assert!(answer.status == 400 && answer.text().contains("the secret has 3 bytes"), "{}", answer.text());
}

#[test]
fn a_key_that_a_rule_names_is_not_granted_nothing() {
    let cluster = Cluster::start("named-keys", 1, &[]);
    let rules = cluster.dir.join("rules");
    std::fs::write(&rules, "grant ruled zonesub A;\n").unwrap();
    cluster.done(&["policy", "set", "example.test", rules.to_str().unwrap()]);
    let add = |name: &str| String::from_utf8_lossy(&cluster.run(&["key", "add", name]).stderr).into_owned();
    assert!(add("alone").contains("has no grants"));
    let printed = add("ruled");
    assert!(!printed.contains("has no grants"), "{printed}");
    let listed = cluster.done(&["key", "list"]);
    let line = |name: &str| listed.lines().find(|line| line.contains(name)).unwrap_or_default().to_owned();
    assert!(line(" ruled.").ends_with("the rules of example.test."), "{listed}");
    assert!(line(" alone.").ends_with("no grants"), "{listed}");
}

#[test]
fn showing_a_secret_is_written_to_the_audit_log() {
    let cluster = Cluster::start("shown-keys", 1, &[]);
    let first = cluster.done(&["key", "add", "shown", "--update"]);
    assert_eq!(cluster.done(&["key", "show", "shown", "--secret"]), first);
    // Without `--secret` the command does not show it. No other command shows it either.
    assert!(!cluster.run(&["key", "show", "shown"]).status.success());
    let secret = first.split('"').nth(3).unwrap();
    assert!(!cluster.done(&["key", "list"]).contains(secret));
    let second = cluster.done(&["key", "roll", "shown"]);
    let both = cluster.done(&["key", "show", "shown", "--secret"]);
    assert!(both.starts_with(&second) && both.contains(secret), "{both}");
    let unknown = cluster.run(&["key", "show", "nobody", "--secret"]);
    assert!(!unknown.status.success());
    let audit = || std::fs::read_to_string(cluster.dir.join("node-1/data.audit")).unwrap_or_default();
    let of = |action: &str| {
        let line = format!("\"action\":\"{action}\",\"subject\":\"shown.\",");
        audit().lines().filter(|found| found.contains(&line)).count()
    };
    wait_for("all lines", || (of("key show") >= 2 && of("key add") >= 1 && of("key roll") >= 1).then_some(()));
    assert_eq!((of("key show"), of("key add"), of("key roll")), (2, 1, 1), "{}", audit());
    assert!(!audit().contains(secret));
}

/// Whether a file contains these bytes.
fn has(file: &Path, bytes: &[u8]) -> bool {
    std::fs::read(file).unwrap().windows(bytes.len()).any(|window| window == bytes)
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

#[test]
fn no_file_has_a_secret_in_clear() {
    let cluster = Cluster::start("sealed-keys", 1, &[]);
    let made = cluster.done(&["key", "add", "sealed-key", "--update"]);
    let text = made.split('"').nth(3).unwrap();
    let secret = data_encoding::BASE64.decode(text.as_bytes()).unwrap();
    let backup = cluster.dir.join("all.backup");
    cluster.done(&["cluster", "backup", backup.to_str().unwrap()]);
    let files: Vec<PathBuf> = files_below(&cluster.dir).into_iter().filter(|file| file.is_file()).collect();
    // The log and the backup contain the key.
    let naming: Vec<_> = files.iter().filter(|file| has(file, b"sealed-key")).collect();
    assert!(naming.contains(&&backup) && naming.len() > 1, "{naming:?} of {files:?}");
    for file in &files {
        assert!(!has(file, &secret) && !has(file, text.as_bytes()), "{}", file.display());
    }
}
