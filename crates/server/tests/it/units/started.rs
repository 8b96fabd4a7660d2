//! Both units under systemd: the node answers on port 53 and executes an update, and the client keeps a name.

use super::unit;
use crate::support::cluster::{CATAMARAN, Cluster, Scratch, key_of, wait_for};
use crate::support::dns::{SILENCE, Transport, exchange};
use crate::support::http;
use crate::support::message::name;
use crate::support::pipeline::outcome_of;
use crate::support::systemd::{Systemd, USER};
use crate::updates::{add, is_there, rcode, socket};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};
use wire::Rtype;
use wire::builder::MessageBuilder;

const NET_BIND_SERVICE: u64 = 1 << 10;

/// A loopback address for this process alone: its ports below 1024 are free.
fn own_address() -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 77, high, low.clamp(1, 254))
}

/// Runs a command of the cluster in `dir`. Returns its output.
fn done(dir: &Path, words: &[&str]) -> String {
    let mut command = Command::new(CATAMARAN);
    let output = command.args(words).args(["--dir", dir.to_str().unwrap()]).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Gives a directory and everything below it to another user.
fn give_to(user: u32, path: &Path) {
    chown(path, Some(user), Some(user)).unwrap();
    for entry in std::fs::read_dir(path).into_iter().flatten() {
        give_to(user, &entry.unwrap().path());
    }
}

/// Checks the user, and lines of hexadecimal numbers, for all threads of a process.
fn assert_confined(process: u32, user: Option<u32>, capabilities: u64) {
    let threads: Vec<_> = std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten().collect();
    assert!(threads.len() > 1, "{} threads", threads.len());
    for thread in threads {
        // The thread may have ended.
        let Ok(status) = std::fs::read_to_string(thread.path().join("status")) else { continue };
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
        let hex = |name| u64::from_str_radix(field(name), 16).unwrap();
        let sets = ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:"].map(hex);
        // Resolver threads open no ports.
        let capabilities = if field("Name:").starts_with("resolve-") { 0 } else { capabilities };
        assert_eq!(sets, [capabilities, capabilities, 0, 0], "{status}");
        assert_eq!((field("NoNewPrivs:"), field("Seccomp:")), ("1", "2"), "{status}");
        let real: u32 = field("Uid:").split('\t').next().unwrap().parse().unwrap();
        assert!(user.map_or(real > 60_000, |user| real == user), "{status}");
    }
}

#[test]
fn systemd_runs_the_node_which_answers_and_takes_an_update() {
    let scratch = Scratch::new("units-node");
    let address = own_address();
    let [dns, peer, api] = [53, 5380, 8053].map(|port| SocketAddr::from((address, port)));
    let dir = Systemd::dir(&scratch, "lib").join("catamaran");
    let [dns_text, peer_text, api_text] = [dns, peer, api].map(|address| address.to_string());
    done(&dir, &["init", "--dns", &dns_text, "--peer", &peer_text, "--api", &api_text]);
    give_to(USER, &dir);
    let Some(systemd) = Systemd::start(&scratch, "catamaran.service", &unit("catamaran.service")) else { return };
    wait_for("the node to be well", || http::get(api, "/healthz").ok().filter(|answer| answer.status == 200));

    let process = systemd.service().unwrap();
    wait_for("an answer", || {
        let query = MessageBuilder::query(7, name("example.test.").as_ref(), Rtype::SOA).build();
        exchange(Transport::Udp, dns, &query, SILENCE)
    });
    assert_confined(process, Some(USER), NET_BIND_SERVICE);
    let status = http::get(api, "/v1/status").unwrap().json().unwrap();
    for part in ["capabilities", "no_new_privs", "landlock", "seccomp"] {
        assert_ne!(status["sandbox"][part], "no", "{status}: {}", systemd.log());
    }
    assert_eq!(status["sandbox"]["seccomp"], "fully", "{status}");
    // A zone, a key, an update and its answer.
    let zone = scratch.file("zone", "example.test. 60 IN SOA a. b. 1 2 3 4 5\nexample.test. 60 IN NS a.\n");
    done(&dir, &["zone", "add", &zone]);
    let key = key_of(&done(&dir, &["key", "add", "home", "--update", "--zone", "example.test"]));
    for (transport, owner) in [(Transport::Udp, "one.example.test."), (Transport::Tcp, "two.example.test.")] {
        let update = add(&key, owner);
        assert_eq!(rcode(&update, &outcome_of(transport, dns, &update)), 0);
        assert!(is_there(&socket(), dns, owner));
    }
    assert!(dir.join("node-1/data.audit").exists());
}

/// A probe that tells each client its address, which is not an address of the machine.
fn probe() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    // The thread ends with the process.
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.read(&mut [0; 1_024]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n192.0.2.77");
        }
    });
    address
}

#[test]
fn systemd_runs_the_client_which_keeps_its_name() {
    const NAME: &str = "home.example.test.";
    let scratch = Scratch::new("units-ddns");
    let cluster = Cluster::start("units-ddns", 1, &[]);
    let etc = Systemd::dir(&scratch, "etc").join("catamaran");
    std::fs::create_dir(&etc).unwrap();
    let text = format!(
        "zone = \"example.test\"\nservers = [\"{}\"]\nkey_file = \"/run/credentials/catamaran-ddns.service/key\"\n\
         [[name]]\nname = \"{NAME}\"\nipv4 = \"outside\"\nipv6 = \"off\"\n\
         [outside]\nprivate = true\n[[outside.probe]]\nhttp = \"http://{}/\"\n",
        cluster.dns(1),
        probe(),
    );
    std::fs::write(etc.join("ddns.toml"), text).unwrap();
    // Only its owner can read it. systemd passes it on.
    std::fs::copy(cluster.update_key(), etc.join("home.key")).unwrap();
    std::fs::set_permissions(etc.join("home.key"), PermissionsExt::from_mode(0o600)).unwrap();
    let name = "catamaran-ddns.service";
    let Some(systemd) = Systemd::start(&scratch, name, &unit(name)) else { return };
    let socket = socket();
    wait_for("the name", || is_there(&socket, cluster.dns(1), NAME).then_some(()));
    assert_confined(systemd.service().unwrap(), None, 0);
    // The state file is where systemd allows writing.
    assert!(scratch.path().join("lib/private/catamaran-ddns/state.json").exists());
    // A thread of its own writes the log, and may be late.
    wait_for("the line about the sandbox", || systemd.log().contains("entered the sandbox").then_some(()));
    let log = systemd.log();
    assert!(!log.contains("cannot enable"), "{log}");
}
