//! `catlab zones`: zones of real traffic, which the checkers and the servers of others take; zones that are harvested,
//! and signed.

mod harvest;
#[path = "../support/namespaces.rs"]
mod machine;
mod sign;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "it is shared with tests that use more of it")]
mod support;

use lab::peers::{Kind, ServedZone, Setup, start};
use machine::{can_make_namespaces, has_program};
use serde_json::Value;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use support::{Folder, data};
use wire::builder::MessageBuilder;
use wire::number::{Class, Rtype};
use wire::parse::{Header, Message, Section};

const CATLAB: &str = env!("CARGO_BIN_EXE_catlab");

fn run(arguments: &[&str]) -> Output {
    Command::new(CATLAB).args(["zones", "build"]).args(arguments).output().unwrap()
}

/// Builds the zones of a trace; gives what is printed, the names of the zones with their files, and the report.
fn build(trace: &Path, out: &Path, more: &[&str]) -> (String, Vec<ServedZone>, Value) {
    let output = run(&[&[trace.to_str().unwrap(), "--out", out.to_str().unwrap()], more].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let report = serde_json::from_slice(&std::fs::read(out.join("report.json")).unwrap()).unwrap();
    (text, served(out), report)
}

/// What a folder says that is served.
fn served(out: &Path) -> Vec<ServedZone> {
    let index: Value = serde_json::from_slice(&std::fs::read(out.join("hierarchy.json")).unwrap()).unwrap();
    let zone = |entry: &Value| ServedZone {
        apex: entry["name"].as_str().unwrap().into(),
        file: out.join(entry["file"].as_str().unwrap()),
    };
    index["zones"].as_array().unwrap().iter().map(zone).collect()
}

/// Whether a program runs in a network of its own, where it can ask nobody about other zones.
fn alone(program: &str, arguments: &[&str]) -> Option<Output> {
    let quiet = Command::new("unshare").args(["-rn", "true"]).stderr(Stdio::null()).status();
    let mut command = if quiet.is_ok_and(|status| status.success()) {
        let mut command = Command::new("unshare");
        command.args(["-rn", program]);
        command
    } else {
        Command::new(program)
    };
    command.args(arguments).output().ok()
}

/// Every zone passes the checkers of BIND and NSD, and is loaded and answered by NSD.
fn are_taken(zones: &[ServedZone], folder: &Path, port: u16) {
    are_checked(zones);
    are_loaded(zones, folder, port);
}

fn are_checked(zones: &[ServedZone]) {
    for checker in ["named-checkzone", "nsd-checkzone"] {
        if Command::new(checker).arg("-h").output().is_err() {
            println!("skipped: {checker} is not installed");
            continue;
        }
        for zone in zones {
            let output = alone(checker, &[&zone.apex, zone.file.to_str().unwrap()]).unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{checker} {}: {text}", zone.apex);
        }
    }
}

fn are_loaded(zones: &[ServedZone], folder: &Path, port: u16) {
    if Kind::Nsd.program().is_none() {
        println!("skipped: {} is not installed", Kind::Nsd.label());
        return;
    }
    let address = ([127, 0, 0, 1], port).into();
    let setup = Setup { zones: zones.to_vec(), key: None, address, folder: folder.join("nsd") };
    // It waits until each zone is answered for.
    let mut peer = start(Kind::Nsd, &setup).unwrap();
    assert!(peer.is_running());
}

/// Signatures and denial of every zone are right and whole by BIND's rules.
fn are_validated(zones: &[ServedZone]) {
    for zone in zones {
        let file = zone.file.to_str().unwrap();
        let Some(output) = alone("dnssec-verify", &["-z", "-o", &zone.apex, file]) else {
            return println!("skipped: dnssec-verify is not installed");
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {text}", zone.apex);
    }
}

fn names(zones: &[ServedZone]) -> Vec<&str> {
    zones.iter().map(|zone| zone.apex.as_str()).collect()
}

#[test]
fn the_zones_of_the_root_capture_are_loaded_by_others() {
    let Some(trace) = data("captures/lroot-20161006-1354-knot-live.pcap.xz") else { return };
    let folder = Folder::new("zones-root");
    for (mode, port) in [("keep", 24_700), ("off", 24_704), ("resign", 24_708)] {
        let out = folder.path().join(mode);
        let (text, zones, report) = build(&trace, &out, &["--dnssec", mode]);
        println!("{text}");
        assert_eq!(out.join("anchors.txt").exists(), mode == "resign");
        if mode == "resign" {
            are_validated(&zones);
        }
        assert!(names(&zones).contains(&".") && names(&zones).contains(&"root-servers.net."), "{:?}", names(&zones));
        assert_eq!(report["left_out"]["query"], 8_267);
        are_taken(&zones, &out, port);
    }
}

/// Every trace that is there but that of the root, in order.
fn all_traces() -> Vec<PathBuf> {
    let folders = ["captures", "rpl", "traces"].into_iter().filter_map(data);
    let entries = folders.flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let is_root = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("lroot"));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).filter(|path| !is_root(path)).collect();
    paths.sort_unstable();
    paths
}

/// Of each trace that tells of a zone, in each mode; the others say that they tell of none. Where everything is tested
/// a server loads those of each mode.
#[test]
fn the_zones_of_every_trace_are_loaded_by_others() {
    let folder = Folder::new("zones-upstream");
    let (traces, mut built) = (all_traces(), Vec::new());
    for trace in &traces {
        let name = trace.file_name().unwrap().to_string_lossy().into_owned();
        for mode in ["keep", "off", "resign"] {
            let out = folder.path().join(format!("{name}-{mode}"));
            let output = run(&[trace.to_str().unwrap(), "--out", out.to_str().unwrap(), "--dnssec", mode]);
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.code() == Some(2) {
                assert!(error.contains("cannot build: no response names a zone") && !out.exists(), "{name}: {error}");
                break;
            }
            assert!(output.status.success(), "{name}: {error}");
            let zones = served(&out);
            are_checked(&zones);
            // A server takes seconds to start and to end.
            if mode == "keep" || support::is_full() {
                // Each has a port of its own: the one before may hold its last connections still.
                are_loaded(&zones, &out, 24_750 + 2 * built.len() as u16);
            }
            if mode == "resign" {
                are_validated(&zones);
            }
            built.push((name.clone(), mode));
        }
    }
    println!("{} of {} traces tell of zones", built.len() / 3, traces.len());
    for known in ["zeek-dns-edns-ecs.pcap", "world_cz_lidovky_www.rpl", "world_cz_vutbr_www.rpl"] {
        let is_there = traces.iter().any(|trace| trace.ends_with(known));
        assert!(!is_there || built.iter().any(|(name, mode)| name == known && *mode == "resign"), "{known}: {built:?}");
    }
}

/// The lines of a zone's file but for its head, in order.
fn lines(zone: &ServedZone) -> Vec<String> {
    let text = std::fs::read_to_string(&zone.file).unwrap();
    let mut lines: Vec<String> = text.lines().filter(|line| !line.starts_with(';')).map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// What was sent and what was made up, each with why, and who serves it.
#[test]
fn a_hierarchy_that_is_merged_with_itself_is_the_same() {
    let folder = Folder::new("zones-itself");
    for trace in all_traces().into_iter().chain(data("captures/lroot-20161006-1354-knot-live.pcap.xz")) {
        let [one, both] = ["one", "both"].map(|name| {
            let path = folder.path().join(name);
            // Of the trace before.
            let _removed = std::fs::remove_dir_all(&path);
            path
        });
        if !run(&[text(&trace), "--out", text(&one)]).status.success() {
            continue;
        }
        well(&["zones", "merge", text(&one), text(&one), "--out", text(&both)]);
        let [before, after] = [&one, &both].map(|path| served(path));
        assert_eq!(names(&before), names(&after), "{}", trace.display());
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(lines(before), lines(after), "{}: {}", trace.display(), before.apex);
        }
        let [before, after] = [&one, &both].map(|path| {
            let mut zones = hierarchy::Folder::read(path).unwrap().zones;
            zones.iter_mut().for_each(|zone| zone.servers.sort_unstable());
            zones
        });
        assert_eq!(before, after, "{}", trace.display());
        let conflicts = std::fs::read_to_string(both.join("conflicts.jsonl")).unwrap();
        assert_eq!(conflicts, "", "{}", trace.display());
    }
}

/// A signature that was captured beside answers of another zone stays, with its mark.
#[test]
fn what_was_seen_only_beside_answers_of_other_zones_stays_when_it_is_merged() {
    let Some(trace) = data("captures/zeek-dns-edns-ecs.pcap") else { return };
    let folder = Folder::new("zones-beside");
    let [one, both] = ["one", "both"].map(|name| folder.path().join(name));
    build(&trace, &one, &[]);
    well(&["zones", "merge", text(&one), text(&one), "--out", text(&both)]);
    let zones = served(&both);
    let zone = zones.iter().find(|zone| zone.apex == "weberdns.de.").unwrap();
    let lines = lines(zone);
    let beside = |line: &&String| line.contains("\tRRSIG\tAAAA ") && line.ends_with(BESIDE);
    assert_eq!((lines.len(), lines.iter().filter(beside).count()), (17, 1), "{lines:#?}");
}

const BESIDE: &str = " ; made: seen only beside answers of other zones";

#[test]
fn a_hierarchy_that_is_there_is_not_written_over_by_one_that_is_made_up() {
    let folder = Folder::new("zones-over");
    let out = folder.path().join("tree");
    well(&["zones", "synth", "--zones", "5", "--out", text(&out)]);
    let files = ["hierarchy.json", "queries.txt", "zones/root.zone"].map(|file| out.join(file));
    let before = files.each_ref().map(|file| std::fs::read(file).unwrap());
    let again = Command::new(CATLAB).args(["zones", "synth", "--zones", "9", "--out", text(&out)]).output().unwrap();
    let error = String::from_utf8_lossy(&again.stderr);
    assert!(again.status.code() == Some(2) && error.contains("--force"), "{error}");
    assert_eq!(files.each_ref().map(|file| std::fs::read(file).unwrap()), before);
}

#[test]
fn several_traces_make_one_hierarchy() {
    let (Some(one), Some(two)) = (data("rpl/world_cz_lidovky_www.rpl"), data("rpl/world_cz_vutbr_www.rpl")) else {
        return;
    };
    let folder = Folder::new("zones-several");
    let out = folder.path().join("both");
    let (_, zones, report) = build(&one, &out, &[two.to_str().unwrap()]);
    for name in [".", "cz.", "lidovky.cz.", "vutbr.cz.", "ro.vutbr.cz."] {
        assert!(names(&zones).contains(&name), "{name}: {:?}", names(&zones));
    }
    // Both have the root and cz, a month apart.
    let conflicts = std::fs::read_to_string(out.join("conflicts.jsonl")).unwrap();
    let conflicts: Vec<Value> = conflicts.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!conflicts.is_empty(), "{report}");
    assert_eq!(report["conflicts"]["count"], conflicts.len());
    for conflict in &conflicts {
        let of = |name: &str| conflict[name].as_array().map_or(0, Vec::len);
        assert!(of("others") > 0 && conflict["kept"]["records"].is_array(), "{conflict}");
    }
    // The same out of folders that were built apart.
    let [first, second, merged] = ["first", "second", "merged"].map(|name| folder.path().join(name));
    build(&one, &first, &[]);
    build(&two, &second, &[]);
    let [first, second, merged] = [&first, &second, &merged].map(|path| path.to_str().unwrap());
    let output = Command::new(CATLAB).args(["zones", "merge", first, second, "--out", merged]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let merged = served(Path::new(merged));
    assert_eq!(names(&merged), names(&zones));
    are_taken(&merged, folder.path(), 24_740);
}

#[test]
fn a_resolver_walks_the_rebuilt_zones_of_two_scenarios_and_validates_what_it_finds() {
    let (Some(one), Some(two)) = (data("rpl/world_cz_lidovky_www.rpl"), data("rpl/world_cz_vutbr_www.rpl")) else {
        return;
    };
    if !are_here(&["unbound", "dig"]) || !can_make_namespaces() {
        return;
    }
    let folder = Folder::new("zones-walked");
    let out = folder.path().join("signed");
    build(&one, &out, &[two.to_str().unwrap(), "--resign"]);
    let anchor = out.join("anchors.txt");
    let mut walk = Command::new(CATLAB);
    walk.args(["hierarchy", "run", out.to_str().unwrap(), "--resolver", "unbound", "--anchor"]).arg(anchor);
    walk.args(["--", "dig", "@127.0.0.1", "+noall", "+comments", "+answer", "+dnssec"]);
    walk.args(["www.lidovky.cz", "A", "www.vutbr.cz", "A", "none.vutbr.cz", "A"]);
    let output = walk.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    // What the scenarios expect of a resolver, and a name that neither has; all of it validated.
    let answers = |owner: &str, rtype: &str, rdata: &str| {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        text.lines()
            .map(words)
            .any(|line| line.len() > 4 && line[0] == owner && line[3] == rtype && line[4..].join(" ") == rdata)
    };
    assert!(answers("www.lidovky.cz.", "CNAME", "c23.idnes.cz."), "{text}");
    assert!(answers("c23.idnes.cz.", "A", "185.17.119.54"), "{text}");
    assert!(answers("www.vutbr.cz.", "CNAME", "piranha.ro.vutbr.cz."), "{text}");
    assert!(answers("piranha.ro.vutbr.cz.", "A", "147.229.2.90"), "{text}");
    assert_eq!(text.matches("status: NOERROR").count(), 2, "{text}");
    assert_eq!(text.matches("status: NXDOMAIN").count(), 1, "{text}");
    assert_eq!(text.matches(" ad; QUERY").count(), 3, "{text}");
}

/// Builds the zones of one answer for `www.example.com`, with a resolver that knows com and a zone below it; gives
/// what it was asked, the zones and the report.
fn fetched(begins_at: &'static str) -> (Vec<String>, Vec<(String, String)>, Value) {
    let resolver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = resolver.local_addr().unwrap().to_string();
    let asked = std::thread::spawn(move || {
        resolver.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let (mut asked, mut bytes) = (Vec::new(), [0; 4_096]);
        while asked.len() < 5 {
            let (len, client) = resolver.recv_from(&mut bytes).unwrap();
            let question = Message::parse(&bytes[..len]).unwrap().question().unwrap();
            let rdata: &[u8] = match (question.qname.to_string().as_str(), question.qtype) {
                ("com.", Rtype::NS) => b"\x01a\x03com\x00",
                (cut, Rtype::NS) if cut == begins_at => b"\x02ns\x07example\x03com\x00",
                (_, Rtype::A) => &[192, 0, 2, 99],
                _ => b"",
            };
            let header =
                Header { id: u16::from_be_bytes([bytes[0], bytes[1]]), qr: true, ra: true, ..Header::default() };
            let mut response = MessageBuilder::new(header).question(question.qname.as_ref(), question.qtype, Class::IN);
            if !rdata.is_empty() {
                let owner = question.qname.as_ref();
                response = response.record(Section::Answer, owner, question.qtype, Class::IN, 60, rdata);
            }
            resolver.send_to(&response.build(), client).unwrap();
            asked.push(format!("{} {:?}", question.qname, question.qtype));
        }
        asked
    });
    let folder = Folder::new(&format!("zones-fetched-{begins_at}"));
    let trace = folder.path().join("one.rpl");
    std::fs::write(&trace, ONE_ANSWER).unwrap();
    let (_, zones, report) = build(&trace, &folder.path().join("out"), &["--fetch-from", &address]);
    let zones = zones.into_iter().map(|zone| (zone.apex, std::fs::read_to_string(&zone.file).unwrap()));
    let zones = zones.collect();
    (asked.join().unwrap(), zones, report)
}

#[test]
fn where_servers_change_ns_is_asked_for_at_each_label_and_nothing_is_asked_twice() {
    let (asked, zones, report) = fetched("example.com.");
    let probed = ["com. NS", "example.com. NS", "www.example.com. NS"];
    assert_eq!(asked, [&probed[..], &["ns.example.com. A", "ns.example.com. AAAA"]].concat());
    let (_, text) = zones.iter().find(|(apex, _)| apex == "example.com.").unwrap();
    assert!(text.contains("NS\tns.example.com. ; made: fetched from a resolver"), "{text}");
    assert!(text.contains("ns.example.com.\t60\tIN\tA\t192.0.2.99 ; made"), "{text}");
    let made = report["made"]["first"].as_array().unwrap();
    assert_eq!(made.iter().filter(|made| made["zone"] == "example.com.").count(), 3, "{made:#?}");
    // Nobody answered for com, so its servers are made up as they are without a resolver.
    let (_, com) = zones.iter().find(|(apex, _)| apex == "com.").unwrap();
    assert!(!com.contains("a.com."), "{com}");
}

/// Without the resolver the answer is taken to be from example.com.
#[test]
fn a_zone_begins_where_the_resolver_says_that_it_does() {
    let (_, zones, _) = fetched("www.example.com.");
    let apexes: Vec<&str> = zones.iter().map(|(apex, _)| apex.as_str()).collect();
    assert_eq!(apexes, [".", "com.", "www.example.com."]);
}

/// An answer that says nothing of its zone.
const ONE_ANSWER: &str = "RANGE_BEGIN 0 9\nADDRESS 192.0.2.1\nENTRY_BEGIN\nREPLY QR AA NOERROR\nSECTION QUESTION\n\
    www.example.com. IN A\nSECTION ANSWER\nwww.example.com. 60 IN A 192.0.2.7\nENTRY_END\nRANGE_END\n";

#[test]
fn what_gives_no_zones_is_refused_with_a_sentence() {
    let folder = Folder::new("zones-refused");
    let queries = folder.path().join("queries.dnsperf");
    std::fs::write(&queries, "example.com A\n").unwrap();
    let scenario = folder.path().join("one.rpl");
    std::fs::write(&scenario, ONE_ANSWER).unwrap();
    let (_, zones, _) = build(&scenario, &folder.path().join("there"), &[]);
    // The zones above, too: a resolver begins at the root.
    assert_eq!(names(&zones), [".", "com.", "example.com."]);
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let [queries, scenario, pipe] = [&queries, &scenario, &pipe].map(|path| path.to_str().unwrap());
    let [there, out] = ["there", "out"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    for (arguments, why) in [
        (["-", "--out", &out], "cannot come from a pipe"),
        // Nobody writes to it, and nobody is waited for.
        ([pipe, "--out", &out], "write it to a file first"),
        ([scenario, "--out", &there], "--force"),
        ([queries, "--out", &out], "no response names a zone"),
        (["/nowhere.pcap", "--out", &out], "/nowhere.pcap"),
    ] {
        let output = run(&arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && error.contains(why), "{arguments:?}: {error}");
        assert!(!Path::new(&out).exists(), "{arguments:?}");
    }
}

#[test]
fn of_a_trace_that_is_cut_off_what_came_before_is_used() {
    let Some(trace) = data("captures/zeek-dns-edns-ecs.pcap") else { return };
    let folder = Folder::new("zones-cut");
    let (cut, out) = (folder.path().join("cut.pcap"), folder.path().join("out"));
    let bytes = std::fs::read(trace).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let output = run(&[cut.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && error.contains("messages before that are kept"), "{error}");
    assert!(out.join("hierarchy.json").exists());
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs `catlab`, which must end well; gives what it printed.
fn well(words: &[&str]) -> String {
    let output = Command::new(CATLAB).args(words).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {} {said}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether all of these programs are here.
fn are_here(programs: &[&str]) -> bool {
    programs.iter().all(|name| has_program(name))
}
