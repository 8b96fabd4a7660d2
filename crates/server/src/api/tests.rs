//! Authorization of requests. The handlers are tested with real processes (`tests/it/commands.rs`).

use super::backups::Backups;
use super::host_names::Hosts;
use super::join_offer::JoinOffer;
use super::metrics::NodeMetrics;
use super::*;
use crate::limits::AT_WAITING_MAX;
use crate::published::readers::Readers;
use crate::replica_host::event::Event;
use crate::replica_host::handle::ReplicaHandle;
use crate::replica_host::shared::Shared;
use crate::update_queue::UpdateQueue;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use config::files::api_token::ApiToken;
use config::files::data_key::{DataKeyFile, DataKeys};
use replica::io::{AdminCommand, AdminError, AdminReply, ReadIndexError, TrustCommand};
use replica::{Ca, Trust};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;
use tower::ServiceExt;
use zone::set::{StoreConfig, ZoneSet, ZoneSetConfig};

/// An API without a replica: an authorized request gets 503, unless it needs no replica.
fn api(dir: &std::path::Path) -> Arc<Api> {
    api_before(dir, channel().0, Arc::default())
}

/// An API that sends these events to its replica.
fn api_before(dir: &std::path::Path, events: Sender<Event>, shared: Arc<Shared>) -> Arc<Api> {
    let store = StoreConfig { huge_pages: false, ..StoreConfig::default() };
    let zones = ZoneSet::new(ZoneSetConfig { store }).unwrap();
    let metrics = NodeMetrics {
        connections: Default::default(),
        drops: Default::default(),
        certificate: Default::default(),
        transports: Vec::new(),
        listen: Vec::new(),
        peer: Arc::default(),
        replica: Arc::default(),
        log_fsync: Arc::default(),
        bulk_sync: Arc::default(),
        audit: Arc::default(),
        external: Arc::default(),
        scrub: Arc::default(),
        update_queue: UpdateQueue::new(1).0,
        transfers: Arc::default(),
    };
    Arc::new(Api {
        node: 1,
        started_at: Instant::now(),
        has_dns: true,
        token: api_token(dir),
        uid: 4_711,
        hosts: Hosts::new("192.0.2.1".parse().unwrap(), &["node.example".to_owned()]),
        handle: ReplicaHandle::new(events, shared),
        serving: Arc::default(),
        limits: Arc::default(),
        metrics,
        zones: Mutex::new(Arc::<Readers>::default().add(zones.reader())),
        backups: Backups::new(dir),
        serial_wait_permits: tokio::sync::Semaphore::new(AT_WAITING_MAX),
        audit: dir.join("data.audit"),
        data_key_file: DataKeyFile::new(&dir.join("data.key"), None),
        join: JoinOffer { member: 1, address: "127.0.0.1:5380".parse().ok(), ca_file: dir.join("ca.pem"), tls: None },
        peer_check: None,
    })
}

fn ask(api: &Arc<Api>, from: &str, method: &str, path: &str, authorization: Option<&str>) -> StatusCode {
    answer(api, from, method, path, authorization).0
}

/// The status and body of the response.
fn answer(api: &Arc<Api>, from: &str, method: &str, path: &str, authorization: Option<&str>) -> (StatusCode, String) {
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    if let Some(authorization) = authorization {
        request = request.header("authorization", authorization);
    }
    let mut request = request.body(Body::empty()).unwrap();
    let from: std::net::SocketAddr = from.parse().unwrap();
    request.extensions_mut().insert(guard::Peer::Tcp { remote: from.ip(), local: None });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let response = router(api.clone()).oneshot(request).await.unwrap();
        let (status, body) = (response.status(), response.into_body());
        (status, String::from_utf8(axum::body::to_bytes(body, usize::MAX).await.unwrap().to_vec()).unwrap())
    })
}

#[test]
fn local_requests_need_no_token_and_remote_requests_do() {
    let dir = process::testing::test_dir("api");
    let api = api(dir.path());
    let token = format!("Bearer {}", api.token.reveal());
    for path in ["/healthz", "/metrics", "/v1/status", "/v1/zones"] {
        for local in ["127.0.0.1:5", "127.9.9.9:5", "[::1]:5", "[::ffff:127.0.0.1]:5"] {
            assert_eq!(ask(&api, local, "GET", path, None), StatusCode::SERVICE_UNAVAILABLE, "{path} from {local}");
        }
        for remote in ["192.0.2.1:5", "[2001:db8::1]:5", "[::ffff:192.0.2.1]:5"] {
            assert_eq!(ask(&api, remote, "GET", path, None), StatusCode::UNAUTHORIZED, "{path} from {remote}");
            assert_eq!(ask(&api, remote, "GET", path, Some("Bearer x")), StatusCode::UNAUTHORIZED);
            assert_eq!(ask(&api, remote, "GET", path, Some(&token)), StatusCode::SERVICE_UNAVAILABLE);
        }
    }
}

/// The status of the response to a request of `peer` with these header fields.
fn send_with(api: &Arc<Api>, peer: guard::Peer, method: &str, path: &str, fields: &[(&str, &str)]) -> StatusCode {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let mut request = request.body(Body::empty()).unwrap();
    request.extensions_mut().insert(peer);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { router(api.clone()).oneshot(request).await.unwrap().status() })
}

#[test]
fn the_host_field_must_name_the_node_once() {
    let dir = process::testing::test_dir("api-hosts");
    let api = api(dir.path());
    let token = format!("Bearer {}", api.token.reveal());
    let peer = guard::Peer::Tcp { remote: "127.0.0.1".parse().unwrap(), local: "192.0.2.9".parse().ok() };
    let ask = |fields: &[(&str, &str)]| send_with(&api, peer, "GET", "/v1/zones", fields);
    for host in
        ["localhost", "localhost:8053", "127.0.0.1:8053", "[::1]:8053", "192.0.2.1", "192.0.2.9:1", "NODE.example."]
    {
        assert_eq!(ask(&[("host", host)]), StatusCode::SERVICE_UNAVAILABLE, "{host}");
    }
    for host in ["evil.example", "evil.example:8053", "localhost.evil.example", "192.0.2.7"] {
        assert_eq!(ask(&[("host", host)]), StatusCode::MISDIRECTED_REQUEST, "{host}");
        assert_eq!(ask(&[("host", host), ("authorization", "Bearer x")]), StatusCode::MISDIRECTED_REQUEST, "{host}");
        assert_eq!(ask(&[("host", host), ("authorization", &token)]), StatusCode::SERVICE_UNAVAILABLE, "{host}");
    }
    for fields in [&[][..], &[("host", "localhost"), ("host", "localhost")], &[("host", "a b")], &[("host", "")]] {
        assert_eq!(ask(fields), StatusCode::BAD_REQUEST, "{fields:?}");
    }
    // The host of an absolute target counts.
    let status = send_with(&api, peer, "GET", "http://evil.example/v1/zones", &[("host", "localhost")]);
    assert_eq!(status, StatusCode::MISDIRECTED_REQUEST);
    assert_eq!(send_with(&api, peer, "GET", "/nowhere", &[("host", "evil.example")]), StatusCode::MISDIRECTED_REQUEST);
}

#[test]
fn cross_site_changes_are_refused() {
    let dir = process::testing::test_dir("api-origin");
    let api = api(dir.path());
    let token = format!("Bearer {}", api.token.reveal());
    let peer = guard::Peer::Tcp { remote: "127.0.0.1".parse().unwrap(), local: None };
    for (name, value, is_refused) in [
        ("origin", "http://evil.example", true),
        ("origin", "null", true),
        ("origin", "http://localhost:9999", true),
        ("origin", "http://localhost:8053", false),
        ("sec-fetch-site", "cross-site", true),
        ("sec-fetch-site", "same-site", true),
        ("sec-fetch-site", "same-origin", false),
        ("sec-fetch-site", "none", false),
    ] {
        let fields = [("host", "localhost:8053"), ("authorization", token.as_str()), (name, value)];
        let status = send_with(&api, peer, "DELETE", "/v1/keys?name=a", &fields);
        let wanted = if is_refused { StatusCode::FORBIDDEN } else { StatusCode::SERVICE_UNAVAILABLE };
        assert_eq!(status, wanted, "{name}: {value}");
        assert_eq!(send_with(&api, peer, "GET", "/v1/keys", &fields), StatusCode::OK, "reads only need the token");
    }
}

#[test]
fn the_nodes_user_needs_no_token_over_the_socket() {
    let dir = process::testing::test_dir("api-socket");
    let api = api(dir.path());
    for (uid, passes) in [(Some(0), true), (Some(api.uid), true), (Some(4_712), false), (None, false)] {
        let ask = |path| send_with(&api, guard::Peer::Socket { uid }, "GET", path, &[("host", "any.example")]);
        assert_eq!(ask("/v1/keys"), if passes { StatusCode::OK } else { StatusCode::UNAUTHORIZED }, "{uid:?}");
        assert_eq!(ask("/v1/status"), StatusCode::SERVICE_UNAVAILABLE, "{uid:?}");
    }
}

#[test]
fn changes_and_secrets_need_the_token_everywhere() {
    let dir = process::testing::test_dir("api-token");
    let api = api(dir.path());
    let token = format!("Bearer {}", api.token.reveal());
    let zone = "/v1/zone?zone=example.test.";
    for (method, path, passed) in [
        ("GET", zone, StatusCode::SERVICE_UNAVAILABLE),
        ("DELETE", zone, StatusCode::SERVICE_UNAVAILABLE),
        ("PATCH", zone, StatusCode::SERVICE_UNAVAILABLE),
        ("POST", zone, StatusCode::UNPROCESSABLE_ENTITY),
        ("PUT", zone, StatusCode::BAD_REQUEST),
        ("GET", "/v1/keys", StatusCode::OK),
        ("POST", "/v1/keys", StatusCode::BAD_REQUEST),
        ("DELETE", "/v1/keys?name=a", StatusCode::SERVICE_UNAVAILABLE),
        ("POST", "/v1/grants?name=a&right=update", StatusCode::SERVICE_UNAVAILABLE),
        ("DELETE", "/v1/grants?name=a&right=transfer&zone=b.", StatusCode::SERVICE_UNAVAILABLE),
        ("DELETE", "/v1/grants?name=a&right=everything", StatusCode::BAD_REQUEST),
        ("DELETE", "/v1/nodes?node=1", StatusCode::SERVICE_UNAVAILABLE),
        ("DELETE", "/v1/nodes", StatusCode::BAD_REQUEST),
        ("POST", "/v1/feature-level", StatusCode::SERVICE_UNAVAILABLE),
        ("POST", "/v1/tokens", StatusCode::CONFLICT),
    ] {
        assert_eq!(ask(&api, "127.0.0.1:5", method, path, None), StatusCode::UNAUTHORIZED, "{method} {path}");
        assert_eq!(ask(&api, "127.0.0.1:5", method, path, Some(&token)), passed, "{method} {path}");
    }
    assert_eq!(ask(&api, "127.0.0.1:5", "GET", "/v1/zones/none.test.?at=1", None), StatusCode::NOT_FOUND);
    assert_eq!(ask(&api, "127.0.0.1:5", "GET", "/v1/zones/a..b", None), StatusCode::BAD_REQUEST);
    assert_eq!(ask(&api, "127.0.0.1:5", "GET", "/v1/zones/none.test.?at=x", None), StatusCode::BAD_REQUEST);
    assert_eq!(ask(&api, "192.0.2.1:5", "GET", "/v1/zones/none.test.", None), StatusCode::UNAUTHORIZED);
    assert_eq!(ask(&api, "127.0.0.1:5", "GET", "/", None), StatusCode::NOT_FOUND);
    assert_eq!(ask(&api, "127.0.0.1:5", "PUT", "/healthz", None), StatusCode::METHOD_NOT_ALLOWED);
}

/// The trust state after this many rotations.
fn rotated(times: u32) -> Arc<Trust> {
    let cas = vec![Ca { number: 1, certificate: Vec::new(), key: None }];
    Arc::new(Trust { cas, renewal: times, data_key: 1 + times, ..Trust::default() })
}

/// The replica of a node that has not applied the last rotation. A consistent read applies it, if there is a leader.
/// Returns the numbers in the commands that it gets.
fn lagging(shared: &Shared, events: &Receiver<Event>, has_leader: bool) -> Vec<u32> {
    let mut numbers = Vec::new();
    for event in events {
        match event {
            Event::ReadIndex(done) if has_leader => {
                shared.trust.send_replace(rotated(2));
                done.send(Ok(9)).unwrap();
            }
            Event::ReadIndex(done) => done.send(Err(ReadIndexError::TimedOut)).unwrap(),
            // A concurrent request made the same change a moment earlier.
            Event::Admin(AdminCommand::Trust(TrustCommand::Renew { number }), done) => {
                numbers.push(number);
                done.send(Ok(AdminReply::Unchanged)).unwrap();
            }
            Event::Admin(AdminCommand::Trust(TrustCommand::BeginDataKey { number, .. }), done) => {
                numbers.push(number);
                done.send(Err(AdminError::RotationBusy)).unwrap();
            }
            _ => panic!("unexpected event"),
        }
    }
    numbers
}

/// The number of a rotation must be new: otherwise the response would refer to an earlier rotation.
#[test]
fn a_rotation_gets_the_next_number_on_a_lagging_node() {
    let dir = process::testing::test_dir("api-rotation");
    for (path, number) in [("/v1/certificates", 3), ("/v1/data-key", 4)] {
        for has_leader in [true, false] {
            let (sender, events) = channel();
            let shared = Arc::<Shared>::default();
            let api = api_before(dir.path(), sender, shared.clone());
            api.data_key_file.save(&DataKeys::first([7; 32])).unwrap();
            shared.trust.send_replace(rotated(1));
            let replica = std::thread::spawn(move || lagging(&shared, &events, has_leader));
            let token = format!("Bearer {}", api.token.reveal());
            let (status, body) = answer(&api, "127.0.0.1:5", "POST", path, Some(&token));
            drop(api);
            let requests = replica.join().unwrap();
            if has_leader {
                assert_eq!((status, requests), (StatusCode::OK, vec![number]), "{path}: {body}");
                assert_eq!(body, format!("{{\"number\":{number}}}"));
            } else {
                assert_eq!((status, requests), (StatusCode::SERVICE_UNAVAILABLE, Vec::new()), "{path}: {body}");
                assert!(body.contains("nothing was done"), "{path}: {body}");
            }
        }
    }
}

fn api_token(dir: &std::path::Path) -> ApiToken {
    let file = dir.join("api.token");
    config::files::token::Token::load_or_make(&file).unwrap();
    ApiToken::load(&file).unwrap()
}
