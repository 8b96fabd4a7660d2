//! Rules that depend on an external daemon: with daemons that answer, are silent, and do not exist. Also the queries of
//! `named`.

use super::key;
use super::named::{Draw, Servers, Set, case, sources};
use crate::support::cluster::{Cluster, Scratch, text, wait_for};
use crate::support::tools::{has, nsupdate, update};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use wire::number::Rcode;

/// A query to the daemon: signer, name, address, type.
type DaemonQuery = [String; 4];

/// A daemon, and the queries that it received.
struct Daemon {
    path: String,
    asked: Arc<Mutex<Vec<DaemonQuery>>>,
}

impl Daemon {
    /// Answers with the result of `say`. If there is none, the connection stays open without an answer.
    fn start(scratch: &Scratch, say: fn(&DaemonQuery) -> Option<u32>) -> Self {
        // `named` parses the path as a name, so no label of it may be longer than 63 bytes.
        let path = scratch.path().join(".s");
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let asked = Arc::<Mutex<Vec<DaemonQuery>>>::default();
        let log = asked.clone();
        std::thread::spawn(move || {
            let mut open = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(question) = read(&mut stream) else { continue };
                let answer = say(&question);
                log.lock().unwrap().push(question);
                match answer {
                    Some(number) => drop(stream.write_all(&number.to_be_bytes())),
                    None => open.push(stream),
                }
            }
        });
        Self { path: path.to_str().unwrap().to_owned(), asked }
    }

    fn take(&self) -> Vec<DaemonQuery> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

/// Reads a request in the format of BIND's manual.
fn read(stream: &mut UnixStream) -> Option<DaemonQuery> {
    let mut head = [0; 8];
    stream.read_exact(&mut head).ok()?;
    assert_eq!(head[..4], [0, 0, 0, 1], "the version");
    let mut rest = vec![0; u32::from_be_bytes(head[4..].try_into().unwrap()) as usize - 8];
    stream.read_exact(&mut rest).ok()?;
    let mut parts = rest.splitn(6, |&byte| byte == 0).map(|part| String::from_utf8_lossy(part).into_owned());
    let mut next = || parts.next().unwrap();
    let asked = [next(), next(), next(), next()];
    let key = next();
    assert!(key.starts_with(&asked[0]) && rest.ends_with(&[0; 4]), "the key, and no token: {key}");
    Some(asked)
}

/// Allows some queries and denies others. The answer does not depend on the client.
fn by_sum(asked: &DaemonQuery) -> Option<u32> {
    let sum: u32 = asked[1].bytes().chain(asked[3].bytes()).map(u32::from).sum();
    Some(u32::from(!sum.is_multiple_of(4)))
}

fn rules(cluster: &Cluster, scratch: &Scratch, text: &str) {
    cluster.done(&["policy", "set", "example.test", &scratch.file("rules", text)]);
    cluster.settle();
}

fn add(cluster: &Cluster, id: u64, key: &Path, owner: &str, rtype: &str) -> Result<String, String> {
    let value = if rtype == "TXT" { "x" } else { "192.0.2.1" };
    nsupdate(cluster.dns(id), key, &format!("update add {owner}.example.test 60 {rtype} {value}"))
}

/// Like [`add`], but the client is not run again after SERVFAIL.
fn add_once(cluster: &Cluster, id: u64, key: &Path, owner: &str, rtype: &str) -> Result<String, String> {
    let value = if rtype == "TXT" { "x" } else { "192.0.2.1" };
    update("nsupdate", cluster.dns(id), key, &format!("update add {owner}.example.test 60 {rtype} {value}"))
}

fn is_refused(outcome: &Result<String, String>) -> bool {
    outcome.as_ref().is_err_and(|printed| printed.contains("REFUSED"))
}

#[test]
fn a_daemon_decides_through_each_node_and_silence_denies_the_update() {
    if !has("nsupdate") {
        return;
    }
    let scratch = Scratch::new("external");
    let daemon = Daemon::start(&scratch, |asked| Some(u32::from(asked[1].starts_with("yes"))));
    let cluster = Cluster::start("external", 3, &[]);
    let (dhcp, other) = (key(&cluster, &scratch, "dhcp"), key(&cluster, &scratch, "other"));
    let external = format!("grant other zonesub;\ngrant \"local:{}\" external * A;\n", daemon.path);
    rules(&cluster, &scratch, &external);
    let none = |id| cluster.metric(id, "catamaran_external_questions_total{answer=\"none\"}");
    for id in cluster.ids() {
        // On a busy machine the daemon may answer too late. The node denies the update and counts that.
        wait_for("an answer of the daemon in time", || {
            let late = none(id);
            let said = add(&cluster, id, &dhcp, &format!("yes{id}"), "A");
            assert!(said.is_ok() || (is_refused(&said) && none(id) > late), "node {id}: {said:?}");
            said.ok()
        });
        for (owner, rtype) in [("no", "A"), ("yes", "TXT")] {
            let said = add(&cluster, id, &dhcp, owner, rtype);
            assert!(is_refused(&said), "node {id}, {owner} {rtype}: {said:?}");
        }
        let mut asked = Vec::new();
        wait_for("both questions", || {
            asked.extend(daemon.take());
            let wanted = [&*format!("yes{id}.example.test"), "no.example.test"];
            wanted.iter().all(|wanted| asked.iter().any(|asked| asked[1] == *wanted)).then_some(())
        });
        // A repeat of an earlier update may come late.
        let names: BTreeSet<String> = asked.iter().map(|asked| asked[1].clone()).collect();
        let mut allowed: BTreeSet<String> = (1..=id).map(|id| format!("yes{id}.example.test")).collect();
        allowed.insert("no.example.test".to_owned());
        assert!(names.is_subset(&allowed), "TXT is not for it: {names:?}");
        assert!(asked.iter().all(|asked| asked[0] == "dhcp" && asked[2].is_empty() && asked[3] == "A"), "{asked:?}");
    }
    let shown = cluster.done(&["policy", "check", "dhcp", "yes.example.test", "A"]);
    assert!(shown.starts_with("depends on the daemon of rule 2 of the zone"), "{shown}");
    assert!(shown.contains(&format!("rule: grant \"local:{}\" external * A;", daemon.path)), "{shown}");

    // A missing daemon, a silent daemon, and a daemon with an invalid answer.
    let silent = Scratch::new("external-silent");
    let odd = Scratch::new("external-odd");
    let silent = (Daemon::start(&silent, |_| None), silent);
    let odd = (Daemon::start(&odd, |_| Some(2)), odd);
    for path in [scratch.path().join("nobody").to_str().unwrap(), &silent.0.path, &odd.0.path] {
        for effect in ["grant", "deny"] {
            // A rule with a failed daemon is not skipped in favor of the rules after it.
            let text = format!("grant other zonesub;\n{effect} \"local:{path}\" external *;\ngrant dhcp zonesub;\n");
            rules(&cluster, &scratch, &text);
            for id in cluster.ids() {
                let said = add(&cluster, id, &dhcp, "yes", "A");
                assert!(is_refused(&said), "{effect} {path}: {said:?}");
                add(&cluster, id, &other, &format!("other{id}"), "A").unwrap();
            }
        }
    }
    assert!(cluster.ids().all(|id| none(id) >= 6), "{:?}", cluster.ids().map(none).collect::<Vec<_>>());
    let of = |answer: &str| cluster.metric(1, &format!("catamaran_external_questions_total{{answer=\"{answer}\"}}"));
    assert!(of("granted") >= 1 && of("denied") >= 1 && of("full") == 0);
}

#[test]
fn updates_of_others_continue_while_a_daemon_is_silent() {
    if !has("nsupdate") {
        return;
    }
    let scratches = ["external-slow", "external-quick"].map(Scratch::new);
    let daemon = Daemon::start(&scratches[0], |_| None);
    let quick = Daemon::start(&scratches[1], |_| Some(1));
    let cluster = Cluster::start("external-slow", 1, &[]);
    let (slow, other) = (key(&cluster, &scratches[0], "slow"), key(&cluster, &scratches[0], "other"));
    let external = |daemon: &Daemon, rtype: &str| format!("grant \"local:{}\" external * {rtype};\n", daemon.path);
    let text = format!("grant other zonesub;\n{}{}", external(&daemon, "A"), external(&quick, "TXT"));
    rules(&cluster, &scratches[0], &text);
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..16)
            .map(|number| {
                let (cluster, slow) = (&cluster, &slow);
                scope.spawn(move || add_once(cluster, 1, slow, &format!("s{number}"), "A"))
            })
            .collect();
        // Each of these updates is at the daemon, or waits for it, while others arrive: under other rules, and for
        // other daemons.
        wait_for("the daemon to be queried", || (!daemon.asked.lock().unwrap().is_empty()).then_some(()));
        for number in 0..8 {
            add_once(&cluster, 1, &other, &format!("o{number}"), "A").unwrap();
            add_once(&cluster, 1, &slow, &format!("t{number}"), "TXT").unwrap();
        }
        let said: Vec<_> = waiting.into_iter().map(|said| said.join().unwrap()).collect();
        // Denied without an answer, or not decided because its turn did not come.
        let had_no_turn = |said: &Result<String, String>| said.as_ref().is_err_and(|said| said.contains("SERVFAIL"));
        assert!(said.iter().all(|said| is_refused(said) || had_no_turn(said)), "{said:?}");
        // The number of each depends on when the clients came.
        assert!(said.iter().any(is_refused), "{said:?}");
        let full = cluster.metric(1, "catamaran_external_questions_total{answer=\"full\"}");
        assert!(full > 0 || !said.iter().any(had_no_turn), "{said:?}");
    });
}

#[test]
fn named_and_we_ask_the_same_and_say_the_same() {
    if !has("named") {
        return;
    }
    let scratch = Scratch::new("ext");
    let daemon = Daemon::start(&scratch, by_sum);
    let apex = "ext.test".to_owned();
    let mut names: Vec<String> =
        ["www", "host", "x.host", "multi", "new", "sub", "a.sub"].map(|label| format!("{label}.{apex}")).into();
    names.push(apex.clone());
    let keys = vec!["alpha".to_owned(), format!("host.{apex}"), format!("sub.{apex}"), "stranger".to_owned()];
    let rules = vec![
        "deny stranger name www.ext.test;".to_owned(),
        format!("grant \"local:{}\" external * ANY;", daemon.path),
        "grant alpha zonesub TXT;".to_owned(),
    ];
    let sets = [Set { apex, names, keys, sources: sources(200), rules }];
    let servers = Servers::start("policy-external", &sets);
    daemon.take();
    let (mut draw, mut counts, mut compared) = (Draw(2136), [0usize; 2], 0);
    for id in 0..150 {
        let case = case(&sets[0], id, &mut draw);
        let (theirs, ours) = servers.ask(&sets[0], &case);
        let what = format!("{} from {} tcp {}: {}", sets[0].keys[case.key], case.source, case.is_tcp, case.words);
        assert_eq!(theirs, ours, "{what}");
        counts[usize::from(ours == Rcode::REFUSED)] += 1;
        // `named` queries record by record and stops at the first denial. The cluster queries for everything that is
        // known to be needed.
        let asked = daemon.take();
        let of_tcp = |asked: &DaemonQuery| !case.is_tcp || asked[2] == case.source.to_string();
        assert!(asked.iter().all(of_tcp), "{what}: {asked:?}");
        // `named` also does not check the deletion of a PTR that does not exist. The cluster queries before it knows
        // that.
        if ours == Rcode::NOERROR && !what.contains("PTR") {
            let words = |asked: &DaemonQuery| [0, 1, 3].map(|part| asked[part].clone());
            let mut times = BTreeMap::<_, usize>::new();
            asked.iter().for_each(|asked| *times.entry(words(asked)).or_default() += 1);
            assert!(times.values().all(|&times| times >= 2), "only one server queried the daemon: {what}: {asked:?}");
            compared += usize::from(!asked.is_empty());
        }
    }
    assert!(counts.iter().all(|&count| count >= 20) && compared >= 10, "{counts:?} {compared}");
    // `policy import` has imported the rule unchanged.
    let shown = servers.cluster.done(&["policy", "show", "ext.test"]);
    assert!(shown.contains(&format!("grant \"local:{}\" external * ANY;", daemon.path)), "{shown}");
    let shown = servers.cluster.run(&["policy", "check", "stranger", "www.ext.test", "A"]);
    assert!(text(&shown).starts_with("denied by rule 1 of the zone"), "{}", text(&shown));
}
