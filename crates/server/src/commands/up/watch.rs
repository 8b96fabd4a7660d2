//! Polls the nodes: prints status lines, and keeps `cluster.json` up to date.

use super::children::Children;
use super::plan::Plan;
use super::ports::PlannedNode;
use cli::client::Client;
use config::api_types::StatusJson;
use config::files::cluster_json::ClusterJson;
use process::problem::{Exit, Problem};
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use wire::builder::MessageBuilder;

/// Time limit for the response to a query.
const PROBE_MS: u64 = 500;

/// The last status of the nodes.
pub(crate) struct Watch {
    plan: Plan,
    client: Client,
    statuses: BTreeMap<u64, StatusJson>,
    written: Option<ClusterJson>,
    /// The log already has a warning that the file cannot be written.
    is_unwritten: bool,
    printed: Option<String>,
}

impl Watch {
    pub(crate) fn new(plan: &Plan) -> Self {
        let client = Client::new(plan.nodes.iter().map(|node| node.api).collect(), plan.connector(), None);
        Self {
            plan: plan.clone(),
            client,
            statuses: BTreeMap::new(),
            written: None,
            is_unwritten: false,
            printed: None,
        }
    }

    /// Polls all nodes. Returns a line if something changed.
    pub(crate) fn poll(&mut self, children: &Children) -> Vec<String> {
        let ask = |node: &PlannedNode| Some((node.id, self.client.status(node.api, false).ok()?));
        self.statuses = self.plan.nodes.iter().filter_map(ask).collect();
        // A node that was restarted by hand is not a child process, but its status has its process id.
        let pid = |id| children.pid(id).or_else(|| self.statuses.get(&id).map(|status| status.pid));
        self.write(self.plan.cluster_json(self.leader(), pid));
        let line = self.line(children);
        if self.printed.as_ref() == Some(&line) {
            return Vec::new();
        }
        self.printed = Some(line.clone());
        vec![line]
    }

    /// The leader that most nodes name, in the highest term.
    pub(crate) fn leader(&self) -> Option<u64> {
        let leader =
            self.statuses.values().filter(|status| status.leader.is_some()).max_by_key(|status| status.term)?.leader;
        // A node that does not answer is not the leader, or will soon lose the leadership. Nodes of other machines
        // cannot be polled.
        leader.filter(|id| self.statuses.contains_key(id) || self.plan.nodes.iter().all(|node| node.id != *id))
    }

    /// Nodes that should answer: members whose processes have never exited. The members are those of the leader, or of
    /// the node with the highest applied index if the leader is not one of these nodes.
    pub(crate) fn expected<'p>(&'p self, children: &'p Children) -> impl Iterator<Item = &'p PlannedNode> {
        let newest = || self.statuses.values().max_by_key(|status| status.applied_index);
        let status = self.leader().and_then(|id| self.statuses.get(&id).or_else(newest));
        let members = status.map(|status| &status.members);
        let is_member = move |id| members.is_none_or(|members| members.iter().any(|member| member.node == id));
        self.plan.nodes.iter().filter(move |node| children.never_exited(node.id) && is_member(node.id))
    }

    /// Whether all expected nodes follow one leader.
    pub(crate) fn all_agree_on_leader(&self, children: &Children) -> bool {
        let leader = self.leader();
        leader.is_some()
            && self.expected(children).all(|node| self.statuses.get(&node.id).is_some_and(|s| s.leader == leader))
    }

    /// Whether all expected nodes answered the last poll, follow one leader and serve.
    pub(crate) fn is_healthy(&self, children: &Children) -> bool {
        let serves = |node: &PlannedNode| self.statuses.get(&node.id).is_some_and(|status| status.serving == "yes");
        self.all_agree_on_leader(children) && self.expected(children).all(serves)
    }

    /// Whether all expected nodes have applied the same entries and answer queries for these zones over UDP.
    pub(crate) fn all_answer(&self, children: &Children, zones: &[String]) -> bool {
        let applied = self.expected(children).filter_map(|node| self.statuses.get(&node.id)).map(|s| s.applied_index);
        let Some(applied) = applied.max() else { return false };
        self.all_agree_on_leader(children)
            && self.expected(children).all(|node| {
                let status = &self.statuses[&node.id];
                status.applied_index == applied
                    && status.serving == "yes"
                    && zones.iter().all(|zone| answers(node.dns, zone))
            })
    }

    pub(crate) fn any_answers(&self) -> bool {
        !self.statuses.is_empty()
    }

    /// Why the cluster did not become ready in time.
    pub(crate) fn not_ready(&self) -> Problem {
        let is_silent = |id: &u64| !self.statuses.contains_key(id);
        let ids = self.plan.nodes.iter().map(|node| node.id);
        let silent: Vec<String> = ids.filter(is_silent).map(|id| id.to_string()).collect();
        let why = match (silent.is_empty(), self.leader()) {
            (false, _) => format!("node {} does not answer on its API", silent.join(", ")),
            (true, None) => "the nodes have no leader".to_owned(),
            (true, Some(_)) => "not all nodes answer queries".to_owned(),
        };
        Problem::new(Exit::Unreachable, "the cluster did not become ready in time", why)
            .at(self.plan.layout.dir().display())
            .hint("see DIR/node-*/node.log. On a very slow machine, run the command again: the data is kept")
    }

    /// Records in `cluster.json` that no node runs.
    pub(crate) fn write_stopped(&mut self, children: &Children) {
        self.write(self.plan.cluster_json(None, |id| children.pid(id)));
    }

    fn write(&mut self, now: ClusterJson) {
        if self.written.as_ref() != Some(&now) {
            match now.save(&self.plan.layout.cluster_json()) {
                Ok(()) => (self.written, self.is_unwritten) = (Some(now), false),
                // Each check tries again.
                Err(error) => {
                    if !std::mem::replace(&mut self.is_unwritten, true) {
                        tracing::warn!(%error, "cannot write cluster.json");
                    }
                }
            }
        }
    }

    fn line(&self, children: &Children) -> String {
        let members = || self.plan.nodes.iter().map(|node| node.id).filter(|id| !children.is_removed(*id));
        let is_down = |id: &u64| !self.statuses.contains_key(id);
        let down: Vec<String> = members().filter(is_down).map(|id| id.to_string()).collect();
        let term = self.statuses.values().map(|status| status.term).max().unwrap_or(0);
        let leader = self.leader().map_or("none".to_owned(), |id| id.to_string());
        let mut line =
            format!("status: leader {leader}, term {term}, {} of {} nodes up", self.statuses.len(), members().count());
        if !down.is_empty() {
            line += &format!(", down: {}", down.join(", "));
        }
        for status in self.statuses.values().filter(|status| status.serving != "yes") {
            line += &format!(", node {} serving: {}", status.node, status.serving);
        }
        line
    }
}

/// Whether a node answers for a zone over UDP.
fn answers(dns: SocketAddr, zone: &str) -> bool {
    let Ok(apex) = zone.parse::<wire::Name>() else { return false };
    let query = MessageBuilder::query(0xCA7A, apex.as_ref(), wire::Rtype::SOA).build();
    let ask = || -> std::io::Result<bool> {
        let socket = UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
        socket.set_read_timeout(Some(Duration::from_millis(PROBE_MS)))?;
        socket.connect(dns)?;
        socket.send(&query)?;
        let mut response = [0; 512];
        let len = socket.recv(&mut response)?;
        // The same ID, a response, NOERROR, an answer.
        Ok(len >= 12
            && response[..2] == query[..2]
            && response[2] & 0x80 != 0
            && response[3] & 0x0F == 0
            && response[7] > 0)
    };
    ask().unwrap_or(false)
}
