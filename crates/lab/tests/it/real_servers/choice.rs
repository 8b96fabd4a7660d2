//! Several servers: each gets its share, according to its own counters.

use super::servers::RunningServer;
use super::{measured, queries};
use crate::support::Folder;
use crate::support::engines::engine_permit;
use measure::Transport;
use std::path::Path;
use std::process::Command;
use testbed::Kind;

/// Clients of the population, and queries per client.
const CLIENTS: u64 = 200;
const QUERIES: u64 = 10;

/// Two different servers; `None` if one is not installed.
fn both(folder: &Path) -> Option<[RunningServer; 2]> {
    Some([RunningServer::start(Kind::Nsd, folder)?, RunningServer::start(Kind::Knot, folder)?])
}

/// Runs `catlab load`. Returns the queries sent, the answers, and the queries that each server counted.
fn counted(servers: &[RunningServer; 2], transport: Transport, folder: &Path, more: &[String]) -> (u64, u64, [u64; 2]) {
    let before = servers.each_ref().map(|server| server.counted(transport));
    let out = folder.join("run");
    let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
    command.args(["load", "--quiet", "--workers", "1", "--duration", "2s"]).args(more);
    let summary = measured(
        {
            command.arg("--queries").arg(folder.join("queries")).arg("--force").arg("--out").arg(&out);
            command
        },
        &out,
    );
    let mut after = servers.iter().zip(&before).map(|(server, before)| server.counted(transport).since(before));
    let own = [0, 1].map(|_| after.next().and_then(|counted| counted.queries).unwrap());
    println!("{transport}: sent {}, answered {}, the servers {own:?}", summary.total.sent, summary.total.answered);
    (summary.total.sent, summary.total.answered + summary.total.late, own)
}

#[test]
fn servers_of_the_command_line_take_turns() {
    let _permit = engine_permit();
    let folder = Folder::new("choice-turns");
    let Some(servers) = both(folder.path()) else { return };
    queries(folder.path());
    for transport in [Transport::Udp, Transport::Tcp] {
        let addresses = servers.each_ref().map(|server| server.address(transport).to_string()).join(",");
        let more = ["--server", &addresses, "--transport", &transport.to_string(), "--rate", "1000"].map(str::to_owned);
        let (sent, answered, own) = counted(&servers, transport, folder.path(), &more);
        assert_eq!((sent, own[0] + own[1]), (2_000, answered), "{transport}: {own:?}");
        // On a busy machine, overdue queries go to one server in a batch.
        assert!(own.iter().all(|&own| (850..=1_150).contains(&own)), "{transport}: {own:?}");
    }
}

#[test]
fn clients_of_a_population_keep_their_server_and_follow_its_share() {
    let _permit = engine_permit();
    let folder = Folder::new("choice-shares");
    let Some(servers) = both(folder.path()) else { return };
    queries(folder.path());
    for transport in [Transport::Udp, Transport::Tcp] {
        let [first, second] = servers.each_ref().map(|server| server.address(transport));
        let rate = QUERIES as f64 / 2.0;
        let text = format!(
            "[[clients]]\ncount = {CLIENTS}\ntransports = {{ {transport} = 1.0 }}\n\
             servers = {{ \"{first}\" = 0.7, \"{second}\" = 0.3 }}\n\
             rate = {{ distribution = \"constant\", mean = {rate}, arrivals = \"even\" }}\n"
        );
        let file = folder.path().join("population.toml");
        std::fs::write(&file, text).unwrap();
        // The server of the command line is not asked: each group names its own.
        let more = ["--server", "127.0.0.1:9", "--population", file.to_str().unwrap()].map(str::to_owned);
        let (sent, answered, own) = counted(&servers, transport, folder.path(), &more);
        assert_eq!((sent, own[0] + own[1]), (CLIENTS * QUERIES, answered), "{transport}: {own:?}");
        let expected = [CLIENTS * QUERIES * 7 / 10, CLIENTS * QUERIES * 3 / 10];
        let lost = sent - answered;
        assert!(own.iter().zip(expected).all(|(&own, expected)| own <= expected && own + lost >= expected), "{own:?}");
    }
}
