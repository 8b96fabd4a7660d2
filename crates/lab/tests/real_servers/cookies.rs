//! Cookies at a server that wants them (RFC 7873): it sends its half, and gets it back with the next query.

use super::servers::{Brand, Running};
use super::{measured, queries, turn};
use crate::support::Folder;
use lab::engine::Transport;
use lab::report::Summary;
use std::path::Path;
use std::process::Command;

/// Client ports: each has to learn for itself.
const SOCKETS: u64 = 4;

fn load(server: &Running, transport: Transport, folder: &Path, more: &[&str]) -> Summary {
    let out = folder.join("run");
    let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
    command.args(["load", "--quiet", "--workers", "1", "--server", &server.address(transport).to_string()]);
    command.args(["--transport", &transport.to_string(), "--sockets", &SOCKETS.to_string()]).args(more);
    command.args(["--rate", "200", "--duration", "2s"]).arg("--queries").arg(folder.join("queries"));
    command.arg("--force").arg("--out").arg(&out);
    measured(command, &out)
}

#[test]
fn the_server_s_half_comes_back_with_the_next_query() {
    let _turn = turn();
    let folder = Folder::new("cookies");
    let Some(server) = Running::start_with(Brand::Bind, folder.path(), "require-server-cookie yes;") else { return };
    queries(folder.path());
    let udp = load(&server, Transport::Udp, folder.path(), &["--cookie"]).total;
    println!("{:?}", udp.rcodes);
    let refused = udp.rcodes.get("BADCOOKIE").copied().unwrap_or_default();
    // Queries that were overdue together went out before the first answer.
    assert!(refused >= SOCKETS && refused < udp.answered / 4, "{:?}", udp.rcodes);
    assert!(udp.rcodes["NOERROR"] > udp.answered / 2, "{:?}", udp.rcodes);
    // BADCOOKIE has more bits than the header: it is no YXRRSET.
    assert!(!udp.rcodes.contains_key("YXRRSET"), "{:?}", udp.rcodes);
    let signed = ["--cookie", "--dnssec-ok", "--expect-rcode", "BADCOOKIE"];
    let other = load(&server, Transport::Udp, folder.path(), &signed).total;
    assert_eq!(other.unexpected + other.rcodes["BADCOOKIE"], other.answered);
    // A connection is proof enough.
    let tcp = load(&server, Transport::Tcp, folder.path(), &["--cookie"]).total;
    assert!(!tcp.rcodes.contains_key("BADCOOKIE") && tcp.answered == tcp.sent, "{:?}", tcp.rcodes);
}
