//! What is local to one node, in TOML. Everything else (zones, keys, grants) is replicated state.

pub(crate) mod address;
pub(crate) mod audit;
pub(crate) mod nearest;
pub(crate) mod rate_limit;
pub(crate) mod sandbox;
pub(crate) mod subnet;
pub(crate) mod tls;
pub(crate) mod transfer;
pub(crate) mod zones;

use crate::cli::LogLevel;
use crate::files::data_key::DataKeyFile;
use crate::files::layout::socket_of;
use crate::limits::{
    API_HOSTS_MAX, CHECKPOINT_BYTES_MIN, CONNECTIONS_MEMORY_BYTES_MIN, LISTEN_ADDRESSES_MAX, RATE_LIMIT_MAX,
    SCRUB_INTERVAL_S, SMALL_FILE_BYTES_MAX, UDP_PAYLOAD_DEFAULT, UDP_RESPONSE_OCTETS_MAX, UDP_WORKERS_MAX,
};
use crate::problem::{Exit, Problem};
use address::PeerAddress;
use audit::Audit;
use rate_limit::RateLimit;
use replica::log::LogConfig;
use sandbox::Sandbox;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tls::Tls;
use transfer::Transfer;
use zones::Zones;

/// The configuration of one node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// This node's number in the cluster, from 1.
    pub(crate) id: u32,
    /// How often this number was given to a node that joined anew, after another had lost its disk.
    #[serde(default)]
    pub(crate) incarnation: u32,
    /// Whether the node came to a cluster that was there before: it starts empty and gets its state from the others.
    #[serde(default)]
    pub(crate) joined: bool,
    /// Where log and checkpoints lie.
    pub(crate) dir: PathBuf,
    /// The key that seals secrets in log and checkpoints; all nodes of a cluster have the same.
    pub(crate) data_key_file: PathBuf,
    /// The key of this node that wraps it; `wrapping.key` beside it by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wrapping_key_file: Option<PathBuf>,
    /// Log level. `--log` on the command line overrides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) log_level: Option<LogLevel>,
    /// Whether the process gives up what it does not need; on by default.
    #[serde(default, skip_serializing_if = "Sandbox::is_on")]
    pub(crate) sandbox: Sandbox,
    /// How clients reach it.
    pub(crate) dns: Dns,
    /// How operators reach it.
    pub(crate) api: Api,
    /// How the other nodes reach it, and it them.
    pub(crate) peer: Peer,
    /// How much of the log is kept; for small disks.
    #[serde(default, skip_serializing_if = "Log::is_default")]
    pub(crate) log: Log,
    /// How much of the audit log is kept.
    #[serde(default, skip_serializing_if = "Audit::is_default")]
    pub(crate) audit: Audit,
    /// How much memory zones may take.
    #[serde(default, skip_serializing_if = "Zones::is_default")]
    pub(crate) zones: Zones,
}

/// The `[dns]` table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Dns {
    /// Addresses for UDP and TCP; none on a node that only votes and stores.
    pub(crate) listen: Vec<SocketAddr>,
    /// UDP threads; 0 is one for each core.
    #[serde(default)]
    pub(crate) udp_workers: usize,
    /// Largest UDP response, octets (RFC 6891 6.2.3).
    #[serde(default = "udp_payload_default")]
    pub(crate) udp_payload: u16,
    /// Given to clients that ask with NSID (RFC 5001); none by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) nsid: Option<String>,
    /// Answer to CH TXT `id.server` and `hostname.bind` (RFC 4892); refused by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chaos_id: Option<String>,
    /// Answer to CH TXT `version.server` and `version.bind`; refused by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chaos_version: Option<String>,
    /// Secrets of DNS cookies (RFC 9018), the same for all servers of an address; from the data key by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cookie_secrets_file: Option<PathBuf>,
    /// How much of the same one network gets over UDP.
    #[serde(default)]
    pub(crate) rate_limit: RateLimit,
    /// Limits of connections, over all transports that have them.
    #[serde(default)]
    pub(crate) tcp: Tcp,
    /// How slow a client may take a zone.
    #[serde(default)]
    pub(crate) transfer: Transfer,
    /// DNS over TLS, HTTPS and QUIC; none without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tls: Option<Tls>,
}

/// The `[dns.tcp]` table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Tcp {
    /// Connections of the node.
    pub(crate) connections_max: usize,
    /// Connections of one client: an IPv4 address, or an IPv6 /56.
    pub(crate) connections_per_client_max: usize,
    /// Silence after which a connection is closed, in milliseconds.
    pub(crate) idle_ms: u64,
    /// Octets of memory that all connections may take.
    pub(crate) memory_bytes_max: usize,
    /// Handshakes of TLS and QUIC a second that one client may begin; 0 is no limit.
    pub(crate) handshakes_per_second: u32,
    /// So many it may begin at once, after silence.
    pub(crate) handshakes_burst: u32,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            connections_max: crate::limits::TCP_CONNECTIONS_MAX,
            connections_per_client_max: crate::limits::TCP_CONNECTIONS_PER_CLIENT_MAX,
            idle_ms: crate::limits::TCP_IDLE_MS,
            memory_bytes_max: crate::limits::CONNECTIONS_MEMORY_BYTES_MAX,
            handshakes_per_second: crate::limits::HANDSHAKES_PER_SECOND,
            handshakes_burst: crate::limits::HANDSHAKES_BURST,
        }
    }
}

/// The `[api]` table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Api {
    /// Address of the HTTP API.
    pub(crate) listen: SocketAddr,
    /// File with the bearer token that changes need.
    pub(crate) token_file: PathBuf,
    /// The Unix socket of the API, for the command line on this machine; beside the data by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) socket: Option<PathBuf>,
    /// Names by which the API may be asked over TCP, beside its addresses and localhost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) hosts: Vec<String>,
}

/// The `[peer]` table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Peer {
    /// Address for the other nodes.
    pub(crate) listen: SocketAddr,
    /// The address that other nodes connect to: a host name or an IP address, and a port. Default: `listen`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) advertise: Option<PeerAddress>,
    /// Certificate of the cluster's authority, PEM.
    pub(crate) ca_file: PathBuf,
    /// This node's certificate, PEM.
    pub(crate) cert_file: PathBuf,
    /// Its private key, PEM.
    pub(crate) key_file: PathBuf,
    /// The members at first boot, this node among them; later the replicated state rules.
    #[serde(default)]
    pub(crate) members: Vec<Member>,
    /// Further addresses of other nodes, by node number, from `serve --peer-address`.
    #[serde(skip)]
    pub(crate) also_at: Vec<(u64, PeerAddress)>,
}

/// One `[[peer.members]]`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Member {
    /// Its raft id: its number, and its incarnation in the upper 32 bits.
    pub(crate) id: u64,
    /// Its address for the other nodes.
    pub(crate) address: PeerAddress,
}

/// The `[log]` table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Log {
    /// Octets of log after which a checkpoint is written, unless the last one was larger.
    pub(crate) checkpoint_bytes: u64,
    /// Entries that stay behind a checkpoint; a node that was away for longer is sent the checkpoint.
    pub(crate) keep_entries: u64,
    /// Octets of log that stay behind a checkpoint at most.
    pub(crate) keep_bytes: u64,
    /// Seconds between two scrubs of log and checkpoints; 0: never.
    #[serde(skip_serializing_if = "is_scrub_default")]
    pub(crate) scrub_interval_s: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
const fn is_scrub_default(interval_s: &u64) -> bool {
    *interval_s == SCRUB_INTERVAL_S
}

impl Default for Log {
    fn default() -> Self {
        let log = LogConfig::default();
        Self {
            checkpoint_bytes: log.checkpoint_due_bytes,
            keep_entries: log.entries_behind_checkpoint,
            keep_bytes: log.bytes_behind_checkpoint,
            scrub_interval_s: SCRUB_INTERVAL_S,
        }
    }
}

impl Log {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// As the log of a replica wants it, where its newest entries may take so much memory, and so may former versions
    /// of zones while a checkpoint is written.
    pub(crate) fn to_sizes(&self, memory_bytes_max: u64) -> LogConfig {
        let log = LogConfig::default();
        LogConfig {
            held_while_checkpoint: log.held_while_checkpoint.min(memory_bytes_max),
            tail_bytes: log.tail_bytes.min(memory_bytes_max.try_into().unwrap_or(usize::MAX)),
            checkpoint_due_bytes: self.checkpoint_bytes,
            entries_behind_checkpoint: self.keep_entries,
            bytes_behind_checkpoint: self.keep_bytes,
            ..log
        }
    }
}

/// Every table and its keys, for the search for the nearest one. A test holds it to the structs above.
const TABLES: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "id",
            "incarnation",
            "joined",
            "dir",
            "data_key_file",
            "wrapping_key_file",
            "log_level",
            "sandbox",
            "dns",
            "api",
            "peer",
            "log",
            "audit",
            "zones",
        ],
    ),
    (
        "dns",
        &[
            "listen",
            "udp_workers",
            "udp_payload",
            "nsid",
            "chaos_id",
            "chaos_version",
            "cookie_secrets_file",
            "rate_limit",
            "tcp",
            "transfer",
            "tls",
        ],
    ),
    ("dns.rate_limit", RateLimit::KEYS),
    (
        "dns.tcp",
        &[
            "connections_max",
            "connections_per_client_max",
            "idle_ms",
            "memory_bytes_max",
            "handshakes_per_second",
            "handshakes_burst",
        ],
    ),
    ("dns.transfer", Transfer::KEYS),
    ("dns.tls", Tls::KEYS),
    ("api", &["listen", "token_file", "socket", "hosts"]),
    ("peer", &["listen", "advertise", "ca_file", "cert_file", "key_file", "members"]),
    ("peer.members", &["id", "address"]),
    ("log", &["checkpoint_bytes", "keep_entries", "keep_bytes", "scrub_interval_s"]),
    ("audit", Audit::KEYS),
    ("zones", Zones::KEYS),
];

const fn udp_payload_default() -> u16 {
    UDP_PAYLOAD_DEFAULT
}

impl Config {
    /// Reads `file`; paths in it that are relative start at its directory.
    pub(crate) fn load(file: &Path) -> Result<Self, Problem> {
        let octets = crate::files::read_bounded(file, SMALL_FILE_BYTES_MAX).map_err(|error| {
            let hint = if error.kind() == std::io::ErrorKind::PermissionDenied {
                crate::node::system::access_hint("read")
            } else {
                "name an existing file with --config, or make a cluster with `catamaran up` or `catamaran init`"
                    .to_owned()
            };
            Problem::new(Exit::Input, "the configuration cannot be read", error).at(file.display()).hint(hint)
        })?;
        let text = String::from_utf8(octets)
            .map_err(|_| Problem::new(Exit::Input, "the configuration is not UTF-8", "TOML is").at(file.display()))?;
        Ok(Self::parse(&text, file)?.based(file.parent().unwrap_or_else(|| Path::new("."))))
    }

    /// Relative paths start at `base`.
    pub(crate) fn based(mut self, base: &Path) -> Self {
        let peer = &mut self.peer;
        for path in [
            &mut self.dir,
            &mut self.data_key_file,
            &mut self.api.token_file,
            &mut peer.ca_file,
            &mut peer.cert_file,
            &mut peer.key_file,
        ] {
            *path = base.join(&*path);
        }
        let optional = [&mut self.wrapping_key_file, &mut self.dns.cookie_secrets_file, &mut self.api.socket];
        for file in optional.into_iter().flatten() {
            *file = base.join(&*file);
        }
        if let Some(tls) = &mut self.dns.tls {
            tls.cert_file = base.join(&tls.cert_file);
            tls.key_file = base.join(&tls.key_file);
        }
        self
    }

    /// Reads the text of `file`.
    pub(crate) fn parse(text: &str, file: &Path) -> Result<Self, Problem> {
        let wrong = |span: Option<std::ops::Range<usize>>, why: &str| {
            let place = match span {
                Some(span) => format!("{}:{}", file.display(), line_at(text, span.start)),
                None => file.display().to_string(),
            };
            Problem::new(Exit::Input, "the configuration is wrong", why).at(place)
        };
        let table = toml::de::DeTable::parse(text).map_err(|error| wrong(error.span(), error.message()))?;
        if let Some((key, span, table)) = unknown_key("", table.get_ref()) {
            let known = TABLES.iter().find(|(path, _)| *path == table).map_or(&[][..], |(_, keys)| keys);
            let scope = if table.is_empty() { "at the top level".to_owned() } else { format!("in [{table}]") };
            let problem = wrong(Some(span), &format!("unknown key `{key}` {scope}"));
            return Err(match nearest::nearest(&key, known) {
                Some(known) => problem.hint(format!("did you mean `{known}`?")),
                None => problem.hint(format!("known keys here: {}", known.join(", "))),
            });
        }
        let config: Self = toml::from_str(text).map_err(|error| wrong(error.span(), error.message()))?;
        config.check().map_err(|(key, why)| wrong(key_at(text, key), &why))?;
        Ok(config)
    }

    /// Whether clients can ask this node anything.
    pub(crate) fn answers_queries(&self) -> bool {
        !self.dns.listen.is_empty() || self.dns.tls.as_ref().is_some_and(tls::Tls::is_open)
    }

    /// The file of the data keys, and what wraps them.
    pub(crate) fn data_key(&self) -> DataKeyFile {
        DataKeyFile::new(&self.data_key_file, self.wrapping_key_file.as_deref())
    }

    /// The Unix socket of the API.
    pub(crate) fn api_socket(&self) -> PathBuf {
        self.api.socket.clone().unwrap_or_else(|| socket_of(&self.dir))
    }

    /// This node as raft knows it.
    pub(crate) const fn raft_id(&self) -> u64 {
        (self.incarnation as u64) << 32 | self.id as u64
    }

    /// The address that other nodes connect to; `None` if the configuration does not determine it.
    pub(crate) fn advertised(&self) -> Option<PeerAddress> {
        let listen = PeerAddress::from(self.peer.listen);
        self.peer.advertise.clone().or_else(|| Some(listen).filter(PeerAddress::is_reachable))
    }

    /// As TOML text, comments included.
    pub(crate) fn to_text(&self) -> String {
        let body = toml::to_string(self).expect("a configuration is plain tables, numbers and strings");
        format!("# Local to one node; zones, keys and grants are replicated (see `catamaran zone --help`).\n{body}")
    }

    /// What types cannot say; names the key at fault.
    fn check(&self) -> Result<(), (&'static str, String)> {
        if self.id == 0 {
            return Err(("id", "`id` must be 1 or more".into()));
        }
        if self.dns.listen.len() > LISTEN_ADDRESSES_MAX {
            return Err(("listen", format!("`dns.listen` takes at most {LISTEN_ADDRESSES_MAX} addresses")));
        }
        if self.dns.udp_workers > UDP_WORKERS_MAX {
            return Err(("udp_workers", format!("`udp_workers` must be at most {UDP_WORKERS_MAX}")));
        }
        // RFC 6891 6.2.3: values below 512 are treated as 512; above 4096 fragments are certain.
        if !(512..=UDP_RESPONSE_OCTETS_MAX).contains(&usize::from(self.dns.udp_payload)) {
            return Err(("udp_payload", format!("`udp_payload` must be 512 to {UDP_RESPONSE_OCTETS_MAX}")));
        }
        if self.dns.tcp.idle_ms == 0
            || self.dns.tcp.connections_max == 0
            || self.dns.tcp.connections_per_client_max == 0
        {
            return Err(("tcp", "limits of [dns.tcp] must be 1 or more".into()));
        }
        if self.dns.tcp.handshakes_per_second > RATE_LIMIT_MAX {
            return Err(("handshakes_per_second", format!("`handshakes_per_second` must be at most {RATE_LIMIT_MAX}")));
        }
        if !(1..=RATE_LIMIT_MAX).contains(&self.dns.tcp.handshakes_burst) {
            return Err(("handshakes_burst", format!("`handshakes_burst` must be 1 to {RATE_LIMIT_MAX}")));
        }
        if self.dns.tcp.memory_bytes_max < CONNECTIONS_MEMORY_BYTES_MIN {
            let least = CONNECTIONS_MEMORY_BYTES_MIN;
            return Err(("memory_bytes_max", format!("`memory_bytes_max` must be {least} or more")));
        }
        self.dns.tls.as_ref().map_or(Ok(()), Tls::check)?;
        self.dns.rate_limit.check()?;
        self.dns.transfer.check()?;
        if self.api.hosts.len() > API_HOSTS_MAX {
            return Err(("hosts", format!("`api.hosts` takes at most {API_HOSTS_MAX} names")));
        }
        self.audit.check()?;
        self.zones.check()?;
        if self.log.checkpoint_bytes < CHECKPOINT_BYTES_MIN {
            return Err(("checkpoint_bytes", format!("`checkpoint_bytes` must be {CHECKPOINT_BYTES_MIN} or more")));
        }
        if self.peer.advertise.as_ref().is_some_and(|address| !address.is_reachable()) {
            return Err(("advertise", "`peer.advertise` must be an address that other nodes can connect to".into()));
        }
        let mut ids: Vec<u64> = self.peer.members.iter().map(|member| member.id).collect();
        ids.sort_unstable();
        if ids.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(("members", "two members have the same `id`".into()));
        }
        if !ids.is_empty() && !ids.contains(&self.raft_id()) {
            return Err(("members", format!("node {} is not among the members", self.id)));
        }
        Ok(())
    }
}

/// The first key that no table knows: its text, place, and the path of its table.
fn unknown_key(path: &str, table: &toml::de::DeTable<'_>) -> Option<(String, std::ops::Range<usize>, String)> {
    let known = TABLES.iter().find(|(known, _)| *known == path)?.1;
    for (key, value) in table {
        if !known.contains(&&**key.get_ref()) {
            return Some((key.get_ref().to_string(), key.span(), path.to_owned()));
        }
        let below = if path.is_empty() { key.get_ref().to_string() } else { format!("{path}.{}", key.get_ref()) };
        let found = match value.get_ref() {
            toml::de::DeValue::Table(table) => unknown_key(&below, table),
            toml::de::DeValue::Array(items) => {
                items.iter().filter_map(|item| item.get_ref().as_table()).find_map(|table| unknown_key(&below, table))
            }
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// The line, from 1, of an octet.
fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|&&octet| octet == b'\n').count() + 1
}

/// Where a key stands, for errors about its value.
fn key_at(text: &str, key: &str) -> Option<std::ops::Range<usize>> {
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let (before, _) = line.split_once(['=', ']']).unwrap_or(("", ""));
        let path = before.trim_start_matches('[').trim();
        if path.rsplit('.').next() == Some(key) {
            return Some(offset..offset + line.len());
        }
        offset += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"id = 1
incarnation = 0
joined = false
dir = "."
data_key_file = "../data.key"
wrapping_key_file = "w"
log_level = "debug"
sandbox = "off"
[dns]
listen = ["127.0.0.1:5301", "[::1]:5301"]
udp_workers = 2
udp_payload = 1232
nsid = "a"
chaos_id = "b"
chaos_version = "c"
cookie_secrets_file = "cookies"
[dns.tcp]
connections_max = 5
connections_per_client_max = 4
idle_ms = 3
memory_bytes_max = 1048576
handshakes_per_second = 1
handshakes_burst = 2
[dns.tls]
cert_file = "c.pem"
key_file = "c.key"
dot = ["127.0.0.1:853"]
doh = ["127.0.0.1:443"]
doq = ["[::1]:853"]
versions = ["1.2", "1.3"]
[api]
listen = "127.0.0.1:8054"
token_file = "../api.token"
socket = "s"
hosts = ["node-1.example"]
[peer]
listen = "127.0.0.1:21001"
advertise = "node-1.example:21001"
ca_file = "../ca.pem"
cert_file = "node.pem"
key_file = "node.key"
[[peer.members]]
id = 1
address = "127.0.0.1:21001"
[log]
checkpoint_bytes = 65536
keep_entries = 100
keep_bytes = 5
scrub_interval_s = 6
[dns.rate_limit]
per_second = 5
burst = 6
all_per_second = 7
all_burst = 8
slip = 2
exempt = ["10.0.0.0/8"]
ipv4_prefix = 32
ipv6_prefix = 64
address_per_second = 9
address_burst = 10
[dns.transfer]
bytes_per_second_min = 7
grace_ms = 8
held_bytes_max = 9
[audit]
bytes_max = 1048577
[zones]
memory_bytes_max = 16777217
key_growth_bytes_max = 10
"#;

    fn error(text: &str) -> String {
        Config::parse(text, Path::new("n.toml")).unwrap_err().to_string()
    }

    /// The line of GOOD on which this stands first.
    fn line_of(part: &str) -> usize {
        GOOD[..GOOD.find(part).unwrap()].matches('\n').count() + 1
    }

    #[test]
    fn a_node_may_have_no_address_for_clients() {
        let file = Path::new("node/catamaran.toml");
        let of = |listen: &str| Config::parse(&GOOD.replace(r#"["127.0.0.1:5301", "[::1]:5301"]"#, listen), file);
        let encrypted = of("[]").unwrap();
        // It has some for DNS over TLS.
        assert!(encrypted.dns.listen.is_empty() && encrypted.answers_queries());
        let mut none = encrypted;
        none.dns.tls = None;
        assert!(!none.answers_queries() && Config::parse(&none.to_text(), file).unwrap() == none);
        let many = format!("{:?}", vec!["127.0.0.1:53"; LISTEN_ADDRESSES_MAX + 1]);
        assert!(of(&many).unwrap_err().why.contains("takes at most"));
    }

    #[test]
    fn the_table_of_keys_is_that_of_the_structs() {
        let config = Config::parse(GOOD, Path::new("n.toml")).unwrap();
        let text = config.to_text();
        assert_eq!(Config::parse(&text, Path::new("n.toml")).unwrap(), config, "{text}");
        // GOOD names every key, and each is needed or known: taking a key's line out never makes another unknown.
        let count: usize = TABLES.iter().map(|(_, keys)| keys.len()).sum();
        let keys = GOOD.lines().filter(|line| line.contains('=')).count();
        let tables = GOOD.lines().filter(|line| line.starts_with('[')).count();
        assert_eq!(count, keys + tables);
    }

    #[test]
    fn an_unknown_key_names_the_nearest_with_file_and_line() {
        let text = error(&GOOD.replace("udp_payload = 1232", "udp_paylaod = 1232"));
        assert!(text.contains("n.toml:12"), "{text}");
        assert!(text.contains("unknown key `udp_paylaod` in [dns]"), "{text}");
        assert!(text.contains("did you mean `udp_payload`?"), "{text}");
        let text = error(&GOOD.replace("address =", "adress ="));
        assert!(text.contains(&format!("n.toml:{}", line_of("address ="))) && text.contains("`address`"), "{text}");
        let text = error(&GOOD.replace("[api]", "[apis]"));
        assert!(text.contains(&format!("n.toml:{}", line_of("[api]"))) && text.contains("`api`"), "{text}");
        let text = error(&GOOD.replace("nsid", "zzzzzzzzzzzzzzzz"));
        assert!(text.contains("known keys here: listen, udp_workers"), "{text}");
    }

    #[test]
    fn the_guide_for_operators_names_every_key() {
        let guide = include_str!("../../../../docs/operating.md");
        for (table, keys) in TABLES.iter().filter(|(table, _)| *table != "peer.members") {
            for key in keys.iter().filter(|key| !TABLES.iter().any(|(other, _)| other == *key)) {
                let path = if table.is_empty() { (*key).to_owned() } else { format!("{table}.{key}") };
                let is_table = TABLES.iter().any(|(other, _)| *other == path);
                assert!(
                    is_table || guide.contains(&format!("`{path}`")) || guide.contains(&format!("`[[{path}]]`")),
                    "{path}"
                );
            }
        }
    }

    #[test]
    fn wrong_values_name_their_line() {
        for (from, to, why) in [
            ("udp_payload = 1232", "udp_payload = 100", "512 to 4096"),
            ("id = 1\ninc", "id = 0\ninc", "1 or more"),
            ("id = 1\naddress", "id = 7\naddress", "not among the members"),
            ("127.0.0.1:8054", "localhost:8054", "socket address"),
            ("idle_ms = 3", "idle_ms = 0", "1 or more"),
            ("checkpoint_bytes = 65536", "checkpoint_bytes = 1", "65536 or more"),
            ("127.0.0.1:443", "127.0.0.1:853", "for both `dot` and `doh`"),
            ("[\"1.2\", \"1.3\"]", "[]", "needs"),
            ("[\"1.2\", \"1.3\"]", "[\"1.1\"]", "1.2"),
            ("udp_workers = 2", "udp_workers = ", ""),
            ("node-1.example:21001", "0.0.0.0:21001", "can connect to"),
            ("node-1.example:21001", "node-1.example", "not HOST:PORT"),
            ("handshakes_burst = 2", "handshakes_burst = 0", "1 to 100000000"),
            ("memory_bytes_max = 1048576", "memory_bytes_max = 1000", "1048576 or more"),
            ("all_burst = 8", "all_burst = 0", "1 to 100000000"),
            ("all_per_second = 7", "all_per_second = 100000001", "at most 100000000"),
            ("address_burst = 10", "address_burst = 0", "1 to 100000000"),
            ("held_bytes_max = 9", "held_bytes_max = 0", "1 or more"),
            ("memory_bytes_max = 16777217", "memory_bytes_max = 5", "16777216 or more"),
            ("bytes_max = 1048577", "bytes_max = 1048575", "1048576 or more"),
            ("bytes_per_second_min = 7", "bytes_per_second_min = 0", "1 or more"),
        ] {
            let text = error(&GOOD.replace(from, to));
            // What several keys of a table share is told at its head.
            let table = GOOD[..GOOD.find(from).unwrap()].rfind("\n[").map_or(1, |head| line_of(&GOOD[head + 1..]));
            let is_at = |line: usize| text.contains(&format!("n.toml:{line}\n"));
            assert!((is_at(line_of(from)) || is_at(table)) && text.contains(why), "{to}: {text}");
        }
        assert!(error(&GOOD.replace("dir = \".\"\n", "")).contains("missing field `dir`"));
    }
}
