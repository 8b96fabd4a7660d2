//! Which node gets a request after a failure.

use super::*;
use process::problem::{NO_LEADER, OUTCOME_UNKNOWN, OUTCOME_UNKNOWN_WIRE};
use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

#[test]
fn names_are_escaped_in_queries() {
    assert_eq!(query("zone", "a\\.b c.test."), "zone=a%5C.b%20c.test.");
}

#[test]
fn a_missing_cluster_is_an_error_with_a_hint() {
    let dir = process::testing::test_dir("client");
    let target = Target { dir: dir.path().to_owned(), api: None, token_file: None, timeout: None };
    let problem = Client::find(&target).err().unwrap();
    assert_eq!(problem.exit, Exit::Unreachable);
    assert!(problem.to_string().contains("cluster.json") && problem.to_string().contains("--dir"));
    let client = Client::new(vec![closed_port()], NodeConnector::default(), None);
    assert_eq!(client.get("/v1/status").err().unwrap().exit, Exit::Unreachable);
}

/// A closed port.
fn closed_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// The response of a fake node to all requests but those for its status.
#[derive(Clone, Copy)]
pub(crate) enum FakeResponse {
    /// Closes the connection after the whole request.
    Nothing,
    /// Reads the whole request and never answers.
    Stalls,
    /// A status, and an error text.
    Status(u16, &'static str),
}

/// A node that sends the same response to all requests, and records them.
pub(crate) struct FakeNode {
    pub(crate) api: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl FakeNode {
    pub(crate) fn start(response: FakeResponse) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (api, requests) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = Arc::clone(&seen);
                std::thread::spawn(move || serve(&stream, response, &seen));
            }
        });
        Self { api, requests }
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Serves requests until the connection is closed.
fn serve(stream: &TcpStream, response: FakeResponse, seen: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut first, mut length) = (String::new(), 0);
        if reader.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        if reader.read_exact(&mut vec![0; length]).is_err() {
            return;
        }
        let (status, body) = if first.starts_with("GET /v1/status") {
            (200, serde_json::to_string(&StatusJson::of_a_leader()).unwrap())
        } else {
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(first.replace(" HTTP/1.1\r\n", ""));
            match response {
                FakeResponse::Nothing => return,
                FakeResponse::Stalls => loop {
                    std::thread::park();
                },
                FakeResponse::Status(status, why) => (status, format!("{{\"error\":\"{why}\",\"hint\":\"\"}}")),
            }
        };
        let head = format!("HTTP/1.1 {status} Reason\r\ncontent-length: {}\r\n\r\n", body.len());
        if (&*stream).write_all((head + &body).as_bytes()).is_err() {
            return;
        }
    }
}

/// Two nodes: the first one sends this response, the second one succeeds.
fn two(response: FakeResponse) -> ([FakeNode; 2], Client) {
    let nodes = [FakeNode::start(response), FakeNode::start(FakeResponse::Status(200, ""))];
    let client = Client::new(nodes.iter().map(|node| node.api).collect(), NodeConnector::default(), None);
    (nodes, client)
}

#[test]
fn a_change_with_an_unknown_outcome_is_not_sent_to_another_node() {
    for (method, path, look) in [
        ("DELETE", "/v1/keys?name=a.", "key list"),
        ("POST", "/v1/zone?zone=a.", "zone list"),
        ("PUT", "/v1/policy", "policy show"),
        ("PATCH", "/v1/zone?zone=a.", "zone list"),
        ("POST", "/v1/tokens", "cluster status"),
    ] {
        let ([first, second], client) = two(FakeResponse::Nothing);
        let problem = client.change(method, path, b"body").err().unwrap();
        assert_eq!(first.requests(), [format!("{method} {path}")]);
        assert!(second.requests().is_empty(), "it may have been done");
        assert_eq!(problem.exit, Exit::Unknown);
        let message = problem.to_string();
        assert!(message.contains("the outcome is unknown") && message.contains(look), "{message}");
        assert!(message.contains(&first.api.to_string()), "{message}");
    }
}

#[test]
fn a_failed_read_goes_to_the_next_node() {
    let ([first, second], client) = two(FakeResponse::Nothing);
    assert!(client.get("/v1/keys").is_ok());
    assert_eq!(
        (first.requests(), second.requests()),
        (vec!["GET /v1/keys".to_owned()], vec!["GET /v1/keys".to_owned()])
    );
}

#[test]
fn a_change_that_was_not_made_goes_to_the_next_node() {
    let ([first, second], client) = two(FakeResponse::Status(503, NO_LEADER));
    assert!(client.change("DELETE", "/v1/keys?name=a.", &[]).is_ok());
    assert_eq!((first.requests().len(), second.requests().len()), (1, 1));
    let client = Client::new(vec![closed_port(), second.api], NodeConnector::default(), None);
    assert!(client.change("DELETE", "/v1/keys?name=a.", &[]).is_ok());
    assert_eq!(second.requests().len(), 2);
}

#[test]
fn an_unknown_outcome_is_not_reported_as_a_failure() {
    // The last text is that of older nodes.
    for response in [
        FakeResponse::Nothing,
        FakeResponse::Status(504, OUTCOME_UNKNOWN_WIRE),
        FakeResponse::Status(504, "nobody knows whether it was done"),
    ] {
        let ([_, second], client) = two(response);
        let problem = client.change("DELETE", "/v1/keys?name=a.", &[]).err().unwrap().of("the key was not removed");
        assert_eq!((problem.what.as_str(), problem.exit), (OUTCOME_UNKNOWN, Exit::Unknown));
        assert!(problem.hint.as_ref().unwrap().contains("key list"), "{problem}");
        assert!(second.requests().is_empty());
    }
    let (_, client) = two(FakeResponse::Status(504, "the leadership was not transferred"));
    let problem = client.change("POST", "/v1/leader", &[]).err().unwrap().of("cannot transfer the leadership");
    assert_eq!(problem.what, "cannot transfer the leadership");
}

#[test]
fn a_hanging_node_delays_a_change_by_the_timeout_at_most() {
    let ([_, second], mut client) = two(FakeResponse::Stalls);
    client.timeout = Some(Duration::from_millis(500));
    let start = Instant::now();
    let problem = client.change("PATCH", "/v1/zone?zone=a.", &[]).err().unwrap().of("the options were not changed");
    assert_eq!((problem.what.as_str(), problem.exit), (OUTCOME_UNKNOWN, Exit::Unknown), "{problem}");
    assert!(problem.why.contains("no answer in time"), "{problem}");
    assert!(second.requests().is_empty(), "the first node has it");
    // Every later call fails too: the time limit is used up.
    let problem = client.change("PATCH", "/v1/zone?zone=a.", &[]).err().unwrap();
    assert_eq!(problem.exit, Exit::Unreachable, "{problem}");
    assert!(start.elapsed() < Duration::from_secs(20));
    assert!(second.requests().is_empty());
}

#[test]
fn the_timeout_of_a_read_covers_all_nodes() {
    let (_, mut client) = two(FakeResponse::Stalls);
    let third = FakeNode::start(FakeResponse::Stalls);
    client.nodes = vec![client.nodes[0], third.api];
    client.timeout = Some(Duration::from_millis(500));
    let start = Instant::now();
    assert_eq!(client.get("/v1/keys").err().unwrap().exit, Exit::Unreachable);
    assert!(start.elapsed() < Duration::from_millis(2 * READ_MS));
}

#[test]
fn a_download_waits_longer_for_the_only_node() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = Client::new(vec![listener.local_addr().unwrap()], NodeConnector::default(), None);
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let mut reader = BufReader::new(&stream);
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
                line.clear();
            }
            // The answer to the first request, which is for the status, is later than with other nodes left.
            if number == 0 {
                std::thread::sleep(Duration::from_millis(STATUS_MS + 500));
            }
            let status = serde_json::to_string(&StatusJson::of_a_leader()).unwrap();
            let body = if number == 0 { status } else { "backup".to_owned() };
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = (&stream).write_all(format!("{head}{body}").as_bytes());
        }
    });
    let mut copy = Vec::new();
    client.download("/v1/backup", &mut copy).unwrap();
    assert_eq!(copy, b"backup");
}
