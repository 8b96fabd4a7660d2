//! `catlab zones`: zones built from recorded traffic pass other projects' checkers and load in their servers; zones can
//! be harvested and signed.

mod harvest;
mod sign;

use crate::support::namespaces::{can_make_namespaces, has_program};
use crate::support::program::CATLAB;
use crate::support::{Folder, data};
use serde_json::Value;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use testbed::{Kind, ServedZone, Setup, start};
use wire::builder::MessageBuilder;
use wire::number::{Class, Rtype};
use wire::parse::{Header, Message, Section};

fn run(arguments: &[&str]) -> Output {
    Command::new(CATLAB).args(["zones", "build"]).args(arguments).output().unwrap()
}

/// Builds the zones of a trace. Returns the output, the zones with their files, and the report.
fn build(trace: &Path, out: &Path, more: &[&str]) -> (String, Vec<ServedZone>, Value) {
    let output = run(&[&[trace.to_str().unwrap(), "--out", out.to_str().unwrap()], more].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let report = serde_json::from_slice(&std::fs::read(out.join("report.json")).unwrap()).unwrap();
    (text, served(out), report)
}

/// The zones that a folder serves.
fn served(out: &Path) -> Vec<ServedZone> {
    let index: Value = serde_json::from_slice(&std::fs::read(out.join("hierarchy.json")).unwrap()).unwrap();
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap().to_owned();
    let zone = |entry: &Value| ServedZone::new(text(entry, "name"), out.join(text(entry, "file")));
    index["zones"].as_array().unwrap().iter().map(zone).collect()
}

/// Runs a program in a network namespace, where it cannot query other servers. `None` if that is not possible.
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

/// Checks that every zone passes the checkers of BIND and NSD, and that NSD loads and serves it.
fn are_taken(zones: &[ServedZone], folder: &Path) {
    are_checked(zones);
    are_loaded(zones, folder);
}

fn are_checked(zones: &[ServedZone]) {
    for checker in ["named-checkzone", "nsd-checkzone"] {
        if Command::new(checker).arg("-h").output().is_err() {
            skip::peer(checker);
            continue;
        }
        for zone in zones {
            let output = alone(checker, &[&zone.apex, zone.file.to_str().unwrap()]).unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{checker} {}: {text}", zone.apex);
        }
    }
}

fn are_loaded(zones: &[ServedZone], folder: &Path) {
    if Kind::Nsd.program().is_none() {
        skip::peer(Kind::Nsd.label());
        return;
    }
    let address = testbed::free_address().unwrap();
    let setup = Setup::new(folder.join("nsd"), address, zones.to_vec());
    // `start` waits until each zone is answered.
    let mut peer = start(Kind::Nsd, &setup).unwrap();
    assert!(peer.is_running());
}

/// Checks every zone with BIND's `dnssec-verify`: signatures and denial are valid and complete.
fn are_validated(zones: &[ServedZone]) {
    for zone in zones {
        let file = zone.file.to_str().unwrap();
        let Some(output) = alone("dnssec-verify", &["-z", "-o", &zone.apex, file]) else {
            return skip::peer("dnssec-verify");
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {text}", zone.apex);
    }
}

fn names(zones: &[ServedZone]) -> Vec<&str> {
    zones.iter().map(|zone| zone.apex.as_str()).collect()
}

#[test]
fn other_servers_load_the_zones_of_the_root_capture() {
    let Some(trace) = data("captures/lroot-20161006-1354-knot-live.pcap.xz") else { return };
    let folder = Folder::new("zones-root");
    for mode in ["keep", "off", "resign"] {
        let out = folder.path().join(mode);
        let (text, zones, report) = build(&trace, &out, &["--dnssec", mode]);
        println!("{text}");
        assert_eq!(out.join("anchors.txt").exists(), mode == "resign");
        if mode == "resign" {
            are_validated(&zones);
        }
        assert!(names(&zones).contains(&".") && names(&zones).contains(&"root-servers.net."), "{:?}", names(&zones));
        assert_eq!(report["left_out"]["query"], 8_267);
        are_taken(&zones, &out);
    }
}

/// All traces except that of the root, sorted.
fn all_traces() -> Vec<PathBuf> {
    let folders = ["captures", "rpl", "traces"].into_iter().filter_map(data);
    let entries = folders.flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let is_root = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("lroot"));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).filter(|path| !is_root(path)).collect();
    paths.sort_unstable();
    paths
}

/// Builds every trace that has a zone, in each mode; the other traces are refused. In the full test, a server loads the
/// zones of every mode.
#[test]
fn other_servers_load_the_zones_of_every_trace() {
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
            // Starting and stopping a server takes seconds.
            if mode == "keep" || skip::is_full_run() {
                // Each server has its own port: connections of the previous server may still be open.
                are_loaded(&zones, &out);
            }
            if mode == "resign" {
                are_validated(&zones);
            }
            built.push((name.clone(), mode));
        }
    }
    println!("{} of {} traces have zones", built.len() / 3, traces.len());
    for known in ["zeek-dns-edns-ecs.pcap", "world_cz_lidovky_www.rpl", "world_cz_vutbr_www.rpl"] {
        let is_there = traces.iter().any(|trace| trace.ends_with(known));
        assert!(!is_there || built.iter().any(|(name, mode)| name == known && *mode == "resign"), "{known}: {built:?}");
    }
}

/// The lines of a zone file without its head, sorted.
fn lines(zone: &ServedZone) -> Vec<String> {
    let text = std::fs::read_to_string(&zone.file).unwrap();
    let mut lines: Vec<String> = text.lines().filter(|line| !line.starts_with(';')).map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// Compares records, generated records with their reasons, and server addresses.
#[test]
fn a_hierarchy_that_is_merged_with_itself_is_the_same() {
    let folder = Folder::new("zones-itself");
    for trace in all_traces().into_iter().chain(data("captures/lroot-20161006-1354-knot-live.pcap.xz")) {
        let [one, both] = ["one", "both"].map(|name| {
            let path = folder.path().join(name);
            // From the previous trace.
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

/// A signature that was captured only with answers of another zone stays, with its mark.
#[test]
fn records_seen_only_with_answers_of_other_zones_are_kept_in_a_merge() {
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
fn an_existing_hierarchy_is_not_overwritten_by_a_synthetic_one() {
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
fn several_traces_are_built_into_one_hierarchy() {
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
    // Merging two folders that were built separately gives the same.
    let [first, second, merged] = ["first", "second", "merged"].map(|name| folder.path().join(name));
    build(&one, &first, &[]);
    build(&two, &second, &[]);
    let [first, second, merged] = [&first, &second, &merged].map(|path| path.to_str().unwrap());
    let output = Command::new(CATLAB).args(["zones", "merge", first, second, "--out", merged]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let merged = served(Path::new(merged));
    assert_eq!(names(&merged), names(&zones));
    are_taken(&merged, folder.path());
}

#[test]
fn a_resolver_validates_the_rebuilt_zones_of_two_scenarios() {
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
    // The answers that the scenarios expect, and one missing name, all validated.
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

/// Builds the zones from one answer for `www.example.com` with a resolver that knows com and one zone below it, which
/// begins at `begins_at`. Returns the queries to the resolver, the zones and the report.
fn fetched(begins_at: &'static str) -> (Vec<String>, Vec<(String, String)>, Value) {
    let resolver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = resolver.local_addr().unwrap().to_string();
    let questions = std::thread::spawn(move || {
        resolver.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let (mut questions, mut bytes) = (Vec::new(), [0; 4_096]);
        while questions.len() < 5 {
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
            questions.push(format!("{} {:?}", question.qname, question.qtype));
        }
        questions
    });
    let folder = Folder::new(&format!("zones-fetched-{begins_at}"));
    let trace = folder.path().join("one.rpl");
    std::fs::write(&trace, ONE_ANSWER).unwrap();
    let (_, zones, report) = build(&trace, &folder.path().join("out"), &["--fetch-from", &address]);
    let zones = zones.into_iter().map(|zone| (zone.apex, std::fs::read_to_string(&zone.file).unwrap()));
    let zones = zones.collect();
    (questions.join().unwrap(), zones, report)
}

#[test]
fn ns_is_queried_at_each_label_and_nothing_is_queried_twice() {
    let (questions, zones, report) = fetched("example.com.");
    let probed = ["com. NS", "example.com. NS", "www.example.com. NS"];
    assert_eq!(questions, [&probed[..], &["ns.example.com. A", "ns.example.com. AAAA"]].concat());
    let (_, text) = zones.iter().find(|(apex, _)| apex == "example.com.").unwrap();
    assert!(text.contains("NS\tns.example.com. ; made: fetched from a resolver"), "{text}");
    assert!(text.contains("ns.example.com.\t60\tIN\tA\t192.0.2.99 ; made"), "{text}");
    let made = report["made"]["first"].as_array().unwrap();
    assert_eq!(made.iter().filter(|made| made["zone"] == "example.com.").count(), 3, "{made:#?}");
    // The resolver has no NS answer for com, so its servers are generated as without a resolver.
    let (_, com) = zones.iter().find(|(apex, _)| apex == "com.").unwrap();
    assert!(!com.contains("a.com."), "{com}");
}

/// Without the resolver, the answer is assigned to example.com.
#[test]
fn the_resolver_determines_where_a_zone_begins() {
    let (_, zones, _) = fetched("www.example.com.");
    let apexes: Vec<&str> = zones.iter().map(|(apex, _)| apex.as_str()).collect();
    assert_eq!(apexes, [".", "com.", "www.example.com."]);
}

/// An answer that does not name its zone.
const ONE_ANSWER: &str = "RANGE_BEGIN 0 9\nADDRESS 192.0.2.1\nENTRY_BEGIN\nREPLY QR AA NOERROR\nSECTION QUESTION\n\
    www.example.com. IN A\nSECTION ANSWER\nwww.example.com. 60 IN A 192.0.2.7\nENTRY_END\nRANGE_END\n";

#[test]
fn inputs_that_give_no_zones_are_refused_with_a_reason() {
    let folder = Folder::new("zones-refused");
    let queries = folder.path().join("queries.dnsperf");
    std::fs::write(&queries, "example.com A\n").unwrap();
    let scenario = folder.path().join("one.rpl");
    std::fs::write(&scenario, ONE_ANSWER).unwrap();
    let (_, zones, _) = build(&scenario, &folder.path().join("there"), &[]);
    // The parent zones are built too: a resolver begins at the root.
    assert_eq!(names(&zones), [".", "com.", "example.com."]);
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let [queries, scenario, pipe] = [&queries, &scenario, &pipe].map(|path| path.to_str().unwrap());
    let [there, out] = ["there", "out"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    for (arguments, why) in [
        (["-", "--out", &out], "cannot come from a pipe"),
        // Nobody writes to the pipe, and the command does not wait for it.
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
fn a_truncated_trace_is_used_up_to_its_end() {
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

/// Runs `catlab`, which must succeed. Returns its output.
fn well(words: &[&str]) -> String {
    let output = Command::new(CATLAB).args(words).stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {} {stderr}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether all of these programs are installed.
fn are_here(programs: &[&str]) -> bool {
    programs.iter().all(|name| has_program(name))
}
