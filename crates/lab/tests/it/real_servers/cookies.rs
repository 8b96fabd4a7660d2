//! Cookies at a server that requires them (RFC 7873): its cookie is sent back with the next query.

use super::servers::RunningServer;
use super::{measured, queries};
use crate::support::Folder;
use crate::support::engines::engine_permit;
use measure::Transport;
use report::Summary;
use std::path::Path;
use std::process::Command;
use testbed::Kind;

/// Client ports. Each has to learn the server cookie for itself.
const SOCKETS: u64 = 4;

fn load(server: &RunningServer, transport: Transport, folder: &Path, more: &[&str]) -> Summary {
    let out = folder.join("run");
    let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
    command.args(["load", "--quiet", "--workers", "1", "--server", &server.address(transport).to_string()]);
    command.args(["--transport", &transport.to_string(), "--sockets", &SOCKETS.to_string()]).args(more);
    command.args(["--rate", "200", "--duration", "2s"]).arg("--queries").arg(folder.join("queries"));
    command.arg("--force").arg("--out").arg(&out);
    measured(command, &out)
}

#[test]
fn the_server_cookie_is_sent_with_the_next_query() {
    let _permit = engine_permit();
    let folder = Folder::new("cookies");
    let Some(server) = RunningServer::start_with(Kind::Bind, folder.path(), "require-server-cookie yes;") else {
        return;
    };
    queries(folder.path());
    let udp = load(&server, Transport::Udp, folder.path(), &["--cookie"]).total;
    println!("{:?}", udp.rcodes);
    let refused = udp.rcodes.get("BADCOOKIE").copied().unwrap_or_default();
    // Queries that were overdue together were sent before the first answer.
    assert!(refused >= SOCKETS && refused < udp.answered / 4, "{:?}", udp.rcodes);
    assert!(udp.rcodes["NOERROR"] > udp.answered / 2, "{:?}", udp.rcodes);
    // BADCOOKIE has more bits than the header's RCODE: it must not be read as YXRRSET.
    assert!(!udp.rcodes.contains_key("YXRRSET"), "{:?}", udp.rcodes);
    let signed = ["--cookie", "--dnssec-ok", "--expect-rcode", "BADCOOKIE"];
    let other = load(&server, Transport::Udp, folder.path(), &signed).total;
    assert_eq!(other.unexpected + other.rcodes["BADCOOKIE"], other.answered);
    // Over TCP, no cookie is required.
    let tcp = load(&server, Transport::Tcp, folder.path(), &["--cookie"]).total;
    assert!(!tcp.rcodes.contains_key("BADCOOKIE") && tcp.answered == tcp.sent, "{:?}", tcp.rcodes);
}
