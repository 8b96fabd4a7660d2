//! JSON types of the API, shared by the server and the command line.

use crate::sandbox::SandboxState;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `GET /v1/status`
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct StatusJson {
    /// Number of the node.
    pub(crate) node: u64,
    /// Its raft id: node number and incarnation.
    pub(crate) raft_id: u64,
    pub(crate) pid: u32,
    pub(crate) version: String,
    /// Feature level of the cluster: the features that its log may use. `catamaran cluster upgrade` raises it.
    pub(crate) feature_level: u32,
    /// `leader`, `follower` or `candidate`; `removed` on a node that was removed and is about to exit.
    pub(crate) role: String,
    pub(crate) term: u64,
    /// Number of the leader's node; null while none is known.
    pub(crate) leader: Option<u64>,
    pub(crate) commit_index: u64,
    pub(crate) applied_index: u64,
    /// `yes`, `stale` or `no`: whether it answers queries.
    pub(crate) serving: String,
    /// Whether it has addresses for clients. Otherwise it only votes and stores data.
    #[serde(default = "has_dns")]
    pub(crate) dns: bool,
    /// Milliseconds since a leader last confirmed that nothing newer is committed.
    pub(crate) staleness_ms: u64,
    /// Additive hash of the replicated state, 32 hexadecimal digits.
    pub(crate) state_hash: String,
    /// Number of CAs for certificates between nodes: two during a replacement, none below feature level 2.
    #[serde(default)]
    #[serde(alias = "authorities")]
    pub(crate) ca_count: usize,
    /// Number of the data key that seals secrets. Older nodes do not send it.
    #[serde(default)]
    pub(crate) data_key: u32,
    /// Whether the data key is being replaced.
    #[serde(default)]
    pub(crate) data_key_changes: bool,
    pub(crate) members: Vec<MemberJson>,
    pub(crate) zones: Vec<ZoneJson>,
    pub(crate) uptime_ms: u64,
    /// State of the sandbox. Older nodes do not send it.
    #[serde(default)]
    pub(crate) sandbox: Option<SandboxState>,
    /// Entries that may be missing in the node's log; null if none. The node votes only for nodes that have them.
    #[serde(default)]
    pub(crate) log_doubt: Option<LogDoubtJson>,
    /// Whether a write of the node is waiting for room on its disk.
    #[serde(default)]
    pub(crate) disk_full: bool,
}

/// Entries that may be missing in a node's log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct LogDoubtJson {
    pub(crate) term: u64,
    /// The last entry that may be missing; null if unknown.
    pub(crate) index: Option<u64>,
    /// `torn-record`: the last record was incomplete. `contradicted`: a leader expected more entries, or other ones.
    pub(crate) cause: String,
    /// After a torn record: the numbers of the nodes whose logs can settle this. Any one of them is enough.
    pub(crate) waits_for: Vec<u64>,
}

#[cfg(test)]
impl StatusJson {
    /// The status of a healthy leader without other members.
    pub(crate) fn of_a_leader() -> Self {
        Self {
            node: 1,
            raft_id: 1,
            pid: 1,
            version: "0".into(),
            feature_level: 2,
            role: "leader".into(),
            term: 7,
            leader: Some(1),
            commit_index: 120,
            applied_index: 120,
            serving: "yes".into(),
            dns: true,
            staleness_ms: 0,
            state_hash: "0".repeat(32),
            ca_count: 1,
            data_key: 1,
            data_key_changes: false,
            members: Vec::new(),
            zones: Vec::new(),
            uptime_ms: 1,
            sandbox: None,
            log_doubt: None,
            disk_full: false,
        }
    }
}

/// All older nodes had addresses for clients.
const fn has_dns() -> bool {
    true
}

/// A member of the cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct MemberJson {
    pub(crate) node: u64,
    pub(crate) raft_id: u64,
    /// The address that its peers connect to.
    pub(crate) address: String,
    /// Whether it votes. A joining node does not vote yet.
    pub(crate) voter: bool,
    /// `voter`, `learner`, or `joining` until it has caught up and gets its vote.
    #[serde(default)]
    pub(crate) role: String,
    /// Whether it answers for zones with `ack = all-live`: their updates wait for it. Null while there are none.
    #[serde(default)]
    pub(crate) in_rotation: Option<bool>,
    /// Its applied index; null if the queried node is not the leader.
    pub(crate) applied_index: Option<u64>,
    /// Milliseconds since the leader heard it; null if the queried node is not the leader, and for the leader itself.
    pub(crate) heard_ms: Option<u64>,
    /// The highest feature level of its version; null if the queried node is not the leader.
    pub(crate) feature_level: Option<u32>,
    /// Its certificate for connections between nodes; null until it has reported it.
    #[serde(default)]
    pub(crate) certificate: Option<CertificateJson>,
    /// The memory of its zones; null if the queried node is not the leader, and below feature level 3.
    #[serde(default)]
    pub(crate) zone_memory: Option<ZoneMemoryJson>,
    /// Milliseconds by which its clock is ahead of the median of all nodes' clocks. Null if another node has not
    /// reported recently, and below feature level 4. The queried node always knows its own.
    #[serde(default)]
    pub(crate) clock_ahead_ms: Option<i64>,
    /// Why the queried node cannot connect to this member; null while it can.
    #[serde(default)]
    pub(crate) unreachable: Option<UnreachableJson>,
}

/// A failed connection from one node to another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct UnreachableJson {
    /// The address of the last attempt.
    pub(crate) address: String,
    pub(crate) why: String,
    pub(crate) for_ms: u64,
}

/// The memory of a node's zones.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ZoneMemoryJson {
    /// Bytes in use, including old versions.
    pub(crate) used_bytes: u64,
    /// Memory limit in bytes. The leader refuses growth at 80 % of the smallest limit.
    pub(crate) limit_bytes: u64,
}

/// A node's certificate for connections between nodes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct CertificateJson {
    /// Expiry, in seconds since 1970.
    pub(crate) expires_s: u64,
    /// Number of the CA that issued it.
    #[serde(alias = "authority")]
    pub(crate) ca: u32,
    /// The last `cluster rotate` that the node has followed.
    pub(crate) renewal: u32,
    /// The highest data key that the node has.
    #[serde(default)]
    pub(crate) data_key: u32,
    /// Whether it knows the next key of every node: none is used before all nodes do.
    #[serde(default)]
    pub(crate) knows_next_keys: bool,
}

/// A zone, in `GET /v1/status` and `GET /v1/zones`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ZoneJson {
    /// Absolute name of the zone.
    pub(crate) zone: String,
    pub(crate) serial: u32,
    pub(crate) records: u64,
    /// Signed elsewhere: refuses updates.
    pub(crate) presigned: bool,
    /// Additive hash of its contents, 32 hexadecimal digits.
    pub(crate) hash: String,
    #[serde(flatten)]
    pub(crate) options: OptionsJson,
}

/// Replicated options of a zone.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct OptionsJson {
    /// `increment`, `unixtime` or `date`: how a change sets the serial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) serial_policy: Option<String>,
    /// `serve` or `expire`: what a node without a leader does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stale: Option<String>,
    /// `majority` or `all-live`: when its updates are acknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ack: Option<String>,
    /// Maximum TTL in seconds. Here and in the next two limits, 0 or null means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ttl_max: Option<u32>,
    /// Maximum number of records of one type at a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rrset_records_max: Option<u32>,
    /// Maximum number of records in the zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) records_max: Option<u32>,
}

/// `GET /healthz`
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct HealthJson {
    /// Whether the node answers queries, and meets the conditions of the request.
    pub(crate) healthy: bool,
    /// `yes`, `stale` or `no`.
    pub(crate) serving: String,
    /// Null: the node cannot accept updates now.
    pub(crate) leader: Option<u64>,
    pub(crate) staleness_ms: u64,
    /// Whether the last write to the audit log failed.
    #[serde(default)]
    pub(crate) audit_failing: bool,
    /// Whether a write of the node is waiting for room on its disk. The node still answers queries.
    #[serde(default)]
    pub(crate) disk_full: bool,
}

/// A TSIG key. Lists contain no secrets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyJson {
    pub(crate) name: String,
    /// `hmac-sha256`, `hmac-sha384` or `hmac-sha512`. An imported key may also have `hmac-sha1`, `hmac-sha224` or
    /// `hmac-md5`.
    pub(crate) algorithm: String,
    /// Repeats a weak algorithm, as a confirmation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) allow_weak: Option<String>,
    /// Base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<String>,
    #[serde(default)]
    pub(crate) grants: Vec<GrantJson>,
    /// Whether it has two secrets. Only in responses.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) rolling: bool,
    /// Accept a short secret, although it can be guessed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) allow_short_secret: bool,
}

/// `GET /v1/policy/keys`: a key to which policy rules grant something.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct KeyPoliciesJson {
    pub(crate) key: String,
    /// The zones whose rules grant the key something; null stands for the rules for all zones.
    pub(crate) zones: Vec<Option<String>>,
}

/// A right of a key, for one zone or for all.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GrantJson {
    /// The zone's apex; null means all zones.
    pub(crate) zone: Option<String>,
    /// `update`, `update-apex` (the SOA and the NS of the apex too) or `transfer`.
    pub(crate) right: String,
}

/// `GET /v1/policy/check`
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct DecisionJson {
    /// The zone that the name is in.
    pub(crate) zone: String,
    pub(crate) granted: bool,
    pub(crate) why: String,
    /// The rule that decided, if one did.
    pub(crate) rule: Option<String>,
    /// `zone`, `all-zones` or `grants`.
    pub(crate) list: Option<String>,
    /// Its number in that list, from one.
    pub(crate) number: Option<usize>,
    /// Maximum number of records of the type at the name.
    pub(crate) records_max: Option<u16>,
    /// Limits of the key, by name.
    pub(crate) limits: BTreeMap<String, u32>,
    pub(crate) key_known: bool,
}

/// The response to a change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct DoneJson {
    /// False if the state was already as requested.
    pub(crate) changed: bool,
}

/// Every error of the API.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ErrorJson {
    pub(crate) error: String,
    /// What to do about it.
    pub(crate) hint: String,
}

/// `POST /v1/certificates`, `POST /v1/data-key`
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct RenewalJson {
    /// Number of the rotation, or of the key. In `GET /v1/status`, each node reports the last one that it completed.
    pub(crate) number: u32,
}

/// `POST /v1/ca`
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct CaStepJson {
    /// The step that was made; null if none was possible.
    pub(crate) did: Option<String>,
    /// Nodes that are not ready for the next step.
    pub(crate) waits_for: Vec<u64>,
    /// Whether all steps are done.
    pub(crate) done: bool,
}

/// `GET /v1/tokens`: a token that is neither used nor revoked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct OpenTokenJson {
    /// Identifies the token. A node cannot join with the id.
    pub(crate) id: String,
    /// Expiry, in seconds since 1970.
    pub(crate) expires_s: u64,
    /// Whether the node that joins with it becomes a learner.
    pub(crate) learner: bool,
}

/// `POST /v1/tokens`
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct TokenJson {
    /// The token, for `catamaran join --token-file`.
    pub(crate) token: String,
}
