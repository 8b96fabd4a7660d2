//! What strangers and other users of the machine can do to a node's API: hold connections, send slowly, use another
//! host name, take its port, and fill its log.

use super::support::cluster::{CATAMARAN, Cluster, KillOnDrop, wait_for};
use super::support::http;
use super::support::nodes::Nodes;
use super::support::open_files::{forbid_more_files, limit_open_files};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// An administrator gets an answer within this time. A node closes an idle connection after 5 s, which is later.
const SOON: Duration = Duration::from_secs(4);

fn connect(api: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&api, SOON).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// The time until the node closes a connection.
fn ended_after(mut stream: TcpStream) -> Duration {
    let start = Instant::now();
    let mut rest = Vec::new();
    // A reset counts as a close.
    let _ = stream.read_to_end(&mut rest);
    start.elapsed()
}

#[test]
fn idle_connections_do_not_keep_others_out() {
    let cluster = Cluster::start("api-idle", 1, &[]);
    let api = cluster.api(1);
    for round in 0..3 {
        let idle: Vec<TcpStream> = (0..300).map(|_| connect(api)).collect();
        let start = Instant::now();
        assert_eq!(http::get(api, "/healthz").unwrap().status, 200);
        assert!(start.elapsed() < SOON, "round {round}: /healthz took {:?}", start.elapsed());
        let start = Instant::now();
        let status = cluster.run(&["status"]);
        assert!(status.status.success(), "{status:?}");
        assert!(start.elapsed() < SOON, "round {round}: status took {:?}", start.elapsed());
        let key = cluster.run(&["key", "add", &format!("k{round}"), "--update"]);
        assert!(key.status.success(), "{key:?}");
        drop(idle);
    }
}

#[test]
fn waiting_requests_do_not_keep_others_out() {
    let cluster = Cluster::start("api-wait", 1, &[]);
    let api = cluster.api(1);
    let wait = || {
        let mut stream = connect(api);
        let path = "/v1/zones/example.test.?at=999999&wait_ms=20000";
        let _ = write!(stream, "GET {path} HTTP/1.1\r\nhost: {api}\r\n\r\n");
        stream
    };
    let waiting: Vec<TcpStream> = (0..200).map(|_| wait()).collect();
    std::thread::sleep(Duration::from_millis(300));
    let start = Instant::now();
    assert_eq!(http::get(api, "/healthz").unwrap().status, 200);
    assert!(start.elapsed() < SOON, "/healthz took {:?}", start.elapsed());
    drop(waiting);
}

#[test]
fn the_local_socket_needs_no_token_and_has_connections_of_its_own() {
    let cluster = Cluster::start("api-socket", 1, &[]);
    let path = cluster.dir.join("node-1/data.sock");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let ask = || {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"GET /v1/keys HTTP/1.1\r\nhost: any\r\nconnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 ") && text.contains("update.catamaran."), "{text}");
    };
    ask();
    // More connections than the socket allows. The connection with the longest idle time is closed.
    let idle: Vec<UnixStream> = (0..100).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let start = Instant::now();
    ask();
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    drop(idle);
    let idle: Vec<TcpStream> = (0..300).map(|_| connect(cluster.api(1))).collect();
    let start = Instant::now();
    ask();
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    drop(idle);
}

#[test]
fn a_client_that_sends_a_request_slowly_is_disconnected() {
    let cluster = Cluster::start("api-slow", 1, &[]);
    let api = cluster.api(1);
    let silent = connect(api);
    let mut slow = connect(api);
    let mut kept = connect(api);
    write!(kept, "GET /healthz HTTP/1.1\r\nhost: {api}\r\n\r\n").unwrap();
    let dawdler = std::thread::spawn(move || {
        let start = Instant::now();
        // A header field without an end, at four bytes a second.
        let _ = slow.write_all(b"GET /healthz HTTP/1.1\r\nx: ");
        while slow.write_all(b"y").is_ok() && start.elapsed() < Duration::from_secs(15) {
            std::thread::sleep(Duration::from_millis(250));
        }
        start.elapsed()
    });
    let waits = [silent, kept].map(|stream| std::thread::spawn(move || ended_after(stream)));
    // The limit is 5 s. Without it, the client sends for 15 s, or waits for 20 s.
    let bounds = Duration::from_secs(4)..Duration::from_secs(15);
    for (what, took) in ["silent", "kept alive"].iter().zip(waits.map(|wait| wait.join().unwrap())) {
        assert!(bounds.contains(&took), "{what}: {took:?}");
    }
    let took = dawdler.join().unwrap();
    assert!(bounds.contains(&took), "the slow head: {took:?}");
}

/// Sends a request unchanged, and returns the status.
fn raw(api: SocketAddr, request: &str) -> u16 {
    let mut stream = connect(api);
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("{request}: {text}"))
}

#[test]
fn a_name_that_an_attacker_points_here_reads_nothing() {
    let mut cluster = Cluster::start("api-hosts", 1, &[]);
    cluster.end("TERM");
    cluster.configure(1, "[api]\n", "[api]\nhosts = [\"monitor.example\"]\n");
    cluster.resume(&[]);
    let (api, token) = (cluster.api(1), cluster.token());
    let ask = |fields: &str| raw(api, &format!("GET /v1/zones HTTP/1.1\r\n{fields}connection: close\r\n\r\n"));
    let port = api.port();
    for host in [format!("127.0.0.1:{port}"), format!("localhost:{port}"), "monitor.example".into()] {
        assert_eq!(ask(&format!("host: {host}\r\n")), 200, "{host}");
    }
    for host in [format!("rebound.example:{port}"), "192.0.2.1".into(), "localhost.rebound.example".into()] {
        assert_eq!(ask(&format!("host: {host}\r\n")), 421, "{host}");
        assert_eq!(ask(&format!("host: {host}\r\nauthorization: Bearer {token}\r\n")), 200, "{host}, with the token");
    }
    // RFC 9112 3.2.
    assert_eq!(ask(""), 400);
    assert_eq!(ask("host: localhost\r\nhost: localhost\r\n"), 400);
    assert_eq!(raw(api, "GET /healthz HTTP/1.0\r\n\r\n"), 200, "no host is needed before HTTP/1.1");
    let change = |fields: &str| {
        let head = format!("POST /v1/tokens HTTP/1.1\r\nhost: localhost:{port}\r\nconnection: close\r\n");
        raw(api, &format!("{head}authorization: Bearer {token}\r\ncontent-length: 0\r\n{fields}\r\n"))
    };
    assert_eq!(change("origin: http://rebound.example\r\n"), 403);
    assert_eq!(change("sec-fetch-site: cross-site\r\n"), 403);
    assert_eq!(change(&format!("origin: http://localhost:{port}\r\n")), 201);
}

/// A process of another user that listens on a port and records what it receives. `None` if this machine does not allow
/// it.
fn stranger(api: SocketAddr, file: &str) -> Option<KillOnDrop> {
    let script = "import socket, sys\n\
                  s = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n\
                  print('up', flush=True)\n\
                  while True:\n c = s.accept()[0]\n c.settimeout(2)\n sys.stderr.write('connected ')\n \
                  sys.stderr.write(repr(c.recv(4096)))\n sys.stderr.flush()\n c.close()\n";
    let mut child = Command::new("python3")
        .args(["-c", script, &api.port().to_string()])
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(file).unwrap())
        .uid(65_534)
        .spawn()
        .ok()?;
    let is_up = child.stdout.as_mut().unwrap().read_exact(&mut [0; 3]).is_ok();
    assert!(is_up, "{}", std::fs::read_to_string(file).unwrap());
    Some(KillOnDrop(child))
}

#[test]
fn a_program_on_the_port_of_a_stopped_node_gets_no_token() {
    let mut cluster = Cluster::start("api-port", 1, &[]);
    // Older software has no socket. The listener belongs to our user, so the command uses TCP.
    let socket = cluster.dir.join("node-1/data.sock");
    let _ = std::fs::rename(&socket, socket.with_extension("away"));
    let added = cluster.run(&["key", "add", "a", "--update"]);
    assert!(added.status.success(), "{added:?}");
    let _ = std::fs::rename(socket.with_extension("away"), &socket);
    assert!(cluster.run(&["key", "add", "b", "--update"]).status.success());
    cluster.end("TERM");
    let api = cluster.api(1);

    // The node is down. The command learns that from the socket, even if another process has the port.
    let listener = TcpListener::bind(api).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let theirs = seen.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten().take(10) {
            let mut text = [0; 4_096];
            let length = stream.read(&mut text).unwrap_or(0);
            theirs.lock().unwrap().push(String::from_utf8_lossy(&text[..length]).into_owned());
        }
    });
    for command in [&["status"][..], &["key", "list"], &["key", "add", "c", "--update"], &["cluster", "status"]] {
        let done = cluster.run(command);
        assert!(!done.status.success(), "{command:?}: {done:?}");
    }
    let api_text = api.to_string();
    assert!(!cluster.run(&["status", "--api", &api_text]).status.success());
    assert_eq!(seen.lock().unwrap().as_slice(), &[] as &[String], "another program got a request");
}

#[test]
fn a_process_of_another_user_gets_no_token_over_tcp_either() {
    let mut cluster = Cluster::start("api-user", 1, &[]);
    cluster.end("TERM");
    let api = cluster.api(1);
    let _ = std::fs::remove_file(cluster.dir.join("node-1/data.sock"));
    let heard = cluster.dir.join("heard");
    let Some(mut stranger) = stranger(api, heard.to_str().unwrap()) else {
        skip::permission("starting a process of another user (root, python3)");
        return;
    };
    let api_text = api.to_string();
    for command in
        [&["status"][..], &["key", "list"], &["key", "add", "c", "--update"], &["status", "--api", &api_text]]
    {
        let done = cluster.run(command);
        assert!(!done.status.success(), "{command:?}: {done:?}");
        assert_eq!(stranger.0.try_wait().unwrap(), None, "{}", std::fs::read_to_string(&heard).unwrap());
        let text = [done.stdout, done.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert!(text.contains("cannot send the token") && text.contains("user 65534"), "{command:?}: {text}");
    }
    assert_eq!(std::fs::read_to_string(&heard).unwrap(), "", "another program got a request");
    // With `--api` and `--token-file`, the command sends the token to this address.
    let token = cluster.dir.join("api.token");
    let arguments = ["key", "list", "--api", &api_text, "--token-file", token.to_str().unwrap()];
    let _ = Command::new(CATAMARAN).args(arguments).output().unwrap();
    let text = std::fs::read_to_string(&heard).unwrap();
    assert!(text.contains(&cluster.token()), "{text}");
}

#[test]
fn failures_to_accept_do_not_fill_the_log() {
    let mut cluster = Cluster::start("api-log", 1, &[]);
    let mut nodes = Nodes::default();
    cluster.end("TERM");
    nodes.start(&cluster, 1);
    cluster.settle();
    let pid = cluster.status(1).unwrap()["pid"].as_u64().unwrap() as u32;
    let begin = Instant::now();
    forbid_more_files(pid);
    let clients: Vec<TcpStream> =
        [cluster.api(1), cluster.dns(1)].iter().flat_map(|to| (0..20).map(|_| connect(*to))).collect();
    let lines = |part: &str| {
        let text = super::support::nodes::log_of(&cluster, 1);
        text.lines().filter(|line| line.contains(part)).count()
    };
    let part = "cannot accept a connection";
    wait_for("the first complaint", || (lines(part) > 0).then_some(()));
    std::thread::sleep(Duration::from_secs(4));
    let (written, elapsed) = (lines(part), begin.elapsed());
    // Two places in the code log at most five lines a second each. Each listener tries twenty times a second.
    let max = 2 * 5 * (elapsed.as_secs() as usize + 3);
    assert!((1..=max).contains(&written), "{written} lines in {elapsed:?}");
    wait_for("the number of lines that were left out", || {
        assert_eq!(nodes.has_ended(1), None, "{}", super::support::nodes::log_of(&cluster, 1));
        (lines("suppressed=") > 0).then_some(())
    });
    drop(clients);
    limit_open_files(pid, 4_096);
    wait_for("an answer", || http::get(cluster.api(1), "/healthz").ok().filter(|answer| answer.status == 200));
    nodes.stop(1);
}
