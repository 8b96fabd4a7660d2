//! An agent or a controller is killed during a run.

use super::{CATLAB, assert_sum, catlab, ended, source, trace};
use crate::support::Folder;
use crate::support::nats::{Agent, Nats, Process, here, own_runs, summary, until};
use links::Namespace;
use load::replay::RendezvousHash;
use measure::Transport;
use report::Run;
use std::io;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use testbed::echo::{Echo, EchoPlan};

/// Runs 8 s at 500 queries a second and kills one agent midway. The report must say how many of its queries it did not
/// send.
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
        // If the run is over too early, the assertions below report it.
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
    let reason = format!("it had sent {sent} of its {planned} queries, {} were not sent", planned - sent);
    assert!(summary["validity"]["reasons"].to_string().contains(&reason), "{summary}");
    assert!(text.contains("LOST") && text.contains("INVALID"), "{text}");
    // The other agents sent all their queries.
    let names: Vec<&str> = agents.iter().map(|(name, _)| *name).collect();
    let own = own_runs(&out, &names);
    assert_sum(&Run::read(&out).unwrap(), &own);
    assert_eq!(summary["sent"], 4_000 - planned);
    // The echo received what the killed agent had sent by its last heartbeat, and perhaps some more.
    let arrived = echo.counts().queries_of(Transport::Udp);
    assert!((4_000 - planned + sent..4_000).contains(&arrived), "{arrived}: {lost:?}");
    summary
}

/// 4,000 queries with different names.
const LOAD: &str = "load --name q{n}.example --rate 500 --duration 8s";

/// The same number of queries from a trace with 200 sources.
fn replay_words(folder: &Folder) -> String {
    format!("replay {} --speed 0.5", trace(folder, 4_000, 200).display())
}

/// A load is divided evenly among the agents.
fn assert_even(summary: &serde_json::Value) {
    let rows = summary["agents"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["planned"] == 4_000 / rows.len()), "{summary}");
}

/// In a replay, each agent sends the queries of its sources. Sources are assigned by the names of the agents.
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
fn an_agent_whose_controller_dies_stops_and_takes_the_next_run() {
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
    // The agent takes the next run once it has stopped sending.
    let out = folder.path().join("two");
    let before = echo.counts().queries_of(Transport::Udp);
    let (code, text, error) = ended(&catlab(&format!("{load} --duration 1s"), &url, 1, &out).output().unwrap());
    assert!(matches!(code, 0 | 1), "{text}{error}");
    assert_eq!(summary(&out)["sent"], 200);
    // The first run may still have sent queries for up to a second before the agent stopped.
    let since = echo.counts().queries_of(Transport::Udp) - before;
    assert!((200..2_000).contains(&since), "{since}");
}

/// Creates a namespace in the middle and one around it for each agent. All agents reach 10.77.255.1.
fn star(letter: char, names: &[&str]) -> io::Result<(Namespace, Vec<Namespace>)> {
    let id = format!("{}{letter}", std::process::id() % 100_000);
    let hub = Namespace::make(&format!("cg{id}"))?;
    hub.ip("addr add 10.77.255.1/32 dev lo")?;
    let mut around = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let own = Namespace::make(&format!("cg{id}{name}"))?;
        // `ip` would read a device named `n` as an option.
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

/// Runs four agents, a NATS server and an echo server, each in its own namespace, and kills one agent.
fn four_hosts(letter: char, words: impl Fn(&Folder) -> String, judge: impl Fn(&serde_json::Value, &[&str])) {
    let names = ["n", "e", "s", "w"];
    let (hub, around) = match star(letter, &names) {
        Ok(made) => made,
        Err(error) => {
            return skip::permission(format!("making network namespaces: {error}"));
        }
    };
    let folder = Folder::new(&format!("agents-hosts-{letter}"));
    let at_hub = |program: &str| hub.command(program);
    let Some(server) = Nats::start(&at_hub, "10.77.255.1", folder.path(), &[]) else { return };
    let url = format!("nats://10.77.255.1:{}", server.port);
    let agents = names.iter().zip(&around).map(|(&name, host)| {
        let on_host = |program: &str| host.command(program);
        (name, Agent::start(&on_host, &url, name, folder.path(), &[]))
    });
    let agents: Vec<_> = agents.collect();
    let plan = EchoPlan { address: Ipv4Addr::new(10, 77, 255, 1).into(), ..EchoPlan::new(&[Transport::Udp]).unwrap() };
    let echo = hub.inside(|| Echo::start(&plan)).unwrap();
    let summary = with_one_killed(&folder, &url, hub.command(CATLAB), &words(&folder), &echo, agents);
    judge(&summary, &names);
}

#[test]
fn one_of_four_agents_is_killed_during_a_load() {
    four_hosts('l', |_| LOAD.to_owned(), |summary, _| assert_even(summary));
}

#[test]
fn one_of_four_agents_is_killed_during_a_replay() {
    four_hosts('r', replay_words, assert_shared);
}
