//! The configuration of one node, in TOML. Everything else (zones, keys, grants) is replicated state.

// The keys of all tables, and the search for the nearest one.
mod keys;
pub(crate) mod nearest;
// One file for each table.
mod api;
pub(crate) mod audit;
mod dns;
mod log;
mod peer;
pub(crate) mod rate_limit;
pub(crate) mod sandbox;
mod tcp;
pub(crate) mod tls;
pub(crate) mod transfer;
pub(crate) mod zones;
// Values of keys.
pub(crate) mod address;
pub(crate) mod subnet;

pub(crate) use api::Api;
pub(crate) use dns::Dns;
pub(crate) use log::Log;
pub(crate) use peer::{Member, Peer};
pub(crate) use tcp::Tcp;

use crate::cli::LogLevel;
use crate::files::data_key::DataKeyFile;
use crate::files::layout::socket_of;
use crate::limits::SMALL_FILE_BYTES_MAX;
use crate::problem::{Exit, Problem};
use address::PeerAddress;
use audit::Audit;
use keys::{TABLES, key_at, line_at, unknown_key};
use sandbox::Sandbox;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use zones::Zones;

/// The configuration of one node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// This node's number in the cluster, from 1.
    pub(crate) id: u32,
    /// How many earlier nodes had this number, for a node that replaces one that lost its disk.
    #[serde(default)]
    pub(crate) incarnation: u32,
    /// Whether the node joined an existing cluster. It starts empty and gets its state from the other nodes.
    #[serde(default)]
    pub(crate) joined: bool,
    /// Directory of log and checkpoints.
    pub(crate) dir: PathBuf,
    /// File of the key that seals secrets in log and checkpoints. All nodes of a cluster have the same key.
    pub(crate) data_key_file: PathBuf,
    /// File of this node's key that encrypts the data key. Default: `wrapping.key` beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wrapping_key_file: Option<PathBuf>,
    /// Log level. `--log` on the command line overrides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) log_level: Option<LogLevel>,
    /// Whether the process drops privileges that it does not need. Default: on.
    #[serde(default, skip_serializing_if = "Sandbox::is_on")]
    pub(crate) sandbox: Sandbox,
    /// DNS service.
    pub(crate) dns: Dns,
    /// HTTP API.
    pub(crate) api: Api,
    /// Connections between nodes.
    pub(crate) peer: Peer,
    /// Size limits of the log.
    #[serde(default, skip_serializing_if = "Log::is_default")]
    pub(crate) log: Log,
    /// Size limit of the audit log.
    #[serde(default, skip_serializing_if = "Audit::is_default")]
    pub(crate) audit: Audit,
    /// Memory limits of zones.
    #[serde(default, skip_serializing_if = "Zones::is_default")]
    pub(crate) zones: Zones,
}

impl Config {
    /// Reads `file`. Relative paths in it start at its directory.
    pub(crate) fn load(file: &Path) -> Result<Self, Problem> {
        let bytes = crate::files::read_bounded(file, SMALL_FILE_BYTES_MAX).map_err(|error| {
            let hint = if error.kind() == std::io::ErrorKind::PermissionDenied {
                crate::node::system::access_hint("read")
            } else {
                "give an existing file with --config, or create a cluster with `catamaran up` or `catamaran init`"
                    .to_owned()
            };
            Problem::new(Exit::Input, "cannot read the configuration", error).at(file.display()).hint(hint)
        })?;
        let text = String::from_utf8(bytes).map_err(|_| {
            Problem::new(Exit::Input, "cannot read the configuration", "it is not UTF-8").at(file.display())
        })?;
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
            Problem::new(Exit::Input, "invalid configuration", why).at(place)
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

    /// Whether the node has addresses for DNS clients.
    pub(crate) fn answers_queries(&self) -> bool {
        !self.dns.listen.is_empty() || self.dns.tls.as_ref().is_some_and(tls::Tls::is_open)
    }

    /// The file of the data keys, and the key that encrypts it.
    pub(crate) fn data_key(&self) -> DataKeyFile {
        DataKeyFile::new(&self.data_key_file, self.wrapping_key_file.as_deref())
    }

    /// The Unix socket of the API.
    pub(crate) fn api_socket(&self) -> PathBuf {
        self.api.socket.clone().unwrap_or_else(|| socket_of(&self.dir))
    }

    /// This node's raft id.
    pub(crate) const fn raft_id(&self) -> u64 {
        (self.incarnation as u64) << 32 | self.id as u64
    }

    /// The address that other nodes connect to; `None` if the configuration does not determine it.
    pub(crate) fn advertised(&self) -> Option<PeerAddress> {
        let listen = PeerAddress::from(self.peer.listen);
        self.peer.advertise.clone().or_else(|| Some(listen).filter(PeerAddress::is_reachable))
    }

    /// As TOML text, with a comment.
    pub(crate) fn to_text(&self) -> String {
        let body = toml::to_string(self).expect("a configuration is plain tables, numbers and strings");
        format!("# Local to one node; zones, keys and grants are replicated (see `catamaran zone --help`).\n{body}")
    }

    /// Checks the values. An error names the key.
    fn check(&self) -> Result<(), (&'static str, String)> {
        if self.id == 0 {
            return Err(("id", "`id` must be 1 or more".into()));
        }
        self.dns.check()?;
        self.api.check()?;
        self.audit.check()?;
        self.zones.check()?;
        self.log.check()?;
        self.peer.check(self.id, self.raft_id())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
