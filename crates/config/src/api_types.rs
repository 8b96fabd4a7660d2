//! JSON types of the API, shared by the server and the command line.

use process::sandbox::SandboxState;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Content type of the records of a zone, encoded as [`RecordList`](zone::RecordList). Without it, the body is a zone
/// file.
pub const RECORDS_TYPE: &str = "application/vnd.catamaran.records";

/// Header field with the hash of an exported zone.
pub const ZONE_HASH: &str = "catamaran-zone-hash";

/// Header field with the revision of rules.
pub const POLICY_REVISION: &str = "catamaran-policy-revision";

/// Header field with the index of the last entry in a backup.
pub const BACKUP_INDEX: &str = "catamaran-index";

/// `GET /v1/status`
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StatusJson {
    /// Number of the node.
    pub node: u64,
    /// Its raft id: node number and incarnation.
    pub raft_id: u64,
    /// Its process id.
    pub pid: u32,
    /// Version of its software.
    pub version: String,
    /// Feature level of the cluster: the features that its log may use. `catamaran cluster upgrade` raises it.
    pub feature_level: u32,
    /// `leader`, `follower` or `candidate`; `removed` on a node that was removed and is about to exit.
    pub role: String,
    /// Its term.
    pub term: u64,
    /// Number of the leader's node; null while none is known.
    pub leader: Option<u64>,
    /// Index of the last committed entry that it knows.
    pub commit_index: u64,
    /// Index of the last entry that it applied.
    pub applied_index: u64,
    /// `yes`, `stale` or `no`: whether it answers queries.
    pub serving: String,
    /// Whether it has addresses for clients. Otherwise it only votes and stores data.
    #[serde(default = "has_dns")]
    pub dns: bool,
    /// Milliseconds since a leader last confirmed that nothing newer is committed.
    pub staleness_ms: u64,
    /// Additive hash of the replicated state, 32 hexadecimal digits.
    pub state_hash: String,
    /// Number of CAs for certificates between nodes: two during a replacement, none below feature level 2.
    #[serde(default)]
    #[serde(alias = "authorities")]
    pub ca_count: usize,
    /// Number of the data key that seals secrets. Older nodes do not send it.
    #[serde(default)]
    pub data_key: u32,
    /// Whether the data key is being replaced.
    #[serde(default)]
    pub data_key_changes: bool,
    /// The members of the cluster.
    pub members: Vec<MemberJson>,
    /// The zones of the cluster.
    pub zones: Vec<ZoneJson>,
    /// Milliseconds since the process started.
    pub uptime_ms: u64,
    /// State of the sandbox. Older nodes do not send it.
    #[serde(default)]
    pub sandbox: Option<SandboxState>,
    /// Entries that may be missing in the node's log; null if none. The node votes only for nodes that have them.
    #[serde(default, alias = "log_doubt")]
    pub suspected_log_loss: Option<SuspectedLossJson>,
    /// Whether a write of the node is waiting for room on its disk.
    #[serde(default)]
    pub disk_full: bool,
}

/// Entries that may be missing in a node's log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SuspectedLossJson {
    /// Term of the last entry that may be missing.
    pub term: u64,
    /// Index of that entry; null if unknown.
    pub index: Option<u64>,
    /// `torn-record`: the last record was incomplete. `contradicted`: a leader expected more entries, or other ones.
    pub cause: String,
    /// After a torn record: the numbers of the nodes whose logs can resolve this. Any one of them is enough.
    pub waits_for: Vec<u64>,
}

#[cfg(any(test, feature = "testing"))]
impl StatusJson {
    /// The status of a healthy leader without other members.
    pub fn of_a_leader() -> Self {
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
            suspected_log_loss: None,
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
pub struct MemberJson {
    /// Number of the node.
    pub node: u64,
    /// Its raft id: node number and incarnation.
    pub raft_id: u64,
    /// The address that its peers connect to.
    pub address: String,
    /// Whether it votes. A joining node does not vote yet.
    pub voter: bool,
    /// `voter`, `learner`, or `joining` until it has caught up and gets its vote.
    #[serde(default)]
    pub role: String,
    /// Whether it answers for zones with `ack = all-live`: their updates wait for it. Null while there are none.
    #[serde(default)]
    pub in_rotation: Option<bool>,
    /// Its applied index; null if the queried node is not the leader.
    pub applied_index: Option<u64>,
    /// Milliseconds since the leader heard it; null if the queried node is not the leader, and for the leader itself.
    pub heard_ms: Option<u64>,
    /// The highest feature level of its version; null if the queried node is not the leader.
    pub feature_level: Option<u32>,
    /// Its certificate for connections between nodes; null until it has reported it.
    #[serde(default)]
    pub certificate: Option<CertificateJson>,
    /// The memory of its zones; null if the queried node is not the leader, and below feature level 3.
    #[serde(default)]
    pub zone_memory: Option<ZoneMemoryJson>,
    /// Milliseconds by which its clock is ahead of the median of all nodes' clocks. Null if another node has not
    /// reported recently, and below feature level 4. The queried node always knows its own.
    #[serde(default)]
    pub clock_ahead_ms: Option<i64>,
    /// Why the queried node cannot connect to this member; null while it can.
    #[serde(default)]
    pub unreachable: Option<UnreachableJson>,
}

/// A failed connection from one node to another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UnreachableJson {
    /// The address of the last attempt.
    pub address: String,
    /// Why the attempt failed.
    pub why: String,
    /// Milliseconds for which it has been unreachable.
    pub for_ms: u64,
}

/// The memory of a node's zones.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ZoneMemoryJson {
    /// Bytes in use, including old versions.
    pub used_bytes: u64,
    /// Memory limit in bytes. The leader refuses growth at 80 % of the smallest limit.
    pub limit_bytes: u64,
}

/// A node's certificate for connections between nodes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CertificateJson {
    /// Expiry, in seconds since 1970.
    pub expires_s: u64,
    /// Number of the CA that issued it.
    #[serde(alias = "authority")]
    pub ca: u32,
    /// The last `cluster rotate` that the node has followed.
    pub renewal: u32,
    /// The highest data key that the node has.
    #[serde(default)]
    pub data_key: u32,
    /// Whether it knows the next key of every node: none is used before all nodes do.
    #[serde(default)]
    pub knows_next_keys: bool,
}

/// A zone, in `GET /v1/status` and `GET /v1/zones`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ZoneJson {
    /// Absolute name of the zone.
    pub zone: String,
    /// Serial of its SOA record.
    pub serial: u32,
    /// Number of its records.
    pub records: u64,
    /// Signed elsewhere: refuses updates.
    pub presigned: bool,
    /// Additive hash of its contents, 32 hexadecimal digits.
    pub hash: String,
    /// Its options.
    #[serde(flatten)]
    pub options: OptionsJson,
}

/// Replicated options of a zone.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct OptionsJson {
    /// `increment`, `unixtime` or `date`: how a change sets the serial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial_policy: Option<String>,
    /// `serve` or `expire`: what a node without a leader does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale: Option<String>,
    /// `majority` or `all-live`: when its updates are acknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack: Option<String>,
    /// Maximum TTL in seconds. Here and in the next two limits, 0 or null means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_max: Option<u32>,
    /// Maximum number of records of one type at a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rrset_records_max: Option<u32>,
    /// Maximum number of records in the zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records_max: Option<u32>,
}

/// `GET /healthz`
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HealthJson {
    /// Whether the node answers queries, and meets the conditions of the request.
    pub healthy: bool,
    /// `yes`, `stale` or `no`.
    pub serving: String,
    /// Null: the node cannot accept updates now.
    pub leader: Option<u64>,
    /// Milliseconds since a leader last confirmed that nothing newer is committed.
    pub staleness_ms: u64,
    /// Whether the last write to the audit log failed.
    #[serde(default)]
    pub audit_failing: bool,
    /// Whether a write of the node is waiting for room on its disk. The node still answers queries.
    #[serde(default)]
    pub disk_full: bool,
}

/// A TSIG key. Lists contain no secrets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyJson {
    /// Absolute name of the key.
    pub name: String,
    /// `hmac-sha256`, `hmac-sha384` or `hmac-sha512`. An imported key may also have `hmac-sha1`, `hmac-sha224` or
    /// `hmac-md5`.
    pub algorithm: String,
    /// Repeats a weak algorithm, as a confirmation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_weak: Option<String>,
    /// Base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Its rights.
    #[serde(default)]
    pub grants: Vec<GrantJson>,
    /// Whether it has two secrets. Only in responses.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rolling: bool,
    /// Accept a short secret, although it can be guessed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_short_secret: bool,
}

/// `GET /v1/policy/keys`: a key to which policy rules grant something.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KeyPoliciesJson {
    /// Name of the key.
    pub key: String,
    /// The zones whose rules grant the key something; null means the rules for all zones.
    pub zones: Vec<Option<String>>,
}

/// A right of a key, for one zone or for all.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantJson {
    /// The zone's apex; null means all zones.
    pub zone: Option<String>,
    /// `update`, `update-apex` (the SOA and the NS of the apex too) or `transfer`.
    pub right: String,
}

/// `GET /v1/policy/check`
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DecisionJson {
    /// The zone that the name is in.
    pub zone: String,
    /// Whether the change is allowed.
    pub granted: bool,
    /// Why.
    pub why: String,
    /// The rule that decided, if one did.
    pub rule: Option<String>,
    /// `zone`, `all-zones` or `grants`.
    pub list: Option<String>,
    /// Its number in that list, from one.
    pub number: Option<usize>,
    /// Maximum number of records of the type at the name.
    pub records_max: Option<u16>,
    /// Limits of the key, by name.
    pub limits: BTreeMap<String, u32>,
    /// Whether the cluster has the key.
    pub key_known: bool,
}

/// The response to a change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DoneJson {
    /// False if the state was already as requested.
    pub changed: bool,
}

/// Every error of the API.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ErrorJson {
    /// What failed.
    pub error: String,
    /// What to do about it.
    pub hint: String,
}

/// `POST /v1/certificates`, `POST /v1/data-key`
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RenewalJson {
    /// Number of the rotation, or of the key. In `GET /v1/status`, each node reports the last one that it completed.
    pub number: u32,
}

/// `POST /v1/ca`
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CaStepJson {
    /// The step that was made; null if none was possible.
    pub did: Option<String>,
    /// Nodes that are not ready for the next step.
    pub waits_for: Vec<u64>,
    /// Whether all steps are done.
    pub done: bool,
}

/// `GET /v1/tokens`: a token that is neither used nor revoked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpenTokenJson {
    /// Identifies the token. A node cannot join with the id.
    pub id: String,
    /// Expiry, in seconds since 1970.
    pub expires_s: u64,
    /// Whether the node that joins with it becomes a learner.
    pub learner: bool,
}

/// `POST /v1/tokens`
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TokenJson {
    /// The token, for `catamaran join --token-file`.
    pub token: String,
}
