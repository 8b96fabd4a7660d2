//! Queries are divided among agents: each goes out once, and the merged run holds all measurements.

use super::{assert_sum, catlab, ended, number, source, trace};
use crate::support::Folder;
use crate::support::far_end::FarEnd;
use crate::support::nats::{Agent, Nats, below, here, own_runs, summary};
use load::replay::RendezvousHash;
use report::Run;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

#[test]
fn a_trace_is_sent_once_and_sources_keep_to_their_agent() {
    let folder = Folder::new("agents-replay");
    let Some(server) = Nats::start(&here, "127.0.0.1", folder.path(), &[]) else { return };
    let url = format!("nats://127.0.0.1:{}", server.port);
    let names = ["east", "west"];
    let _agents = names.map(|name| Agent::start(&here, &url, name, folder.path(), &[]));
    let (far, out) = (FarEnd::start(Duration::ZERO), folder.path().join("run"));
    // The socket of the server holds all of them, even if it does not read.
    let path = trace(&folder, 500, 100);
    let words = format!("replay {} --server {}", path.display(), far.address);
    let (code, text, error) = ended(&catlab(&words, &url, 2, &out).output().unwrap());
    // Exit code 1: a busy machine made the run late.
    assert!(matches!(code, 0 | 1), "{text}{error}");
    let arrivals = far.end();
    let hash = RendezvousHash::new(names);
    let (mut seen, mut addresses) = (BTreeSet::new(), BTreeMap::new());
    for arrival in &arrivals {
        let (number, IpAddr::V4(from)) = (number(&arrival.bytes), arrival.from.ip()) else { panic!("{arrival:?}") };
        assert!(seen.insert(number), "{number} came twice");
        // Agents send from different addresses, so the address identifies the agent.
        let index = (u32::from(from) - u32::from(Ipv4Addr::new(127, 0, 0, 1))) % 2;
        let source = source(number, 100);
        assert_eq!(hash.owner(source.into()), index as usize, "{source}");
        assert_eq!(*addresses.entry(source).or_insert(from), from, "{source} sent from two addresses");
    }
    assert_eq!((seen.len(), addresses.len()), (500, 100), "{text}{error}");
    assert_eq!(addresses.values().collect::<BTreeSet<_>>().len(), 100);

    let (merged, summary) = (Run::read(&out).unwrap(), summary(&out));
    assert_sum(&merged, &own_runs(&out, &names));
    assert_eq!(
        (&summary["sent"], &summary["replay"]["queries"], &summary["replay"]["sources"]),
        (&500.into(), &500.into(), &100.into())
    );
    assert_eq!(summary["replay"]["trace"], path.display().to_string());
    assert_eq!(summary["send_error_us"], summary["send_lag_us"]);
    let rows = summary["agents"].as_array().unwrap();
    for (row, name) in rows.iter().zip(names) {
        assert_eq!((&row["name"], &row["planned"]), (&name.into(), &row["sent"]), "{row}");
        // All agents run on one machine, so they have the same clock.
        let (offset, uncertainty) =
            (row["clock_offset_us"].as_f64().unwrap(), row["clock_uncertainty_us"].as_f64().unwrap());
        assert!(offset.abs() <= uncertainty + 1.0, "{row}");
        assert!(text.contains(&format!("agent      {name} (")), "{text}");
    }
    assert!(rows.len() == 2 && summary.get("partial").is_none(), "{summary}");
    let merged = merged.manifest.unwrap().merged;
    let commands: Vec<String> = merged.iter().map(|manifest| manifest.command.join(" ")).collect();
    assert!(commands.iter().all(|line| line.starts_with("catlab replay ")), "{commands:?}");
}

#[test]
fn an_agent_without_a_source_has_nothing_to_do() {
    let folder = Folder::new("agents-idle");
    let Some(server) = Nats::start(&here, "127.0.0.1", folder.path(), &[]) else { return };
    let url = format!("nats://127.0.0.1:{}", server.port);
    let names = ["a", "b"];
    let _agents = names.map(|name| Agent::start(&here, &url, name, folder.path(), &[]));
    let (far, out) = (FarEnd::start(Duration::ZERO), folder.path().join("run"));
    let words = format!("replay {} --server {}", trace(&folder, 100, 1).display(), far.address);
    let (code, text, error) = ended(&catlab(&words, &url, 2, &out).output().unwrap());
    assert!(matches!(code, 0 | 1), "{text}{error}");
    assert_eq!(far.end().len(), 100, "{text}{error}");
    let owner = RendezvousHash::new(names).owner(source(0, 1).into());
    let summary = summary(&out);
    let sent = [0, 1].map(|index| summary["agents"][index]["sent"].as_u64().unwrap());
    assert_eq!((sent[owner], sent[1 - owner]), (100, 0), "{summary}");
    assert!(summary.get("partial").is_none() && !text.contains("LOST"), "{text}");
}

#[test]
fn every_query_of_a_load_is_sent_once() {
    let folder = Folder::new("agents-load");
    let credentials = ["--user", "lab", "--pass", "secret"];
    let Some(server) = Nats::start(&here, "127.0.0.1", folder.path(), &credentials) else { return };
    let url = format!("nats://lab:secret@127.0.0.1:{}", server.port);
    let names = ["a", "b"];
    let agents = names.map(|name| Agent::start(&here, &url, name, &below(folder.path(), name), &["--once"]));
    let (far, out) = (FarEnd::start(Duration::ZERO), folder.path().join("run"));
    let queries = folder.path().join("queries.txt");
    let lines: String = (0..5_000).map(|number| format!("q{number}.example A\n")).collect();
    std::fs::write(&queries, lines).unwrap();
    let words =
        format!("load --server {} --queries {} --rate 167 --duration 3s --workers 1", far.address, queries.display());
    // Printing the summary fails; the results must still be kept.
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (code, text, error) =
        ended(&catlab(&format!("{words} --dnsperf-text"), &url, 2, &out).stdout(full).output().unwrap());
    assert!(matches!(code, 0 | 1), "{text}{error}");
    // The query file is divided too: each agent takes every second query.
    let arrived: BTreeSet<u32> = far.end().iter().map(|arrival| number(&arrival.bytes)).collect();
    assert_eq!(arrived, (0..501).collect());
    let merged = Run::read(&out).unwrap();
    let own = own_runs(&out, &names);
    assert_eq!(own.iter().map(|run| run.total.sent).collect::<Vec<_>>(), [251, 250]);
    assert_sum(&merged, &own);
    // The folder must not contain the password of the NATS server.
    let manifest = std::fs::read_to_string(out.join("manifest.json")).unwrap();
    assert!(manifest.contains("nats://***@127.0.0.1:") && !manifest.contains("secret"), "{manifest}");
    let stranger = url.replace("lab:secret@", "");
    let (code, _, error) = ended(&catlab(&words, &stranger, 2, &folder.path().join("none")).output().unwrap());
    assert!(code == 2 && error.contains("authorization"), "{error}");
    // The agents were started for one run: they exit by themselves and leave no files.
    for mut agent in agents {
        let (began, over) = (agent.line(), agent.line());
        assert!(began.ends_with(": load") && over.contains(" ended: "), "{began} {over}");
        assert!(agent.process.0.wait().unwrap().success());
    }
    let left = names.map(|name| std::fs::read_dir(folder.path().join(name)).unwrap().count());
    assert_eq!(left, [0, 0]);
}
