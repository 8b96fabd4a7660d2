//! Which node is asked next, and when none is.

use super::*;
use crate::problem::OUTCOME_UNKNOWN;
use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

#[test]
fn names_are_escaped_in_queries() {
    assert_eq!(query("zone", "a\\.b c.test."), "zone=a%5C.b%20c.test.");
}

#[test]
fn a_cluster_that_is_not_there_is_named_with_a_hint() {
    let dir = crate::test_dir("client");
    let target = Target { dir: dir.path().to_owned(), api: None, token_file: None, timeout: None };
    let problem = Client::find(&target).err().unwrap();
    assert_eq!(problem.exit, Exit::Unreachable);
    assert!(problem.to_string().contains("cluster.json") && problem.to_string().contains("--dir"));
    let client = Client::new(vec![nobody()], Ways::default(), None);
    assert_eq!(client.get("/v1/status").err().unwrap().exit, Exit::Unreachable);
}

/// A port that was free a moment ago: nobody answers.
fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// What a node says to anything but the question how it is.
#[derive(Clone, Copy)]
pub(in crate::cli) enum Says {
    /// It ends the connection when it has the whole request.
    Nothing,
    /// Reads the whole request and never answers.
    Stalls,
    /// A status, and why.
    Status(u16, &'static str),
}

/// A node that answers requests so; what it was asked, beside how it is.
pub(in crate::cli) struct FakeNode {
    pub(in crate::cli) api: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl FakeNode {
    pub(in crate::cli) fn start(says: Says) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (api, asked) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = Arc::clone(&seen);
                std::thread::spawn(move || serve(&stream, says, &seen));
            }
        });
        Self { api, asked }
    }

    pub(in crate::cli) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reads requests until it is to end the connection.
fn serve(stream: &TcpStream, says: Says, seen: &Mutex<Vec<String>>) {
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
            match says {
                Says::Nothing => return,
                Says::Stalls => loop {
                    std::thread::park();
                },
                Says::Status(status, why) => (status, format!("{{\"error\":\"{why}\",\"hint\":\"\"}}")),
            }
        };
        let head = format!("HTTP/1.1 {status} Said\r\ncontent-length: {}\r\n\r\n", body.len());
        if (&*stream).write_all((head + &body).as_bytes()).is_err() {
            return;
        }
    }
}

/// The first node says this, the second one does as asked.
fn two(says: Says) -> ([FakeNode; 2], Client) {
    let nodes = [FakeNode::start(says), FakeNode::start(Says::Status(200, ""))];
    let client = Client::new(nodes.iter().map(|node| node.api).collect(), Ways::default(), None);
    (nodes, client)
}

#[test]
fn a_change_that_a_node_has_and_says_nothing_of_is_given_to_no_other() {
    for (method, path, look) in [
        ("DELETE", "/v1/keys?name=a.", "key list"),
        ("POST", "/v1/zone?zone=a.", "zone list"),
        ("PUT", "/v1/policy", "policy show"),
        ("PATCH", "/v1/zone?zone=a.", "zone list"),
        ("POST", "/v1/tokens", "cluster status"),
    ] {
        let ([first, second], client) = two(Says::Nothing);
        let problem = client.change(method, path, b"body").err().unwrap();
        assert_eq!(first.asked(), [format!("{method} {path}")]);
        assert!(second.asked().is_empty(), "it may have been done");
        assert_eq!(problem.exit, Exit::Unknown);
        let said = problem.to_string();
        assert!(said.contains("the outcome is unknown") && said.contains(look), "{said}");
        assert!(said.contains(&first.api.to_string()), "{said}");
    }
}

#[test]
fn a_question_goes_to_the_next_node() {
    let ([first, second], client) = two(Says::Nothing);
    assert!(client.get("/v1/keys").is_ok());
    assert_eq!((first.asked(), second.asked()), (vec!["GET /v1/keys".to_owned()], vec!["GET /v1/keys".to_owned()]));
}

#[test]
fn a_change_that_no_node_has_yet_goes_to_the_next_node() {
    let ([first, second], client) = two(Says::Status(503, "no leader took it; nothing was done"));
    assert!(client.change("DELETE", "/v1/keys?name=a.", &[]).is_ok());
    assert_eq!((first.asked().len(), second.asked().len()), (1, 1));
    let client = Client::new(vec![nobody(), second.api], Ways::default(), None);
    assert!(client.change("DELETE", "/v1/keys?name=a.", &[]).is_ok());
    assert_eq!(second.asked().len(), 2);
}

#[test]
fn what_nobody_knows_is_not_told_as_not_done() {
    for says in [Says::Nothing, Says::Status(504, NOBODY_KNOWS)] {
        let ([_, second], client) = two(says);
        let problem = client.change("DELETE", "/v1/keys?name=a.", &[]).err().unwrap().of("the key was not removed");
        assert_eq!((problem.what.as_str(), problem.exit), (OUTCOME_UNKNOWN, Exit::Unknown));
        assert!(problem.hint.as_ref().unwrap().contains("key list"), "{problem}");
        assert!(second.asked().is_empty());
    }
    let (_, client) = two(Says::Status(504, "the leadership was not transferred"));
    let problem = client.change("POST", "/v1/leader", &[]).err().unwrap().of("cannot transfer the leadership");
    assert_eq!(problem.what, "cannot transfer the leadership");
}

#[test]
fn a_node_that_stands_still_is_waited_for_no_longer_than_the_timeout() {
    let ([_, second], mut client) = two(Says::Stalls);
    client.timeout = Some(Duration::from_millis(500));
    let start = Instant::now();
    let problem = client.change("PATCH", "/v1/zone?zone=a.", &[]).err().unwrap().of("the options were not changed");
    assert_eq!((problem.what.as_str(), problem.exit), (OUTCOME_UNKNOWN, Exit::Unknown), "{problem}");
    assert!(problem.why.contains("no answer in time"), "{problem}");
    assert!(second.asked().is_empty(), "the first node has it");
    // Every later call fails too: the time limit is used up.
    let problem = client.change("PATCH", "/v1/zone?zone=a.", &[]).err().unwrap();
    assert_eq!(problem.exit, Exit::Unreachable, "{problem}");
    assert!(start.elapsed() < Duration::from_secs(20));
    assert!(second.asked().is_empty());
}

#[test]
fn a_question_is_bounded_over_all_nodes() {
    let (_, mut client) = two(Says::Stalls);
    let third = FakeNode::start(Says::Stalls);
    client.nodes = vec![client.nodes[0], third.api];
    client.timeout = Some(Duration::from_millis(500));
    let start = Instant::now();
    assert_eq!(client.get("/v1/keys").err().unwrap().exit, Exit::Unreachable);
    assert!(start.elapsed() < Duration::from_millis(2 * READ_MS));
}
