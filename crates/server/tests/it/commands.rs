//! The commands that talk to a cluster, and its API.

use crate::support::cluster::{CATAMARAN, Cluster, Scratch, kill, text, wait_for};
use crate::support::dns::{Transport, exchange};
use crate::support::http;
use crate::support::message::{describe, name};
use crate::support::pipeline::outcome_of;
use crate::support::ports::free_ports;
use crate::support::tools::{dig, has, nsupdate};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;
use wire::Rtype;
use wire::builder::MessageBuilder;

const ZONE: &str = "$TTL 60\n@ IN SOA ns h 7 1 2 3 4\n@ NS ns\nns A 192.0.2.53\nold TXT \"old\"\n";

#[test]
fn zones_are_added_compared_replaced_exported_and_removed() {
    let scratch = Scratch::new("commands");
    let file = format!("zone.test={}", scratch.file("db", ZONE));
    let cluster = Cluster::start("commands", 3, &[]);
    let done = cluster.run(&["zone", "add", &file]);
    assert!(done.status.success(), "{}", text(&done));
    let again = cluster.run(&["zone", "add", &file]);
    assert_eq!(again.status.code(), Some(5));
    assert!(text(&again).contains("already exists") && text(&again).contains("zone replace"), "{}", text(&again));

    let new = format!(
        "zone.test={}",
        scratch.file("new", &ZONE.replace(" 7 ", " 8 ").replace("old TXT \"old\"", "new TXT \"new\""))
    );
    let unasked = cluster.run(&["zone", "replace", &new]);
    assert_eq!(unasked.status.code(), Some(2), "it cannot ask for confirmation: {}", text(&unasked));
    assert!(
        text(&unasked).contains("- old.zone.test.") && text(&unasked).contains("+ new.zone.test."),
        "{}",
        text(&unasked)
    );
    assert!(text(&unasked).contains("deleted 2, added 2"), "{}", text(&unasked));
    let list = cluster.run(&["zone", "list"]);
    assert!(text(&list).contains("zone zone.test.: serial 7, 4 records"), "{}", text(&list));
    let replaced = cluster.run(&["zone", "replace", &new, "--yes"]);
    assert!(replaced.status.success(), "{}", text(&replaced));
    let nothing = cluster.run(&["zone", "replace", &new, "--yes"]);
    assert!(text(&nothing).contains("no difference"), "{}", text(&nothing));

    let export = cluster.run(&["zone", "export", "zone.test"]);
    let exported = String::from_utf8_lossy(&export.stdout).into_owned();
    assert!(exported.starts_with("zone.test.\t60\tIN\tSOA\t") && exported.contains("new.zone.test."), "{exported}");
    let check = Command::new(CATAMARAN).args(["zone", "check", &scratch.file("exported", &exported)]).output().unwrap();
    assert!(text(&check).contains("zone zone.test.: serial 8, 4 records, can be served"), "{}", text(&check));

    // A file with an older serial: the zone's serial increases anyway. The command says so before and after.
    let older = format!("zone.test={}", scratch.file("older", &ZONE.replace(" 7 ", " 3 ")));
    let replaced = text(&cluster.run(&["zone", "replace", &older, "--yes"]));
    assert!(replaced.contains("note: serial 3 of the file is not newer than 8"), "{replaced}");
    assert!(replaced.contains("zone zone.test. replaced, serial 9"), "{replaced}");

    cluster.settle();
    let removed = cluster.run(&["zone", "remove", "zone.test", "--yes"]);
    assert!(removed.status.success(), "{}", text(&removed));
    let gone = cluster.run(&["zone", "export", "zone.test"]);
    assert_eq!(gone.status.code(), Some(5), "{}", text(&gone));
    for id in cluster.ids() {
        let query = MessageBuilder::query(1, name("new.zone.test.").as_ref(), Rtype::TXT).edns(1232, false).build();
        wait_for("its end on each node", || {
            let response = exchange(Transport::Udp, cluster.dns(id), &query, Duration::from_secs(1))?;
            (describe(&query, &response) == "REFUSED, question, opt, ede 20").then_some(())
        });
    }
}

#[test]
fn a_file_with_an_error_changes_nothing_and_the_message_has_its_line() {
    let scratch = Scratch::new("reload");
    let cluster = Cluster::start("reload", 3, &["--zone", &format!("zone.test={}", scratch.file("db", ZONE))]);
    let state = || {
        let (hash, status) = (cluster.settle(), cluster.status(1).unwrap());
        let [term, index] = ["term", "applied_index"].map(|field| status[field].as_u64().unwrap());
        (hash, status["zones"].clone(), term, index)
    };
    let (hash, zones, term, index) = state();
    let mut lines: Vec<&str> = ZONE.lines().collect();
    lines.push("late A 192.0.2.256");
    let bad = scratch.file("bad", &lines.join("\n"));
    let replaced = cluster.run(&["zone", "replace", &format!("zone.test={bad}"), "--yes"]);
    assert_eq!(replaced.status.code(), Some(3), "{}", text(&replaced));
    assert!(text(&replaced).contains(&format!("{bad}:{}:8: ", lines.len())), "{}", text(&replaced));
    // The API also refuses a body that the command line would not send.
    let answer = http::request(
        cluster.api(2),
        "PUT",
        "/v1/zone?zone=zone.test.&base=0",
        Some(&cluster.token()),
        lines.join("\n").as_bytes(),
    )
    .unwrap();
    assert_eq!(answer.status, 422, "{}", answer.text());
    let (hash_after, zones_after, term_after, index_after) = state();
    assert_eq!((hash_after, zones_after), (hash, zones));
    // An election adds an empty entry.
    assert!(term_after > term || index_after == index, "{index}, {index_after}");
    let query = MessageBuilder::query(1, name("old.zone.test.").as_ref(), Rtype::TXT).build();
    for id in cluster.ids() {
        let response = exchange(Transport::Udp, cluster.dns(id), &query, Duration::from_secs(5)).unwrap();
        assert_eq!(describe(&query, &response), "NOERROR, question, answer 1", "the old version is not served");
    }
}

#[test]
fn zone_check_names_file_line_and_reason() {
    let scratch = Scratch::new("check");
    for (name, zone, line, reason) in [
        (
            "address",
            ZONE.replace("192.0.2.53", "192.0.2.530"),
            4,
            "A address: expected an IPv4 address such as 192.0.2.1, found \"192.0.2.530\"",
        ),
        ("soa", ZONE.replace("@ IN SOA ns h 7 1 2 3 4\n", ""), 0, "SOA"),
        ("cname", format!("{ZONE}old CNAME ns\n"), 5, "CNAME"),
        ("nsec3", format!("{ZONE}@ NSEC3PARAM 1 0 151 -\n"), 6, "iterations"),
    ] {
        let file = scratch.file(name, &zone);
        let output = Command::new(CATAMARAN).args(["zone", "check", &format!("zone.test={file}")]).output().unwrap();
        let printed = text(&output);
        assert_eq!(output.status.code(), Some(3), "{printed}");
        let position = if line == 0 { file.clone() } else { format!("{file}:{line}:") };
        assert!(printed.contains(&position) && printed.contains(reason), "{name}: {printed}");
    }
    let missing = Command::new(CATAMARAN).args(["zone", "check", "/does/not/exist"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(3), "{}", text(&missing));
    assert!(text(&missing).contains("why:   cannot read /does/not/exist: No such file"), "{}", text(&missing));
    let nameless = scratch.file("nameless", "@ 60 IN SOA ns h 1 2 3 4 5\n");
    let printed = text(&Command::new(CATAMARAN).args(["zone", "check", &nameless]).output().unwrap());
    assert!(printed.contains(":1:1: owner: \"@\" is relative, and there is no origin"), "{printed}");
    assert!(printed.contains(&format!("try:   give its origin: `ORIGIN={nameless}`")), "{printed}");
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    let scratch = Scratch::new("key-readers");
    // The file has no secret, so the command ends with an error even if it reads the file.
    let key = scratch.file("home.key", "key home { algorithm hmac-sha256; };\n");
    let config = "zone = \"example.test\"\nservers = [\"127.0.0.1:1\"]\nkey_file = \"home.key\"\n\
                  [[name]]\nname = \"home.example.test\"\ninterfaces = [\"none\"]\n";
    let config = scratch.file("ddns.toml", config);
    let says_so = |mode: u32| {
        std::fs::set_permissions(&key, PermissionsExt::from_mode(mode)).unwrap();
        let output = Command::new(CATAMARAN).args(["ddns", "--config", &config, "--dry-run"]).output().unwrap();
        let printed = text(&output);
        assert_eq!(output.status.code(), Some(3), "{mode:o}: {printed}");
        let is_refused = printed.contains("other users may read");
        assert_eq!(is_refused, printed.contains("chmod 600"), "{mode:o}: {printed}");
        is_refused
    };
    assert!([0o644, 0o640, 0o604, 0o620].into_iter().all(says_so));
    assert!(![0o600, 0o400].into_iter().any(says_so));
}

#[test]
fn keys_are_made_granted_listed_and_removed() {
    let cluster = Cluster::start("keys", 3, &[]);
    let made = cluster.run(&["key", "add", "dhcp", "--update", "--zone", "example.test"]);
    assert!(made.status.success(), "{}", text(&made));
    let scratch = Scratch::new("keys");
    let file = scratch.file("dhcp.key", &String::from_utf8_lossy(&made.stdout));
    let list = text(&cluster.run(&["key", "list"]));
    assert!(list.contains("key dhcp. hmac-sha256: update on example.test."), "{list}");
    assert!(list.contains("key update.catamaran. hmac-sha256: update on all zones, transfer on all zones"), "{list}");
    assert!(
        !list.contains(String::from_utf8_lossy(&made.stdout).split('"').nth(3).unwrap()),
        "a secret is never listed"
    );
    let taken = cluster.run(&["key", "add", "dhcp", "--update"]);
    assert_eq!(taken.status.code(), Some(5), "{}", text(&taken));
    // A failed grant leaves no new key behind, and removes no existing key.
    let nowhere = cluster.run(&["key", "add", "half", "--update", "--zone", "nowhere.test"]);
    assert_eq!(nowhere.status.code(), Some(5), "{}", text(&nowhere));
    let again = cluster.run(&["key", "add", "--file", &file, "--update", "--zone", "nowhere.test"]);
    assert_eq!(again.status.code(), Some(5), "{}", text(&again));
    assert_eq!(text(&cluster.run(&["key", "list"])), list);
    if has("dig") && has("nsupdate") {
        cluster.settle();
        let line = "zone example.test.\nupdate add dhcp.example.test. 60 A 192.0.2.7";
        nsupdate(cluster.dns(3), file.as_ref(), line).unwrap();
        // The key has no grant for transfers.
        let transfer = dig(cluster.dns(1), &["-k", &file, "example.test", "AXFR"]);
        assert!(transfer.contains("Transfer failed"), "{transfer}");
        let removed = cluster.run(&["key", "remove", "dhcp"]);
        assert!(removed.status.success(), "{}", text(&removed));
        cluster.settle();
        assert!(nsupdate(cluster.dns(2), file.as_ref(), line).unwrap_err().contains("BADKEY"));
    }
}

#[test]
fn the_api_guards_changes_and_speaks_json() {
    let cluster = Cluster::start("api", 1, &[]);
    let api = cluster.api(1);
    let token = cluster.token();
    for path in ["/healthz", "/metrics", "/v1/status", "/v1/zones"] {
        assert_eq!(http::get(api, path).unwrap().status, 200, "{path}");
    }
    let health = http::get(api, "/healthz").unwrap().json().unwrap();
    assert_eq!((&health["healthy"], &health["serving"]), (&true.into(), &"yes".into()));
    let zone = "/v1/zone?zone=example.test.";
    for (method, path) in [
        ("GET", zone),
        ("POST", zone),
        ("PUT", zone),
        ("DELETE", zone),
        ("GET", "/v1/keys"),
        ("POST", "/v1/keys"),
        ("DELETE", "/v1/keys?name=a"),
        ("DELETE", "/v1/nodes?node=1"),
        ("POST", "/v1/tokens"),
    ] {
        for wrong in [None, Some("wrong"), Some(&token[1..])] {
            let answer = http::request(api, method, path, wrong, b"").unwrap();
            assert_eq!(answer.status, 401, "{method} {path}");
            assert!(answer.head.to_ascii_lowercase().contains("www-authenticate: bearer"), "{}", answer.head);
            let error = answer.json().unwrap();
            assert!(error["error"].is_string() && error["hint"].as_str().unwrap().contains("api.token"), "{error}");
        }
    }
    let export = http::request(api, "GET", zone, Some(&token), b"").unwrap();
    assert!(
        export.status == 200
            && export.text().contains("www.example.test.")
            && export.head.contains("catamaran-zone-hash")
    );
}

#[test]
fn the_api_refuses_bad_requests_with_an_error_and_a_hint() {
    let cluster = Cluster::start("api-refusals", 1, &[]);
    let (api, token) = (cluster.api(1), cluster.token());
    let zone = "/v1/zone?zone=example.test.";
    for (method, path, body, status) in [
        ("GET", "/nothing", &b""[..], 404),
        ("PATCH", "/v1/zones", b"", 405),
        ("GET", "/v1/zone", b"", 400),
        ("GET", "/v1/zone?zone=a..b", b"", 400),
        ("GET", "/v1/zone?zone=unknown.", b"", 404),
        ("POST", zone, b"not a zone file", 422),
        ("POST", "/v1/zone?zone=other.", b"example.test. 1 IN SOA a b 1 1 1 1 1", 422),
        ("POST", zone, b"example.test. 1 IN SOA a. b. 1 1 1 1 1\nexample.test. 1 IN NS a.\n", 409),
        ("PUT", zone, b"example.test. 1 IN SOA a. b. 1 1 1 1 1\nexample.test. 1 IN NS a.\n", 400),
        (
            "PUT",
            "/v1/zone?zone=example.test.&base=0",
            b"example.test. 1 IN SOA a. b. 1 1 1 1 1\nexample.test. 1 IN NS a.\n",
            409,
        ),
        ("POST", "/v1/keys", b"{", 400),
        ("POST", "/v1/keys", b"{\"name\":\"a\",\"algorithm\":\"hmac-md4\"}", 400),
        (
            "POST",
            "/v1/keys",
            b"{\"name\":\"a\",\"algorithm\":\"hmac-md5\",\"secret\":\"AAAAAAAAAAAAAAAAAAAAAA==\"}",
            400,
        ),
        ("POST", "/v1/keys", b"{\"name\":\"a\",\"algorithm\":\"hmac-sha256\",\"colour\":1}", 400),
        ("DELETE", "/v1/keys?name=nobody", b"", 404),
        ("POST", "/v1/keys", &vec![b'x'; 70_000], 413),
    ] {
        let answer = http::request(api, method, path, Some(&token), body).unwrap();
        let error = answer.json().unwrap_or_default();
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text());
        assert!(
            error["error"].is_string() && error["hint"].as_str().is_some_and(|hint| !hint.is_empty()),
            "{method} {path}: {error}"
        );
    }
}

#[test]
fn a_presigned_zone_refuses_updates() {
    let scratch = Scratch::new("presigned");
    let key = concat!(
        "AwEAAbOFAxl+Lkt0UMglZizKEC1AxUu8zlj65KYatR5wBWMrh18TYzK/ig6Y1t5YTWCO68bynorpNu9fqNFALX7bVl9/gybA0v0E",
        "hF+dgXmoUfRX7ksMGgBvtfa2/Y9a3klXNLqkTszIQ4PEMVCjtryl19Be9/PkFeC9ITjgMRQsQhmB39eyMYnal+f3bUxKk4fq7cuE",
        "U0dbRpue4H/N6jPucXWOwiMAkTJhghqgy+o9FfIp+tR/emKao94/wpVXDcPf5B18j7xz2SvTTxiuqCzCMtsxnikZHcoh1j4g+Y1B",
        "8zIMIvrEM+pZGhh/Yuf4RwCBgaYCi9hpiMWVvS4WBzx0/lU=",
    );
    let file = format!("zone.test={}", scratch.file("db", &format!("{ZONE}@ DNSKEY 256 3 8 {key}\n")));
    let cluster = Cluster::start("presigned", 1, &["--zone", &file]);
    let list = text(&cluster.run(&["zone", "list"]));
    assert!(list.contains("presigned"), "{list}");
    let before = cluster.settle();
    let message = MessageBuilder::update(3, name("zone.test.").as_ref())
        .add(name("a.zone.test.").as_ref(), Rtype::A, 1, &[1, 2, 3, 4])
        .build();
    let message = crate::support::message::sign(&cluster.client_key(), message, 0);
    let response = outcome_of(Transport::Udp, cluster.dns(1), &message);
    assert_eq!(describe(&message, &response), "REFUSED, question, tsig noerror, mac");
    assert_eq!(cluster.settle(), before);
}

#[test]
fn limits_of_a_zone_hold_for_files_and_for_updates_with_any_key() {
    let scratch = Scratch::new("zone-limits");
    let file = format!("zone.test={}", scratch.file("db", ZONE));
    let cluster = Cluster::start("zone-limits", 2, &[]);
    let longer = cluster.run(&["zone", "add", &file, "--ttl-max", "1"]);
    assert!(!longer.status.success());
    let why = ": the TTL is longer than the zone allows (zone set --ttl-max): at most ";
    assert!(text(&longer).contains(why) && text(&longer).contains("zone.test. "), "{}", text(&longer));
    let options = ["--serial", "date", "--ttl-max", "86400", "--rrset-records-max", "2", "--records-max", "6"];
    let added = cluster.run(&[&["zone", "add", &file][..], &options].concat());
    assert!(added.status.success(), "{}", text(&added));
    let list = text(&cluster.run(&["zone", "list"]));
    let shown = "4 records, serial date, ttl-max 86400, rrset-records-max 2, records-max 6";
    assert!(list.contains(shown), "{list}");

    let more = |owner: &str, ttl, count: u8| {
        let zone = MessageBuilder::update(3, name("zone.test.").as_ref()).edns(1232, false);
        let add = |builder: MessageBuilder, n| builder.add(name(owner).as_ref(), Rtype::A, ttl, &[1, 2, 3, n]);
        let message = crate::support::message::sign(&cluster.client_key(), (0..count).fold(zone, add).build(), 0);
        describe(&message, &outcome_of(Transport::Udp, cluster.dns(2), &message))
    };
    let (done, refused) =
        ("NOERROR, question, opt, tsig noerror, mac", "REFUSED, question, opt, ede 18, tsig noerror, mac");
    let over = scratch.file("over", &(ZONE.replace("h 7", "h 8") + "long 86401 A 192.0.2.1\n"));
    let replaced = cluster.run(&["zone", "replace", &format!("zone.test={over}"), "--yes"]);
    assert!(!replaced.status.success() && text(&replaced).contains(why), "{}", text(&replaced));
    assert_eq!(more("a.zone.test.", 86_401, 1), refused);
    assert_eq!(more("a.zone.test.", 60, 3), refused);
    assert_eq!(more("a.zone.test.", 60, 2), done);
    assert_eq!(more("b.zone.test.", 60, 1), refused, "seven records");
    let today = text(&std::process::Command::new("date").args(["-u", "+serial %Y%m%d"]).output().unwrap());
    let list = text(&cluster.run(&["zone", "list"]));
    assert!(list.contains(&format!("zone zone.test.: {}", today.trim())), "{today}: {list}");

    // Existing records may stay: a lower limit only refuses growth, and 0 removes the limit.
    let set = |words: &[&str]| {
        let output = cluster.run(&[&["zone", "set", "zone.test"][..], words].concat());
        assert!(output.status.success(), "{}", text(&output));
    };
    set(&["--records-max", "5"]);
    assert_eq!(more("b.zone.test.", 60, 1), refused);
    set(&["--records-max", "0"]);
    // This is a different name, because the same message within a second is a retransmission and gets the previous
    // response.
    assert_eq!(more("d.zone.test.", 60, 1), done);
    assert_eq!(more("c.zone.test.", 60, 3), refused, "the other limits stay");
}

#[test]
fn a_zone_with_stale_expire_ends_on_a_node_that_hears_no_leader() {
    let scratch = Scratch::new("expire");
    // EXPIRE is 15 seconds.
    let file = format!("zone.test={}", scratch.file("db", &ZONE.replace("7 1 2 3 4", "7 1 1 15 4")));
    let cluster = Cluster::start("expire", 3, &[]);
    let added = cluster.run(&["zone", "add", &file, "--stale", "expire", "--serial", "unixtime"]);
    assert!(added.status.success(), "{}", text(&added));
    let list = text(&cluster.run(&["zone", "list"]));
    assert!(list.contains("zone zone.test.: serial 7, 4 records, serial unixtime, stale expire"), "{list}");
    cluster.settle();
    let query = |qname: &str, rtype| MessageBuilder::query(1, name(qname).as_ref(), rtype).edns(1232, false).build();
    let (expiring, other) = (query("old.zone.test.", Rtype::TXT), query("www.example.test.", Rtype::A));
    let ask = |message: &[u8]| {
        let response = exchange(Transport::Udp, cluster.dns(1), message, Duration::from_secs(5)).unwrap();
        describe(message, &response)
    };
    assert_eq!(ask(&expiring), "NOERROR, question, answer 1, opt");
    for id in [2, 3] {
        kill("KILL", cluster.pid(id).unwrap());
    }
    assert_eq!(ask(&expiring), "NOERROR, question, answer 1, opt", "reads do not stop at once");
    wait_for("the end of the zone", || (ask(&expiring) == "SERVFAIL, question, opt, ede 24").then_some(()));
    assert_eq!(ask(&other), "NOERROR, question, answer 1, opt", "the other zone is not served");
    // Secondaries do not get the zone either, because they would count EXPIRE from now (RFC 1035 3.3.13).
    let key = cluster.update_key();
    for (zone, whole) in [("zone.test", false), ("example.test", true)] {
        let printed = dig(cluster.dns(1), &["-k", key.to_str().unwrap(), zone, "AXFR"]);
        assert_eq!(printed.contains("SOA"), whole, "{printed}");
    }
    let set = cluster.run(&["zone", "set", "zone.test", "--stale", "serve"]);
    assert_eq!(set.status.code(), Some(4), "nothing changes without a majority: {}", text(&set));
}

#[test]
fn a_large_zone_is_transferred_in_many_signed_messages() {
    if !has("dig") {
        return;
    }
    let scratch = Scratch::new("large");
    let records: String = (0..20_000).map(|n| format!("n{n} A 10.0.{}.{}\n", n / 256 % 256, n % 256)).collect();
    let file = format!("zone.test={}", scratch.file("db", &(ZONE.to_owned() + &records)));
    let cluster = Cluster::start("large", 1, &["--zone", &file]);
    let key = cluster.update_key();
    let transfer = |qtype: &str| dig(cluster.dns(1), &["-k", key.to_str().unwrap(), "zone.test", qtype]);
    for whole in ["AXFR", "IXFR=6"] {
        let printed = transfer(whole);
        let end = printed.lines().find(|line| line.starts_with(";; XFR size")).unwrap_or("no end");
        // All records, and the SOA once more.
        assert!(
            end.starts_with(";; XFR size: 20005 records (messages ") && !end.contains("(messages 1,"),
            "{whole}: {end}"
        );
        assert!(!printed.contains("Couldn't verify") && !printed.contains("failed"), "{whole}");
        assert!(printed.contains("n19999.zone.test.\t60\tIN\tA\t10.0.78.31"), "{whole}");
    }
    let current = transfer("IXFR=7");
    assert!(current.contains(";; XFR size: 1 records (messages 1"), "{current}");
    assert_eq!(cluster.metric(1, "catamaran_panics_total"), 0);
}

#[test]
fn a_cluster_is_made_by_init_and_grows_by_join() {
    let scratch = Scratch::new("join");
    let port = free_ports(40);
    let address = |offset: u16| format!("127.0.0.1:{}", port + offset);
    let (first, second) = (scratch.path().join("a"), scratch.path().join("b"));
    let (first, second) = (first.to_str().unwrap(), second.to_str().unwrap());
    let run = |arguments: &[&str]| Command::new(CATAMARAN).args(arguments).stdin(Stdio::null()).output().unwrap();
    let made = run(&["init", "--dir", first, "--dns", &address(1), "--peer", &address(11), "--api", &address(21)]);
    assert!(made.status.success(), "{}", text(&made));
    let serve = |dir: &str, node: u64| {
        let config = format!("{dir}/node-{node}/catamaran.toml");
        let log = std::fs::File::create(format!("{dir}/log")).unwrap();
        Running(
            Command::new(CATAMARAN).args(["serve", "--config", &config, "--log", "debug"]).stderr(log).spawn().unwrap(),
        )
    };
    let _one = serve(first, 1);
    let status = |api: &str| http::get(api.parse().unwrap(), "/v1/status").ok()?.json();
    wait_for("node 1", || status(&address(21)).filter(|status| status["leader"] == 1));
    let zone = format!("zone.test={}", scratch.file("db", ZONE));
    // The directory of a node contains the address of its API.
    let added = run(&["zone", "add", &zone, "--dir", first]);
    assert!(added.status.success(), "{}", text(&added));

    let token = run(&["cluster", "add", "--dir", first]);
    assert!(token.status.success(), "{}", text(&token));
    let token = String::from_utf8_lossy(&token.stdout).trim().to_owned();
    let join = |dir: &str| {
        run(&[
            "join",
            "--token",
            &token,
            "--dir",
            dir,
            "--dns",
            &address(2),
            "--peer",
            &address(12),
            "--api",
            &address(22),
        ])
    };
    let joined = join(second);
    assert!(text(&joined).contains("joined as node 2"), "{}", text(&joined));
    let _two = serve(second, 2);
    wait_for("node 2 to catch up", || {
        let status = status(&address(22))?;
        (status["serving"] == "yes"
            && status["zones"][0]["zone"] == "zone.test."
            && status["members"][1]["voter"] == true)
            .then_some(())
    });
    let again = join(scratch.path().join("c").to_str().unwrap());
    assert_eq!(again.status.code(), Some(5), "a token is good once: {}", text(&again));
    assert!(text(&again).contains("the token is unknown, used, revoked or expired"), "{}", text(&again));
    assert!(text(&run(&["status", "--dir", second])).contains("node 2: follower"));
    let query = MessageBuilder::query(1, name("old.zone.test.").as_ref(), Rtype::TXT).build();
    let response = exchange(Transport::Tcp, address(2).parse().unwrap(), &query, Duration::from_secs(5)).unwrap();
    assert_eq!(describe(&query, &response), "NOERROR, question, answer 1");
}

/// A process that is stopped with SIGTERM at the end of the test.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        kill("TERM", self.0.id());
        let _ = self.0.wait();
    }
}
