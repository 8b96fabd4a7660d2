//! Runs over agents, each a process of its own, through a real NATS server: every query goes out once, from the agent
//! that has its source; nothing of the measurement is lost; an agent that dies is told of.
#[expect(dead_code, reason = "it is shared with tests that use more of it")]
#[path = "support/far_end.rs"]
mod far_end;
#[path = "support/nats.rs"]
mod nats;
#[expect(dead_code, reason = "it is shared with tests that use more of it")]
mod support;

use far_end::FarEnd;
use lab::echo::{Echo, EchoPlan};
use lab::engine::Transport;
use lab::fleet::{Access, Bus, subjects};
use lab::limits::{HEARTBEAT_INTERVAL, START_LATE_MAX, STREAM_BYTES_MAX};
use lab::replay::RendezvousHash;
use lab::report::{Distribution, Run};
use links::Namespace;
use nats::{Agent, Nats, PATIENCE, Process, below, here, own_runs, summary, until};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::Folder;
use trace::{Format, Message, Writer};
use wire::Name;
use wire::builder::MessageBuilder;
use wire::number::Rtype;

const CATLAB: &str = env!("CARGO_BIN_EXE_catlab");

/// A trace of so many queries, a millisecond apart, of so many sources below 10.0.0.0.
fn trace(folder: &Folder, count: u32, sources: u32) -> PathBuf {
    let path = folder.path().join("trace.txt");
    let mut writer = Writer::create(&path, Format::Text).unwrap();
    for number in 0..count {
        let qname: Name = format!("q{number}.example").parse().unwrap();
        let bytes = MessageBuilder::query(number as u16, qname.as_ref(), Rtype::A).build();
        let (source, destination) =
            (SocketAddr::from((source(number, sources), 4_711)), SocketAddr::from(([192, 0, 2, 1], 53)));
        let at_ns = 1_700_000_000_000_000_000 + 1_000_000 * u64::from(number);
        let transport = trace::Transport::Udp;
        writer.write(&Message { at_ns, source, destination, transport, bytes: &bytes }).unwrap();
    }
    writer.finish().unwrap();
    path
}

/// Who asks a query of [`trace`].
fn source(number: u32, sources: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 0)) + number % sources)
}

/// The digits of `q123.example.`.
fn number(message: &[u8]) -> u32 {
    let label = &message[14..13 + usize::from(message[12])];
    std::str::from_utf8(label).unwrap().parse().unwrap()
}

/// Exit code, standard output and standard error.
fn ended(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

fn catlab(words: &str, url: &str, agents: usize, out: &Path) -> Command {
    let mut command = Command::new(CATLAB);
    command.env_remove("CATLAB_ALLOW").args(words.split(' ')).args(["--quiet", "--nats", url]).stdin(Stdio::null());
    // What a controller that is killed leaves goes with the test.
    command.args(["--agents", &agents.to_string(), "--out"]).arg(out).env("TMPDIR", out.parent().unwrap());
    command
}

/// What each agent measured is in the merged run, each value of each histogram.
fn assert_sum(merged: &Run, own: &[Run]) {
    assert_eq!(merged.total.sent, own.iter().map(|run| run.total.sent).sum::<u64>());
    assert_eq!(merged.total.latency, Distribution::sum(own.iter().map(|run| &run.total.latency)));
    assert_eq!(merged.total.send_lag, Distribution::sum(own.iter().map(|run| &run.total.send_lag)));
}

#[test]
fn a_trace_is_sent_once_and_sources_keep_to_their_agent() {
    let folder = Folder::new("agents-replay");
    let Some(server) = Nats::start(&here, "127.0.0.1", folder.path(), &[]) else { return };
    let url = format!("nats://127.0.0.1:{}", server.port);
    let names = ["east", "west"];
    let _agents = names.map(|name| Agent::start(&here, &url, name, folder.path(), &[]));
    let (far, out) = (FarEnd::start(Duration::ZERO), folder.path().join("run"));
    let path = trace(&folder, 3_000, 200);
    let words = format!("replay {} --server {}", path.display(), far.address);
    let (code, text, error) = ended(&catlab(&words, &url, 2, &out).output().unwrap());
    // 1 is a run that was late, on a machine that does other things too.
    assert!(matches!(code, 0 | 1), "{text}{error}");
    let arrivals = far.end();
    let hash = RendezvousHash::new(names);
    let (mut seen, mut addresses) = (BTreeSet::new(), BTreeMap::new());
    for arrival in &arrivals {
        let (number, IpAddr::V4(from)) = (number(&arrival.bytes), arrival.from.ip()) else { panic!("{arrival:?}") };
        assert!(seen.insert(number), "{number} came twice");
        // Agents number their sources apart: the address tells whose it is.
        let index = (u32::from(from) - u32::from(Ipv4Addr::new(127, 0, 0, 1))) % 2;
        let source = source(number, 200);
        assert_eq!(hash.owner(source.into()), index as usize, "{source}");
        assert_eq!(*addresses.entry(source).or_insert(from), from, "{source} asked from two addresses");
    }
    assert_eq!((seen.len(), addresses.len()), (3_000, 200), "{text}{error}");
    assert_eq!(addresses.values().collect::<BTreeSet<_>>().len(), 200);

    let (merged, summary) = (Run::read(&out).unwrap(), summary(&out));
    assert_sum(&merged, &own_runs(&out, &names));
    assert_eq!(
        (&summary["sent"], &summary["replay"]["queries"], &summary["replay"]["sources"]),
        (&3_000.into(), &3_000.into(), &200.into())
    );
    assert_eq!(summary["replay"]["trace"], path.display().to_string());
    assert_eq!(summary["send_error_us"], summary["send_lag_us"]);
    let rows = summary["agents"].as_array().unwrap();
    for (row, name) in rows.iter().zip(names) {
        assert_eq!((&row["name"], &row["planned"]), (&name.into(), &row["sent"]), "{row}");
        // It is the same clock.
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

/// A page of the monitoring port of a server whose files are in this folder.
fn monitored(folder: &Path, page: &str) -> serde_json::Value {
    let mut files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let file = files.find(|path| path.extension().is_some_and(|extension| extension == "ports")).unwrap();
    let ports: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let mut stream =
        TcpStream::connect(ports["monitoring"][0].as_str().unwrap().trim_start_matches("http://")).unwrap();
    write!(stream, "GET /{page} HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// What a NATS server has carried: messages in and out, bytes in and out, and what JetStream was asked and holds.
fn carried(folder: &Path) -> [u64; 6] {
    let (whole, stream) = (monitored(folder, "varz"), monitored(folder, "jsz"));
    let of = |page: &serde_json::Value, name: &str| page[name].as_u64().unwrap();
    let [in_msgs, out_msgs, in_bytes, out_bytes] =
        ["in_msgs", "out_msgs", "in_bytes", "out_bytes"].map(|name| of(&whole, name));
    [in_msgs, out_msgs, in_bytes, out_bytes, of(&stream["api"], "total"), of(&stream, "messages")]
}

/// Nothing is fetched and nothing acknowledged while queries go out, and agents begin together.
#[test]
fn while_a_run_goes_on_nats_carries_signs_of_life_alone() {
    const SIGN_BYTES_MAX: u64 = 512;
    let folder = Folder::new("agents-quiet");
    let Some(server) = Nats::start(&here, "127.0.0.1", folder.path(), &["-m", "-1"]) else { return };
    let url = format!("nats://127.0.0.1:{}", server.port);
    let names = ["a", "b"];
    let _agents = names.map(|name| Agent::start(&here, &url, name, folder.path(), &[]));
    let echo = Echo::start(&EchoPlan::new(&[Transport::Udp]).unwrap()).unwrap();
    let out = folder.path().join("run");
    let words = format!("replay {} --server {}", trace(&folder, 4_000, 200).display(), echo.address(Transport::Udp));
    let mut controller = Process(catlab(&words, &url, 2, &out).stdout(Stdio::null()).spawn().unwrap());
    let arrived = || echo.counts().queries_of(Transport::Udp);
    until("the first query", || (arrived() > 0).then_some(()));
    let (began, before) = (Instant::now(), carried(folder.path()));
    until("most queries", || (arrived() >= 3_600).then_some(()));
    let after = carried(folder.path());
    let took = began.elapsed();
    assert!(arrived() < 4_000, "the run was over before it was looked at");
    let [in_msgs, out_msgs, in_bytes, out_bytes, asked, _] = std::array::from_fn(|at| after[at] - before[at]);
    // Each agent to the controller and the controller to each agent, twice a second.
    let signs_max = 4 * (took.as_millis() / HEARTBEAT_INTERVAL.as_millis() + 2) as u64;
    println!("{in_msgs} messages in, {out_msgs} out, {in_bytes} and {out_bytes} bytes in {took:?}");
    assert!((1..=signs_max).contains(&in_msgs) && out_msgs <= signs_max, "{in_msgs} {out_msgs} of {signs_max}");
    assert!(in_bytes.max(out_bytes) <= signs_max * SIGN_BYTES_MAX, "{in_bytes} {out_bytes}");
    assert_eq!((asked, after[5]), (0, before[5]), "JetStream was asked for something");
    let status = until("the end", || controller.0.try_wait().unwrap());
    assert!(matches!(status.code(), Some(0 | 1)), "{status}");
    let summary = summary(&out);
    for row in summary["agents"].as_array().unwrap() {
        let late_us = row["start_late_us"].as_f64().unwrap();
        // A machine that does other things too is that late at most, and one that is later than allowed is told of.
        assert!((0.0..500_000.0).contains(&late_us), "{row}");
        let told = format!("agent {} began", row["name"].as_str().unwrap());
        let is_told = summary["validity"]["reasons"].to_string().contains(&told);
        assert_eq!(is_told, late_us > START_LATE_MAX.as_secs_f64() * 1e6, "{summary}");
    }
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
fn a_load_is_divided_to_the_last_query() {
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
        format!("load --server {} --queries {} --rate 1001 --duration 3s --workers 1", far.address, queries.display());
    // The results stay although the summary cannot be printed.
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (code, text, error) =
        ended(&catlab(&format!("{words} --dnsperf-text"), &url, 2, &out).stdout(full).output().unwrap());
    assert!(matches!(code, 0 | 1), "{text}{error}");
    // Of the file, too, each agent has every second one.
    let arrived: BTreeSet<u32> = far.end().iter().map(|arrival| number(&arrival.bytes)).collect();
    assert_eq!(arrived, (0..3_003).collect());
    let merged = Run::read(&out).unwrap();
    let own = own_runs(&out, &names);
    assert_eq!(own.iter().map(|run| run.total.sent).collect::<Vec<_>>(), [1_502, 1_501]);
    assert_sum(&merged, &own);
    // Who may command is nobody's business who reads the folder.
    let manifest = std::fs::read_to_string(out.join("manifest.json")).unwrap();
    assert!(manifest.contains("nats://***@127.0.0.1:") && !manifest.contains("secret"), "{manifest}");
    let stranger = url.replace("lab:secret@", "");
    let (code, _, error) = ended(&catlab(&words, &stranger, 2, &folder.path().join("none")).output().unwrap());
    assert!(code == 2 && error.contains("authorization"), "{error}");
    // One run was wanted of them; they end by themselves and leave nothing.
    for mut agent in agents {
        let (began, over) = (agent.line(), agent.line());
        assert!(began.ends_with(": load") && over.contains(" ended: "), "{began} {over}");
        assert!(agent.process.0.wait().unwrap().success());
    }
    let left = names.map(|name| std::fs::read_dir(folder.path().join(name)).unwrap().count());
    assert_eq!(left, [0, 0]);
}

/// A run of 8 s at 500 a second of which one agent is killed once enough has arrived: what it had not sent is told.
fn with_one_killed(
    folder: &Folder,
    url: &str,
    mut controller: Command,
    words: &str,
    echo: &Echo,
    mut agents: Vec<(&str, Agent)>,
) -> serde_json::Value {
    let out = folder.path().join("run");
    let more = format!("--server {} --workers 1 --quiet --nats {url}", echo.address(Transport::Udp));
    controller.args(words.split(' ')).args(more.split(' ')).args(["--agents", &agents.len().to_string(), "--out"]);
    let child = controller.arg(&out).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut controller = Process(child);
    until("queries", || {
        // It would be told below.
        let is_over = controller.0.try_wait().unwrap().is_some();
        (is_over || echo.counts().queries_of(Transport::Udp) > 1_000).then_some(())
    });
    let killed = agents.swap_remove(1);
    let (name, count) = (killed.0, agents.len() + 1);
    drop(killed);
    until("the end", || controller.0.try_wait().unwrap());
    let (mut text, mut error) = (String::new(), String::new());
    io::Read::read_to_string(controller.0.stdout.as_mut().unwrap(), &mut text).unwrap();
    io::Read::read_to_string(controller.0.stderr.as_mut().unwrap(), &mut error).unwrap();
    assert_eq!(controller.0.wait().unwrap().code(), Some(1), "{text}{error}");

    let summary = summary(&out);
    assert_eq!((&summary["partial"], &summary["validity"]["valid"]), (&true.into(), &false.into()), "{summary}");
    let rows = summary["agents"].as_array().unwrap();
    let lost: Vec<_> = rows.iter().filter(|row| row.get("lost").is_some()).collect();
    assert!(rows.len() == count && lost.len() == 1 && lost[0]["name"] == name, "{summary}");
    let planned_of = |row: &serde_json::Value| row["planned"].as_u64().unwrap();
    assert_eq!(rows.iter().map(planned_of).sum::<u64>(), 4_000, "{summary}");
    let (planned, sent) = (planned_of(lost[0]), lost[0]["sent"].as_u64().unwrap());
    assert!(sent < planned, "{lost:?}");
    let told = format!("of its {planned} queries it had sent {sent}, {} were not sent", planned - sent);
    assert!(summary["validity"]["reasons"].to_string().contains(&told), "{summary}");
    assert!(text.contains("LOST") && text.contains("INVALID"), "{text}");
    // The others sent all of theirs.
    let names: Vec<&str> = agents.iter().map(|(name, _)| *name).collect();
    let own = own_runs(&out, &names);
    assert_sum(&Run::read(&out).unwrap(), &own);
    assert_eq!(summary["sent"], 4_000 - planned);
    // What the killed one had sent by its last sign of life, and what it sent after that.
    let arrived = echo.counts().queries_of(Transport::Udp);
    assert!((4_000 - planned + sent..4_000).contains(&arrived), "{arrived}: {lost:?}");
    summary
}

/// 4,000 queries of names of their own.
const LOAD: &str = "load --name q{n}.example --rate 500 --duration 8s";

/// The same of a trace that has 200 sources.
fn replay_words(folder: &Folder) -> String {
    format!("replay {} --speed 0.5", trace(folder, 4_000, 200).display())
}

/// Of a load each agent has as much as any other.
fn assert_even(summary: &serde_json::Value) {
    let rows = summary["agents"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["planned"] == 4_000 / rows.len()), "{summary}");
}

/// Of a replay each agent has what its sources ask, as they are shared out by its name.
fn assert_shared(summary: &serde_json::Value, names: &[&str]) {
    let hash = RendezvousHash::new(names);
    let owners: Vec<usize> = (0..4_000).map(|number| hash.owner(source(number, 200).into())).collect();
    for (index, name) in names.iter().enumerate() {
        let planned = owners.iter().filter(|owner| **owner == index).count();
        let row = summary["agents"].as_array().unwrap().iter().find(|row| row["name"] == *name).unwrap();
        assert!(planned > 0 && row["planned"] == planned, "{planned}: {row}");
    }
    assert_eq!(
        (&summary["replay"]["timing"], &summary["replay"]["speed"]),
        (&"trace".into(), &0.5.into()),
        "{summary}"
    );
}

#[test]
fn an_agent_that_dies_makes_the_run_partial() {
    let folder = Folder::new("agents-killed");
    let Some(server) = Nats::start(&here, "127.0.0.1", folder.path(), &[]) else { return };
    let url = format!("nats://127.0.0.1:{}", server.port);
    let agents = ["a", "b"].map(|name| (name, Agent::start(&here, &url, name, folder.path(), &[])));
    let echo = Echo::start(&EchoPlan::new(&[Transport::Udp]).unwrap()).unwrap();
    assert_even(&with_one_killed(&folder, &url, Command::new(CATLAB), LOAD, &echo, agents.into()));
}

#[test]
fn an_agent_that_dies_makes_a_replay_partial() {
    let folder = Folder::new("agents-replay-killed");
    let Some(server) = Nats::start(&here, "127.0.0.1", folder.path(), &[]) else { return };
    let url = format!("nats://127.0.0.1:{}", server.port);
    let agents = ["a", "b"].map(|name| (name, Agent::start(&here, &url, name, folder.path(), &[])));
    let echo = Echo::start(&EchoPlan::new(&[Transport::Udp]).unwrap()).unwrap();
    let words = replay_words(&folder);
    let summary = with_one_killed(&folder, &url, Command::new(CATLAB), &words, &echo, agents.into());
    assert_shared(&summary, &["a", "b"]);
}

#[test]
fn an_agent_whose_controller_dies_stops_and_is_there_again() {
    let folder = Folder::new("agents-left");
    let Some(server) = Nats::start(&here, "127.0.0.1", folder.path(), &[]) else { return };
    let url = format!("nats://127.0.0.1:{}", server.port);
    let agent = Agent::start(&here, &url, "left", folder.path(), &[]);
    let echo = Echo::start(&EchoPlan::new(&[Transport::Udp]).unwrap()).unwrap();
    let load = format!("load --server {} --name q{{n}}.example --rate 200 --workers 1", echo.address(Transport::Udp));
    let mut command = catlab(&format!("{load} --duration 10m --agent-silence 5s"), &url, 1, &folder.path().join("one"));
    let controller = Process(command.stdout(Stdio::null()).spawn().unwrap());
    until("queries", || (echo.counts().queries_of(Transport::Udp) > 200).then_some(()));
    drop(controller);
    assert!(agent.line().ends_with(": load"));
    let over = agent.line();
    assert!(over.ends_with("no heartbeat from its controller"), "{over}");
    // As soon as nothing of it is sent any more it takes part in the next.
    let out = folder.path().join("two");
    let before = echo.counts().queries_of(Transport::Udp);
    let (code, text, error) = ended(&catlab(&format!("{load} --duration 1s"), &url, 1, &out).output().unwrap());
    assert!(matches!(code, 0 | 1), "{text}{error}");
    assert_eq!(summary(&out)["sent"], 200);
    // What was on its way when it let go, at most a second of it, may have come since.
    let since = echo.counts().queries_of(Transport::Udp) - before;
    assert!((200..2_000).contains(&since), "{since}");
}

/// What does not fit the stream waits until some of it has been taken, and nothing is lost by it.
#[test]
fn a_file_that_is_larger_than_the_stream_arrives() {
    let folder = Folder::new("agents-stream");
    let Some(server) = Nats::start(&here, "127.0.0.1", folder.path(), &[]) else { return };
    let url = format!("nats://127.0.0.1:{}", server.port);
    let (from, into, run) = (folder.path().join("from"), folder.path().join("into"), "0123456789abcdef");
    let bytes: Vec<u8> = (0..(STREAM_BYTES_MAX as u32 + (4 << 20)) / 4).flat_map(u32::to_be_bytes).collect();
    std::fs::write(&from, &bytes).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (sent, taken) = runtime.block_on(async {
        let bus = Bus::connect(&Access::plain(&url)).await.unwrap();
        bus.open_stream(run).await.unwrap();
        let subject = subjects::down(run, run, 0);
        let sending = bus.send_file(&subject, &from);
        let stream = async_nats::jetstream::new(async_nats::connect(&url).await.unwrap());
        let taking = async {
            let began = Instant::now();
            let held = async || stream.get_stream(format!("catlab-{run}")).await.unwrap().cached_info().state.bytes;
            // Until there is no room for another piece.
            while held().await < (STREAM_BYTES_MAX - (128 << 10)) as u64 {
                assert!(began.elapsed() < PATIENCE, "the stream does not fill");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            bus.take_file(run, &subject, bytes.len() as u64, &into, PATIENCE).await
        };
        let both = tokio::join!(sending, taking);
        bus.delete_stream(run).await.unwrap();
        both
    });
    sent.unwrap();
    taken.unwrap();
    assert!(std::fs::read(&into).unwrap() == bytes);
}

/// A namespace in the middle, with one for each agent around it: all reach 10.77.255.1.
fn star(letter: char, names: &[&str]) -> io::Result<(Namespace, Vec<Namespace>)> {
    let id = format!("{}{letter}", std::process::id() % 100_000);
    let hub = Namespace::make(&format!("cg{id}"))?;
    hub.ip("addr add 10.77.255.1/32 dev lo")?;
    let mut around = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let own = Namespace::make(&format!("cg{id}{name}"))?;
        // A device n would be taken for a word of `ip`.
        hub.ip(&format!("link add to-{name} type veth peer name up netns {}", own.name()))?;
        hub.ip(&format!("addr add 10.77.{index}.1/30 dev to-{name}"))?;
        hub.ip(&format!("link set to-{name} up"))?;
        own.ip(&format!("addr add 10.77.{index}.2/30 dev up"))?;
        own.ip("link set dev up up")?;
        own.ip(&format!("route add default via 10.77.{index}.1"))?;
        around.push(own);
    }
    Ok((hub, around))
}

/// Four agents around a server of NATS and an echo, each in a namespace of its own, one of which is killed.
fn four_hosts(letter: char, words: impl Fn(&Folder) -> String, judge: impl Fn(&serde_json::Value, &[&str])) {
    let names = ["n", "e", "s", "w"];
    let (hub, around) = match star(letter, &names) {
        Ok(made) => made,
        Err(error) => {
            println!("skipped: no namespaces can be made here: {error}");
            assert!(std::env::var("CI").as_deref() != Ok("true"), "{error}");
            return;
        }
    };
    let folder = Folder::new(&format!("agents-hosts-{letter}"));
    let at_hub = |program: &str| hub.command(program);
    let Some(server) = Nats::start(&at_hub, "10.77.255.1", folder.path(), &[]) else { return };
    let url = format!("nats://10.77.255.1:{}", server.port);
    let agents = names.iter().zip(&around).map(|(&name, place)| {
        let place = |program: &str| place.command(program);
        (name, Agent::start(&place, &url, name, folder.path(), &[]))
    });
    let agents: Vec<_> = agents.collect();
    let plan = EchoPlan { address: Ipv4Addr::new(10, 77, 255, 1).into(), ..EchoPlan::new(&[Transport::Udp]).unwrap() };
    let echo = hub.inside(|| Echo::start(&plan)).unwrap();
    let summary = with_one_killed(&folder, &url, hub.command(CATLAB), &words(&folder), &echo, agents);
    judge(&summary, &names);
}

#[test]
fn four_hosts_of_which_one_dies_in_a_load() {
    four_hosts('l', |_| LOAD.to_owned(), |summary, _| assert_even(summary));
}

#[test]
fn four_hosts_of_which_one_dies_in_a_replay() {
    four_hosts('r', replay_words, assert_shared);
}

#[test]
fn what_cannot_be_is_refused_with_a_sentence() {
    let folder = Folder::new("agents-refused");
    let Some(server) = Nats::start(&here, "127.0.0.1", folder.path(), &[]) else { return };
    let url = format!("nats://127.0.0.1:{}", server.port);
    let out = folder.path().join("run");
    let load = "load --server 127.0.0.1:9 --name q{n}.example --rate 10 --duration 1s";
    let refused = |words: &str, agents: usize| {
        let (code, text, error) = ended(&catlab(words, &url, agents, &out).output().unwrap());
        assert_eq!(code, 2, "{text}{error}");
        error
    };
    let error = refused(&format!("{load} --agents-wait 1s"), 2);
    assert!(error.contains("0 of 2 agents answered within 1 s"), "{error}");
    let error = refused(&format!("{load} --source 127.0.0.1"), 1);
    assert!(error.contains("--source does not go with --nats"), "{error}");
    // The controller's word does not count on the agent's side.
    let agent = Agent::start(&here, &url, "mine", folder.path(), &[]);
    let stranger = "load --server 192.0.2.1 --name q{n}.example --rate 10 --duration 1s --i-own-this-target";
    let error = refused(stranger, 1);
    assert!(error.contains("agent mine: ") && error.contains("192.0.2.1:53: it is not on loopback"), "{error}");
    let error = refused(&format!("{load} --closed-loop --in-flight 1 --agents-wait 1s").replace("--rate 10 ", ""), 2);
    assert!(error.contains("1 of 2 agents answered within 1 s (mine)"), "{error}");
    // It is there for the next one.
    assert!(agent.line().ends_with(": load") && agent.line().contains(" ended: "));
    let server = Command::new(CATLAB)
        .args(load.split(' '))
        .args(["--quiet", "--nats", "nats://127.0.0.1:9", "--agents", "1"])
        .output()
        .unwrap();
    assert_eq!(ended(&server).0, 2);
    assert!(ended(&server).2.contains("NATS at 127.0.0.1:9: "), "{server:?}");
}
