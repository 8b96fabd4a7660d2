//! The API client of the commands.

// Connections to nodes, and the check of the process at the other end.
pub mod connect;
mod listeners;

use crate::limits::{CLI_CHANGE_MS, CLI_DOWNLOAD_MS, CLI_LOAD_MS, CLI_READ_MS};
use crate::target::Target;
use config::Config;
use config::api_types::{ErrorJson, POLICY_REVISION, RECORDS_TYPE, StatusJson, ZONE_HASH};
use config::files::cluster_json::ClusterJson;
use config::files::layout::{Layout, NodeLayout, socket_of};
use config::files::token::Token;
use config::limits::API_HEAD_MS;
use connect::NodeConnector;
use process::problem::{Exit, Problem, is_outcome_unknown};
use serde::de::DeserializeOwned;
use std::cell::Cell;
use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use ureq::http::{HeaderMap, Request, StatusCode};
use ureq::unversioned::resolver::DefaultResolver;
use zeroize::Zeroizing;
use zone::RecordList;

/// Hint for a missing or wrong token.
const TOKENS: &str = "give the directory of the cluster with --dir, or the file with the token with --token-file";
/// Longest wait for a connection.
const CONNECT_MS: u64 = 1_000;
/// Longest wait for the head of the response to a read.
const READ_MS: u64 = 5_000;
/// Longest wait for a node's status, if another node can be asked instead.
const STATUS_MS: u64 = 1_000;

/// Kind of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    Read,
    Change,
    /// A change that carries a zone.
    Load,
    Download,
}

impl RequestKind {
    /// Default time limit, over all nodes that are tried.
    const fn limit(self) -> Duration {
        Duration::from_millis(match self {
            Self::Read => CLI_READ_MS,
            Self::Change => CLI_CHANGE_MS,
            Self::Load => CLI_LOAD_MS,
            Self::Download => CLI_DOWNLOAD_MS,
        })
    }
}

/// The API addresses and sockets of the nodes in a directory: from the `cluster.json` of `up`, else from the
/// configurations that `init` or `join` wrote.
fn nodes_of(layout: &Layout) -> Result<Vec<(SocketAddr, PathBuf)>, Problem> {
    let error = match ClusterJson::load(&layout.cluster_json()) {
        Ok(cluster) => return Ok(cluster.nodes.iter().map(|node| (node.api, socket(&layout.node(node.id)))).collect()),
        Err(error) => error,
    };
    let configs = layout.configs();
    if configs.is_empty() {
        return Err(Problem::new(Exit::Unreachable, "cannot find the nodes of the cluster", error)
            .at(layout.cluster_json().display())
            .hint("give the cluster's directory with --dir, or a node with --api; `catamaran up` starts a cluster"));
    }
    let node = |config: &PathBuf| Config::load(config).map(|config| (config.api.listen, config.api_socket()));
    configs.iter().map(node).collect()
}

/// The API socket of a node on this machine. Without a readable configuration, the default.
pub fn socket(node: &NodeLayout) -> PathBuf {
    Config::load(&node.config()).map_or_else(|_| socket_of(&node.data()), |config| config.api_socket())
}

/// A client of the nodes of one cluster.
pub struct Client {
    nodes: Vec<SocketAddr>,
    authorization: Option<Zeroizing<String>>,
    agent: ureq::Agent,
    /// `--timeout`: the limit for all calls together.
    timeout: Option<Duration>,
    /// Time used so far. Time spent at a confirmation prompt does not count.
    spent: Cell<Duration>,
}

/// A response.
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its body.
    pub body: Vec<u8>,
    /// Version of the body: the hash of a zone, or the revision of rules.
    pub version: Option<String>,
}

impl Answer {
    /// Parses the body as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Problem::new(Exit::Failed, "cannot read the node's response", error))
    }
}

impl Client {
    /// Finds nodes and token.
    pub fn find(target: &Target) -> Result<Self, Problem> {
        let layout = Layout::new(&target.dir);
        let known = match target.api {
            Some(address) => {
                // If the directory has this node, its socket is known too.
                let known = nodes_of(&layout).unwrap_or_default();
                let known = known.into_iter().find(|(api, _)| *api == address);
                vec![known.unwrap_or_else(|| (address, PathBuf::new()))]
            }
            None => nodes_of(&layout)?,
        };
        let nodes = known.iter().map(|(api, _)| *api).collect();
        let mut connector = NodeConnector::of(&target.dir, known.into_iter().collect());
        if target.api.is_some() && target.token_file.is_some() {
            // The user chose both the node and the token.
            connector.users = None;
        }
        let token_file = target.token_file.clone().unwrap_or_else(|| layout.api_token());
        // Some reads need no token. The node refuses a change without one, and says why.
        let may_lack = |error: &std::io::Error| {
            target.token_file.is_none() && matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied)
        };
        let token = match Token::load(&token_file) {
            Ok(token) => Some(token),
            Err(error) if may_lack(&error) => None,
            Err(error) => {
                return Err(Problem::new(Exit::Input, "cannot read the token", error)
                    .at(token_file.display())
                    .hint(TOKENS));
            }
        };
        let timeout = target.timeout.map(Duration::from_secs);
        Ok(Self { timeout, ..Self::new(nodes, connector, token.as_ref()) })
    }

    /// A client of these nodes.
    pub fn new(nodes: Vec<SocketAddr>, connector: NodeConnector, token: Option<&Token>) -> Self {
        let agent = ureq::Agent::with_parts(
            ureq::Agent::config_builder()
                .http_status_as_error(false)
                .proxy(None)
                .max_redirects(0)
                .timeout_connect(Some(Duration::from_millis(CONNECT_MS)))
                // A node closes a connection that is idle for longer.
                .max_idle_age(Duration::from_millis(API_HEAD_MS / 2))
                .build(),
            connector,
            DefaultResolver::default(),
        );
        let authorization = token.map(Token::authorization);
        Self { nodes, authorization, agent, timeout: None, spent: Cell::default() }
    }

    /// Deadline of a request that starts now.
    fn deadline(&self, kind: RequestKind) -> Instant {
        let limit = self.timeout.map_or(kind.limit(), |timeout| timeout.saturating_sub(self.spent.get()));
        Instant::now() + limit
    }

    /// `wait`, but no longer than the rest of `--timeout`.
    pub fn at_most(&self, wait: Duration) -> Duration {
        self.timeout.map_or(wait, |timeout| wait.min(timeout.saturating_sub(self.spent.get())))
    }

    /// Sleeps before a retry.
    pub fn pause(&self, wait: Duration) {
        self.timed(|| std::thread::sleep(self.at_most(wait)));
    }

    /// Runs `work`, and counts its time against `--timeout`.
    fn timed<T>(&self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        self.spent.set(self.spent.get() + start.elapsed());
        done
    }

    /// A client for these nodes of the cluster in a directory.
    pub fn for_cluster(layout: &Layout, connector: NodeConnector, nodes: Vec<SocketAddr>) -> Result<Self, Problem> {
        let file = layout.api_token();
        let token = Token::load(&file)
            .map_err(|error| Problem::new(Exit::Failed, "cannot read the API token", error).at(file.display()))?;
        Ok(Self::new(nodes, connector, Some(&token)))
    }

    /// The API addresses of the nodes.
    pub fn nodes(&self) -> &[SocketAddr] {
        &self.nodes
    }

    /// The status of one node.
    pub fn status(&self, node: SocketAddr, with_zones: bool) -> Result<StatusJson, String> {
        self.status_within(node, with_zones, Duration::from_millis(STATUS_MS))
    }

    fn status_within(&self, node: SocketAddr, with_zones: bool, wait: Duration) -> Result<StatusJson, String> {
        let wait = self.at_most(wait);
        let path = format!("/v1/status?zones={with_zones}");
        let answer =
            self.timed(|| self.call(node, "GET", &path, (None, &[]), Timeouts::all(wait))).map_err(CallError::why)?;
        match answer.status {
            StatusCode::OK => serde_json::from_slice(&answer.body).map_err(|error| error.to_string()),
            _ => Err(error_of(&answer).error),
        }
    }

    /// Reads from the first node that answers.
    pub fn get(&self, path: &str) -> Result<Answer, Problem> {
        self.first("GET", path, (None, &[]), RequestKind::Read)
    }

    /// As [`Self::get`], for JSON.
    pub fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, Problem> {
        self.get(path)?.json()
    }

    /// Sends a change to the first node that can be reached. If that node did nothing, the next one is tried.
    pub fn change(&self, method: &str, path: &str, body: &[u8]) -> Result<Answer, Problem> {
        self.first(method, path, (None, body), RequestKind::Change)
    }

    /// As [`Self::change`], with the records of a zone, so that the node parses no zone file.
    pub fn change_zone(&self, method: &str, path: &str, records: &RecordList) -> Result<Answer, Problem> {
        self.first(method, path, (Some(RECORDS_TYPE), records.as_bytes()), RequestKind::Load)
    }

    /// Copies the body of a response of any length to `to`. Returns its header fields.
    pub fn download(&self, path: &str, to: &mut dyn Write) -> Result<HeaderMap, Problem> {
        let deadline = self.deadline(RequestKind::Download);
        let mut last = "the cluster has no nodes".to_owned();
        for (index, &node) in self.nodes.iter().enumerate() {
            if let Err(why) = self.status_within(node, false, self.status_wait(index)) {
                last = format!("{node}: {why}");
                continue;
            }
            let mut request = Request::builder().uri(format!("http://{node}{path}"));
            if let Some(authorization) = &self.authorization {
                request = request.header("authorization", authorization.as_str());
            }
            let failed = |why: String| Problem::new(Exit::Failed, "the response is incomplete", why).at(node);
            let request = request.body(()).map_err(|error| failed(error.to_string()))?;
            let Some(left) = left(deadline) else { break };
            let wait = Some(left.min(RequestKind::Load.limit()));
            let request = self.agent.configure_request(request).timeout_global(Some(left));
            let sent = self.agent.run(request.timeout_recv_response(wait).build());
            let mut response = sent.map_err(|error| failed(error.to_string()))?;
            let (status, headers) = (response.status(), response.headers().clone());
            if !status.is_success() {
                let limit = config::limits::API_BODY_BYTES_MAX as u64;
                let body = response.body_mut().with_config().limit(limit).read_to_vec().unwrap_or_default();
                let answer = Answer { status, body, version: None };
                if status == StatusCode::SERVICE_UNAVAILABLE {
                    last = error_of(&answer).error;
                    continue;
                }
                return Err(refusal(path, &answer).at(node));
            }
            let length = headers.get("content-length").and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
            let copied = std::io::copy(&mut response.body_mut().as_reader(), to);
            let copied = copied.map_err(|error| failed(error.to_string()))?;
            return if length == Some(copied) {
                Ok(headers)
            } else {
                Err(failed(format!("received {copied} of {} bytes", length.unwrap_or_default())))
            };
        }
        Err(Problem::new(Exit::Unreachable, "no node could handle the request", last).hint("see `catamaran status`"))
    }

    /// How long to wait for the status of a node. There is no hurry with the last one.
    fn status_wait(&self, index: usize) -> Duration {
        let is_last = index + 1 == self.nodes.len();
        Duration::from_millis(if is_last { READ_MS } else { STATUS_MS })
    }

    fn first(&self, method: &str, path: &str, body: Body<'_>, kind: RequestKind) -> Result<Answer, Problem> {
        let deadline = self.deadline(kind);
        let mut last = "the cluster has no nodes".to_owned();
        // A node's error says more than that another node did not answer.
        let mut node_error = None;
        for (index, &node) in self.nodes.iter().enumerate() {
            // A change may take long. The status request finds out quickly whether the node answers at all.
            if kind != RequestKind::Read
                && let Err(why) = self.status_within(node, false, self.status_wait(index))
            {
                last = format!("{node}: {why}");
                continue;
            }
            let Some(left) = left(deadline) else {
                last = "the time limit is reached (raise it with `--timeout`)".to_owned();
                break;
            };
            let wait = match kind {
                RequestKind::Read => Timeouts { all: left, head: left.min(Duration::from_millis(READ_MS)) },
                _ => Timeouts::all(left),
            };
            match self.timed(|| self.call(node, method, path, body, wait)) {
                Ok(answer) if answer.status.is_success() => return Ok(answer),
                // Another node may know a leader, or be less busy.
                Ok(answer) if answer.status == StatusCode::SERVICE_UNAVAILABLE => node_error = Some(error_of(&answer)),
                Ok(answer) => return Err(refusal(path, &answer).at(node)),
                Err(CallError::Unknown(why)) if method != "GET" => {
                    return Err(unknown(
                        path,
                        format!("the node received the request, but sent no complete answer: {why}"),
                    )
                    .at(node));
                }
                Err(error) => last = format!("{node}: {}", error.why()),
            }
        }
        let no_answer = || ErrorJson {
            error: last,
            hint: "see `catamaran status`; start the cluster with `catamaran up`".to_owned(),
        };
        let ErrorJson { error, hint } = node_error.unwrap_or_else(no_answer);
        Err(Problem::new(Exit::Unreachable, "no node could handle the request", error).hint(hint))
    }

    fn call(
        &self,
        node: SocketAddr,
        method: &str,
        path: &str,
        (kind, body): Body<'_>,
        wait: Timeouts,
    ) -> Result<Answer, CallError> {
        let mut request = Request::builder().method(method).uri(format!("http://{node}{path}"));
        if let Some(kind) = kind {
            request = request.header("content-type", kind);
        }
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization.as_str());
        }
        let (all, head) = (Some(wait.all), Some(wait.head));
        let mut response = if method == "GET" || method == "DELETE" {
            let request = self.agent.configure_request(request.body(()).map_err(ureq::Error::from)?);
            self.agent.run(request.timeout_global(all).timeout_recv_response(head).build())?
        } else {
            let request = self.agent.configure_request(request.body(body).map_err(ureq::Error::from)?);
            self.agent.run(request.timeout_global(all).timeout_recv_response(head).build())?
        };
        let field = |name| response.headers().get(name)?.to_str().ok().map(str::to_owned);
        let version = [ZONE_HASH, POLICY_REVISION].into_iter().find_map(field);
        let limit = config::limits::API_ZONE_BYTES_MAX as u64;
        let body = response.body_mut().with_config().limit(limit).read_to_vec()?;
        Ok(Answer { status: response.status(), body, version })
    }
}

/// Time limits of one call to a node.
#[derive(Clone, Copy)]
struct Timeouts {
    /// For the whole call.
    all: Duration,
    /// From the end of the request to the head of the response.
    head: Duration,
}

impl Timeouts {
    const fn all(all: Duration) -> Self {
        Self { all, head: all }
    }
}

/// Time until the deadline; `None` if it has passed.
fn left(deadline: Instant) -> Option<Duration> {
    Some(deadline.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
}

/// The content type of a request body if it is not the default, and its bytes.
type Body<'b> = (Option<&'static str>, &'b [u8]);

/// Why a call got no response.
#[derive(Debug)]
enum CallError {
    /// There was no connection, so the node did not get the request.
    NotSent(String),
    /// The node may have got and handled the request.
    Unknown(String),
}

impl CallError {
    fn why(self) -> String {
        match self {
            Self::NotSent(why) | Self::Unknown(why) => why,
        }
    }
}

impl From<ureq::Error> for CallError {
    fn from(error: ureq::Error) -> Self {
        let why = match &error {
            ureq::Error::Timeout(_) => "no answer in time".to_owned(),
            error => error.to_string(),
        };
        match error {
            ureq::Error::Io(error) if error.kind() == ErrorKind::ConnectionRefused => Self::NotSent(why),
            ureq::Error::Timeout(ureq::Timeout::Connect) => Self::NotSent(why),
            _ => Self::Unknown(why),
        }
    }
}

/// The error for a change that a node received and whose outcome is unknown. The change is not sent to another node: it
/// might undo a later change of another administrator.
fn unknown(path: &str, why: impl Display) -> Problem {
    let of = path.strip_prefix("/v1/").unwrap_or(path).split('?').next().unwrap_or_default();
    let look = match of {
        "zone" => "zone list",
        "keys" | "grants" => "key list",
        "policy" => "policy show",
        _ => "cluster status",
    };
    Problem::unknown(why)
        .hint(format!("check with `catamaran {look}` whether the change was made before you run the command again"))
}

fn error_of(answer: &Answer) -> ErrorJson {
    serde_json::from_slice(&answer.body)
        .unwrap_or_else(|_| ErrorJson { error: format!("HTTP {}", answer.status), hint: String::new() })
}

/// The error of a node.
fn refusal(path: &str, answer: &Answer) -> Problem {
    let error = error_of(answer);
    if is_outcome_unknown(&error.error) {
        return unknown(path, "the node that received the change got no outcome from a leader");
    }
    let exit = match answer.status {
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY | StatusCode::PAYLOAD_TOO_LARGE => Exit::Input,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::CONFLICT | StatusCode::NOT_FOUND => {
            Exit::Refused
        }
        _ => Exit::Failed,
    };
    let problem = Problem::new(exit, "the cluster refused", error.error);
    if answer.status == StatusCode::UNAUTHORIZED {
        return problem.hint(TOKENS);
    }
    if error.hint.is_empty() { problem } else { problem.hint(error.hint) }
}

/// One parameter of a query string, escaped.
pub fn query(key: &str, value: &str) -> String {
    let mut text = format!("{key}=");
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => text.push(byte as char),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
pub(super) mod tests;
