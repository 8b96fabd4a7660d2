//! Answers are checked: the answers of a trusted server are recorded, and wrong answers of another server are found
//! over every transport and in every output.

use crate::support::engines::{engine_permit, watch_seconds};
use crate::support::{Folder, data, root_zone};
use measure::Transport;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use report::{Run, Summary};
use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use testbed::echo::{Echo, EchoPlan, Fault, Faults, ReceivedQuery};
use testbed::{Kind, ServedZone, Setup, start};

/// Queries of each run.
const COUNT: u64 = 2_000;

/// Runs `catlab load`. Returns the run and the output.
fn load(out: &Path, server: SocketAddr, more: &[&str]) -> (Run, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
    command.args(["load", "--quiet", "--workers", "1", "--insecure", "--server", &server.to_string()]).args(more);
    let output = command.arg("--out").arg(out).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    // Exit code 1: a busy machine made the run invalid.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{text}");
    (Run::read(out).unwrap(), text.into_owned())
}

fn summary(run: &Run) -> &Summary {
    run.summary.as_ref().unwrap()
}

fn echo(transport: Transport, faults: Faults) -> Echo {
    Echo::start(&EchoPlan { faults, ..EchoPlan::new(&[transport]).unwrap() }).unwrap()
}

/// Rotates two addresses and counts the TTL down. Neither is a wrong answer.
fn rotates(query: &ReceivedQuery<'_>) -> Fault {
    let ttl = 3_600 - (query.number % 60) as u32;
    Fault::Addresses(if query.number.is_multiple_of(2) { [1, 2] } else { [2, 1] }, ttl)
}

/// The same, but one answer in a hundred has a wrong address.
fn errs(query: &ReceivedQuery<'_>) -> Fault {
    if query.number % 100 == 50 { Fault::Addresses([1, 3], 60) } else { rotates(query) }
}

/// Counts the results of the answer checks in `queries.parquet`. The key is empty for answers that were not checked.
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
fn every_wrong_answer_is_found_over_each_transport() {
    let _permit = engine_permit();
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
        let watch = watch_seconds();
        let (run, text) = load(&out, bad.address(transport), &[&plan[..], &check].concat());
        let has_stalled = watch.stall("the counts per second").is_some();
        let total = &summary(&run).total;
        assert_eq!((total.answered, total.checked.checked, total.checked.unknown), (COUNT, COUNT, 0), "{transport}");
        assert_eq!((total.checked.answer, total.checked.wrong()), (20, 20), "{transport}: {text}");
        // Wrong answers do not count as capacity.
        let right = run.achieved_rate() * run.duration_seconds();
        assert!((right - 0.99 * COUNT as f64).abs() < 0.5, "{transport}: {right}");
        let wrong = &summary(&run).wrong_answers[0];
        assert!(wrong.question.ends_with(".example. IN A") && wrong.expected.contains("192.0.2.2"), "{wrong:?}");
        assert!(wrong.got.contains("192.0.2.3") && text.contains(&wrong.got), "{transport}: {text}");
        let seconds: Vec<u64> = run.sending().map(|row| row.checked.answer).collect();
        assert!(has_stalled || seconds == [10, 10], "{transport}: {seconds:?}");
        let evidence = &summary(&run).limit.evidence;
        assert!(evidence.iter().any(|line| line.contains("20 of 2000 checked answers were wrong")), "{evidence:?}");
        // The rows per query agree.
        let looks = looks(&out);
        assert_eq!(looks, [("answer".to_owned(), 20), ("right".to_owned(), COUNT - 20)].into(), "{transport}");
        let page = report::page(&[run], "wrong");
        assert!(page.contains("<h2 id=\"wrong\">") && page.contains("20 with another answer section"), "{transport}");
    }
}

#[test]
fn a_checked_sample_estimates_the_share_of_wrong_answers() {
    let _permit = engine_permit();
    let folder = Folder::new("answers-share");
    let right = folder.path().join("right.jsonl");
    let drawn = ["--name", "q{n}.example", "--names", "10", "--rate", "5000", "--duration", "2s"];
    let good = echo(Transport::Udp, Arc::new(rotates));
    let record = [&drawn[..], &["--record-answers", right.to_str().unwrap()]].concat();
    load(&folder.path().join("record"), good.address(Transport::Udp), &record);
    // Every second answer has the wrong RCODE.
    let halves =
        |query: &ReceivedQuery<'_>| if query.number.is_multiple_of(2) { Fault::Rcode(2) } else { rotates(query) };
    let bad = echo(Transport::Udp, Arc::new(halves));
    let check = [&drawn[..], &["--expect-answers", right.to_str().unwrap(), "--check-share", "0.1"]].concat();
    let (run, text) = load(&folder.path().join("run"), bad.address(Transport::Udp), &check);
    let total = &summary(&run).total;
    assert!((800..1_200).contains(&total.checked.checked), "{text}");
    assert_eq!(total.checked.wrong(), total.checked.rcode);
    let share = total.right() as f64 / total.answered as f64;
    assert!((0.42..0.58).contains(&share), "{share}: {text}");
    // An answer with an unexpected RCODE is counted once and not checked.
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
fn a_run_is_invalid_if_no_recorded_answer_fits_its_questions() {
    let _permit = engine_permit();
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

/// Copies the root zone and changes one name server of com.
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
    vec![ServedZone::new(".", file)]
}

#[test]
fn a_real_server_is_wrong_with_another_zone_and_right_with_the_same() {
    let Some(queries) = data("queries/root-queries-20011009-a.dnsperf.xz") else { return };
    let Some(zone) = data("zones/root-20170821.zone.xz") else { return };
    let _permit = engine_permit();
    let folder = Folder::new("answers-real");
    let zones = root_zone(&folder, &zone);
    let changed = changed(&zones, folder.path());
    let right = folder.path().join("right.jsonl");
    for kind in [Kind::Nsd, Kind::Knot] {
        if kind.program().is_none() {
            skip::peer(kind.label());
            continue;
        }
        let run = |zones: &[ServedZone], name: &str, option: &str| {
            let own = folder.path().join(format!("{}-{name}", kind.label()));
            let address = testbed::free_address().unwrap();
            let setup = Setup::new(&own, address, zones.to_vec());
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
        let (recorded, _, text) = run(&zones, "recorded", "--record-answers");
        assert_eq!((recorded.wrong(), recorded.unknown), (0, 0), "{text}");
        // A busy machine may lose some answers; those were not recorded.
        let lost = 25_000 - recorded.checked;
        let (same, _, text) = run(&zones, "same", "--expect-answers");
        assert!(same.wrong() == 0 && same.unknown <= lost, "{text}");
        let (other, wrong_answers, text) = run(&changed, "other", "--expect-answers");
        // Referrals to com have its NS records in the authority section. Many queries are for names below com.
        assert!(other.authority > 1_000 && other.rcode == 0 && other.wrong() < other.checked / 2, "{text}");
        assert!(wrong_answers.iter().all(|wrong| wrong.expected.contains(" a.gtld-servers.net")), "{wrong_answers:?}");
        assert!(
            wrong_answers.len() == 10 && wrong_answers.iter().all(|wrong| !wrong.got.contains(" a.gtld-servers.net")),
            "{wrong_answers:?}"
        );
    }
}
