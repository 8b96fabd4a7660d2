//! Several servers: each gets its share, by its own count.

use super::servers::{Brand, Running};
use super::{measured, queries, turn};
use crate::support::Folder;
use lab::engine::Transport;
use std::path::Path;
use std::process::Command;

/// Clients of the population, and queries of each.
const CLIENTS: u64 = 200;
const QUERIES: u64 = 10;

/// Both servers, of different brands; none when one of them is missing.
fn both(folder: &Path) -> Option<[Running; 2]> {
    Some([Running::start(Brand::Nsd, folder)?, Running::start(Brand::Knot, folder)?])
}

/// Runs `catlab load`, and gives how many answers there were, and what each server counted meanwhile.
fn counted(servers: &[Running; 2], transport: Transport, folder: &Path, more: &[String]) -> (u64, u64, [u64; 2]) {
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
    let _turn = turn();
    let folder = Folder::new("choice-turns");
    let Some(servers) = both(folder.path()) else { return };
    queries(folder.path());
    for transport in [Transport::Udp, Transport::Tcp] {
        let addresses = servers.each_ref().map(|server| server.address(transport).to_string()).join(",");
        let more = ["--server", &addresses, "--transport", &transport.to_string(), "--rate", "1000"].map(str::to_owned);
        let (sent, answered, own) = counted(&servers, transport, folder.path(), &more);
        assert_eq!((sent, own[0] + own[1]), (2_000, answered), "{transport}: {own:?}");
        // On a machine that does other things too, what is overdue goes to one server in one batch.
        assert!(own.iter().all(|&own| (850..=1_150).contains(&own)), "{transport}: {own:?}");
    }
}

#[test]
fn clients_of_a_population_keep_to_their_servers_by_the_shares() {
    let _turn = turn();
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
