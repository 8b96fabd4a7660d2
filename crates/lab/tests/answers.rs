//! Answers are checked: what a trusted server said is recorded, and a server that says something else is found out,
//! over every transport, in every output.
#[expect(dead_code, reason = "it is shared with tests that use more of it")]
mod support;

use lab::echo::{Echo, EchoPlan, Fault, Faults, ReceivedQuery};
use lab::engine::Transport;
use lab::peers::{Kind, ServedZone, Setup, start};
use lab::report::{Run, Summary};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use std::collections::BTreeMap;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use support::{Folder, data, root_zone};

/// Queries of each run.
const COUNT: u64 = 2_000;

/// One run at a time: each spins on a core.
static TURN: Mutex<()> = Mutex::new(());

/// Runs `catlab load`, and gives its folder and what it printed.
fn load(out: &Path, server: SocketAddr, more: &[&str]) -> (Run, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
    command.args(["load", "--quiet", "--workers", "1", "--insecure", "--server", &server.to_string()]).args(more);
    let output = command.arg("--out").arg(out).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    // 1 is a run that is not valid, on a machine that does other things too.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{text}");
    (Run::read(out).unwrap(), text.into_owned())
}

fn summary(run: &Run) -> &Summary {
    run.summary.as_ref().unwrap()
}

fn echo(transport: Transport, faults: Faults) -> Echo {
    Echo::start(&EchoPlan { faults, ..EchoPlan::new(&[transport]).unwrap() }).unwrap()
}

/// Two addresses in turns, with a TTL that runs down: nothing of that is wrong.
fn rotates(asked: &ReceivedQuery<'_>) -> Fault {
    let ttl = 3_600 - (asked.number % 60) as u32;
    Fault::Addresses(if asked.number.is_multiple_of(2) { [1, 2] } else { [2, 1] }, ttl)
}

/// The same, but one answer in a hundred has another address.
fn errs(asked: &ReceivedQuery<'_>) -> Fault {
    if asked.number % 100 == 50 { Fault::Addresses([1, 3], 60) } else { rotates(asked) }
}

/// What `queries.parquet` says that looks at answers showed, and how often; nothing, where nobody looked.
fn looks(folder: &Path) -> BTreeMap<String, u64> {
    let file = SerializedFileReader::new(File::open(folder.join("queries.parquet")).unwrap()).unwrap();
    let mut looks = BTreeMap::new();
    for row in file.get_row_iter(None).unwrap().map(Result::unwrap) {
        let look = match row.get_column_iter().find(|(name, _)| *name == "answer_check").unwrap().1 {
            Field::Str(look) => look.clone(),
            _ => String::new(),
        };
        *looks.entry(look).or_default() += 1;
    }
    looks
}

#[test]
fn one_wrong_answer_in_a_hundred_is_found_over_each_transport() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new("answers");
    let right = folder.path().join("right.jsonl");
    let right = right.to_str().unwrap();
    let drawn = ["--name", "q{n}.example", "--names", "100", "--popularity", "sequential", "--rate", "1000"];
    let plan = [&drawn[..], &["--duration", "2s", "--connections", "1"]].concat();
    let good = echo(Transport::Udp, Arc::new(rotates));
    let record = [&plan[..], &["--record-answers", right]].concat();
    let (run, text) = load(&folder.path().join("record"), good.address(Transport::Udp), &record);
    let checked = summary(&run).total.checked;
    assert!(text.contains("100 answers recorded in"), "{text}");
    assert_eq!((checked.checked, checked.wrong(), checked.unknown), (COUNT, 0, 0), "{text}");
    for transport in Transport::ALL {
        let bad = echo(transport, Arc::new(errs));
        let out = folder.path().join(transport.to_string());
        let check = ["--parquet", "--expect-answers", right, "--transport", &transport.to_string()];
        let (run, text) = load(&out, bad.address(transport), &[&plan[..], &check].concat());
        let total = &summary(&run).total;
        assert_eq!((total.answered, total.checked.checked, total.checked.unknown), (COUNT, COUNT, 0), "{transport}");
        assert_eq!((total.checked.answer, total.checked.wrong()), (20, 20), "{transport}: {text}");
        // A wrong answer is no capacity.
        let right = run.achieved_rate() * run.duration_seconds();
        assert!((right - 0.99 * COUNT as f64).abs() < 0.5, "{transport}: {right}");
        let wrong = &summary(&run).wrong_answers[0];
        assert!(wrong.question.ends_with(".example. IN A") && wrong.expected.contains("192.0.2.2"), "{wrong:?}");
        assert!(wrong.got.contains("192.0.2.3") && text.contains(&wrong.got), "{transport}: {text}");
        let seconds: Vec<u64> = run.sending().map(|row| row.checked.answer).collect();
        assert_eq!(seconds, [10, 10], "{transport}");
        let evidence = &summary(&run).limit.evidence;
        assert!(evidence.iter().any(|line| line.contains("20 of 2000 checked answers were wrong")), "{evidence:?}");
        // Query by query too.
        let looks = looks(&out);
        assert_eq!(looks, [("answer".to_owned(), 20), ("right".to_owned(), COUNT - 20)].into(), "{transport}");
        let page = lab::report::page(&[run], "wrong");
        assert!(page.contains("<h2 id=\"wrong\">") && page.contains("20 with another answer section"), "{transport}");
    }
}

#[test]
fn a_share_that_is_looked_at_stands_for_all() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new("answers-share");
    let right = folder.path().join("right.jsonl");
    let drawn = ["--name", "q{n}.example", "--names", "10", "--rate", "5000", "--duration", "2s"];
    let good = echo(Transport::Udp, Arc::new(rotates));
    let record = [&drawn[..], &["--record-answers", right.to_str().unwrap()]].concat();
    load(&folder.path().join("record"), good.address(Transport::Udp), &record);
    // Every second answer is wrong, by its RCODE.
    let halves =
        |asked: &ReceivedQuery<'_>| if asked.number.is_multiple_of(2) { Fault::Rcode(2) } else { rotates(asked) };
    let bad = echo(Transport::Udp, Arc::new(halves));
    let check = [&drawn[..], &["--expect-answers", right.to_str().unwrap(), "--check-share", "0.1"]].concat();
    let (run, text) = load(&folder.path().join("run"), bad.address(Transport::Udp), &check);
    let total = &summary(&run).total;
    assert!((800..1_200).contains(&total.checked.checked), "{text}");
    assert_eq!(total.checked.wrong(), total.checked.rcode);
    let share = total.right() as f64 / total.answered as f64;
    assert!((0.42..0.58).contains(&share), "{share}: {text}");
    // What is not expected is not looked at: it counts once.
    let (run, text) = load(
        &folder.path().join("both"),
        bad.address(Transport::Udp),
        &[&check[..], &["--expect-rcode", "0", "--parquet"]].concat(),
    );
    let total = &summary(&run).total;
    assert!(total.unexpected >= 4_900 && total.checked.wrong() == 0, "{text}");
    let looks = looks(&folder.path().join("both"));
    assert_eq!((looks["unexpected_rcode"], looks["right"]), (total.unexpected, total.checked.checked), "{looks:?}");
    assert_eq!(looks[""], total.answered - total.unexpected - total.checked.checked, "{looks:?}");
}

#[test]
fn a_file_for_other_questions_says_nothing_and_that_is_said() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new("answers-other");
    let right = folder.path().join("right.jsonl");
    let good = echo(Transport::Udp, Arc::new(rotates));
    let more = |name: &'static str, option: &'static str| {
        ["--name", name, "--names", "5", "--rate", "500", "--duration", "1s", option, right.to_str().unwrap()]
    };
    load(&folder.path().join("record"), good.address(Transport::Udp), &more("a{n}.example", "--record-answers"));
    let (run, text) =
        load(&folder.path().join("run"), good.address(Transport::Udp), &more("b{n}.example", "--expect-answers"));
    assert!(run.is_invalid() && text.contains("no answer could be checked"), "{text}");
    let (run, text) =
        load(&folder.path().join("same"), good.address(Transport::Udp), &more("A{n}.Example", "--expect-answers"));
    assert_eq!((summary(&run).total.checked.checked, summary(&run).total.checked.wrong()), (500, 0), "{text}");
}

/// The root zone with another address of one server, and nothing else.
fn changed(zones: &[ServedZone], folder: &Path) -> Vec<ServedZone> {
    let text = std::fs::read_to_string(&zones[0].file).unwrap();
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["com.", ttl, "IN", "NS", "a.gtld-servers.net."] => format!("com. {ttl} IN NS n.gtld-servers.net.\n"),
            _ => format!("{line}\n"),
        }
    };
    let file = folder.join("changed.zone");
    std::fs::write(&file, text.lines().map(line).collect::<String>()).unwrap();
    vec![ServedZone { apex: ".".into(), file }]
}

#[test]
fn a_real_server_with_another_zone_is_found_out_and_with_the_same_it_is_not() {
    let Some(queries) = data("queries/root-queries-20011009-a.dnsperf.xz") else { return };
    let Some(zone) = data("zones/root-20170821.zone.xz") else { return };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new("answers-real");
    let zones = root_zone(&folder, &zone);
    let changed = changed(&zones, folder.path());
    let right = folder.path().join("right.jsonl");
    for (index, kind) in [Kind::Nsd, Kind::Knot].into_iter().enumerate() {
        if kind.program().is_none() {
            println!("skipped: {} is not installed", kind.label());
            continue;
        }
        let run = |zones: &[ServedZone], name: &str, port: u16, option: &str| {
            let own = folder.path().join(format!("{}-{name}", kind.label()));
            let address = (Ipv4Addr::LOCALHOST, 24_400 + 20 * index as u16 + port).into();
            let setup = Setup { zones: zones.to_vec(), key: None, address, folder: own.clone() };
            let _server = start(kind, &setup).unwrap();
            let queries = queries.to_str().unwrap();
            let more = ["--queries", queries, "--rate", "5000", "--duration", "5s", "--dnssec-ok", "--edns", "1232"];
            let (run, text) =
                load(&own.join("run"), address, &[&more[..], &[option, right.to_str().unwrap()]].concat());
            let total = summary(&run).total.clone();
            println!("{} {name}: {} answered, {:?}", kind.label(), total.answered, total.checked);
            assert_eq!(total.checked.checked, total.answered, "{text}");
            (total.checked, summary(&run).wrong_answers.clone(), text)
        };
        let (recorded, _, text) = run(&zones, "recorded", 0, "--record-answers");
        assert_eq!((recorded.wrong(), recorded.unknown), (0, 0), "{text}");
        // What a machine that does other things too lost of it is not known.
        let lost = 25_000 - recorded.checked;
        let (same, _, text) = run(&zones, "same", 4, "--expect-answers");
        assert!(same.wrong() == 0 && same.unknown <= lost, "{text}");
        let (other, told, text) = run(&changed, "other", 8, "--expect-answers");
        // Referrals to com have their NS in the authority section, and many of the queries are for names below it.
        assert!(other.authority > 1_000 && other.rcode == 0 && other.wrong() < other.checked / 2, "{text}");
        assert!(told.iter().all(|wrong| wrong.expected.contains(" a.gtld-servers.net")), "{told:?}");
        assert!(told.len() == 10 && told.iter().all(|wrong| !wrong.got.contains(" a.gtld-servers.net")), "{told:?}");
    }
}
