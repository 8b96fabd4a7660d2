//! What the daemon and the commands share: `catamaran.toml`, the other files of a node, and the JSON of the API.
//!
//! The configuration is local to one node. Everything else (zones, keys, grants) is replicated state.
#![forbid(unsafe_code)]

pub mod limits;
// The other files of a node, and zone files.
pub mod files;
// The JSON of the API.
pub mod api_types;
// Dates in output.
pub mod date;
// The keys of all tables.
mod keys;
// One file for each table.
mod api;
pub mod audit;
mod dns;
mod log;
pub mod log_level;
mod peer;
pub mod rate_limit;
pub mod sandbox;
mod tcp;
pub mod tls;
pub mod transfer;
pub mod zones;
// Values of keys.
pub mod address;
pub mod subnet;

pub use api::Api;
pub use dns::Dns;
pub use log::Log;
pub use peer::{Member, Peer};
pub use tcp::Tcp;

use crate::files::data_key::DataKeyFile;
use crate::files::layout::socket_of;
use crate::limits::SMALL_FILE_BYTES_MAX;
use address::PeerAddress;
use audit::Audit;
use keys::{TABLES, key_at};
use log_level::LogLevel;
use process::problem::{Exit, Problem};
use sandbox::Sandbox;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use toml_keys::{KnownKeys, line_at};
use zones::Zones;

/// The configuration of one node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// This node's number in the cluster, from 1.
    pub id: u32,
    /// Number of earlier nodes with the same `id`. A node that replaces a lost node has a higher one.
    #[serde(default)]
    pub incarnation: u32,
    /// Whether the node joined an existing cluster. It starts empty and gets its state from the other nodes.
    #[serde(default)]
    pub joined: bool,
    /// Directory of log and checkpoints.
    pub dir: PathBuf,
    /// File of the key that seals secrets in log and checkpoints. All nodes of a cluster have the same key.
    pub data_key_file: PathBuf,
    /// File of this node's key that encrypts the data key. Default: `wrapping.key` beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrapping_key_file: Option<PathBuf>,
    /// Log level. `--log` on the command line overrides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_level: Option<LogLevel>,
    /// Whether the process drops privileges that it does not need. Default: on.
    #[serde(default, skip_serializing_if = "Sandbox::is_on")]
    pub sandbox: Sandbox,
    /// DNS service.
    pub dns: Dns,
    /// HTTP API.
    pub api: Api,
    /// Connections between nodes.
    pub peer: Peer,
    /// Size limits of the log.
    #[serde(default, skip_serializing_if = "Log::is_default")]
    pub log: Log,
    /// Size limit of the audit log.
    #[serde(default, skip_serializing_if = "Audit::is_default")]
    pub audit: Audit,
    /// Memory limits of zones.
    #[serde(default, skip_serializing_if = "Zones::is_default")]
    pub zones: Zones,
}

impl Config {
    /// Reads `file`. Relative paths in it start at its directory.
    pub fn load(file: &Path) -> Result<Self, Problem> {
        let bytes = crate::files::read_bounded(file, SMALL_FILE_BYTES_MAX).map_err(|error| {
            let hint = if error.kind() == std::io::ErrorKind::PermissionDenied {
                process::user::access_hint("read")
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
    pub fn based(mut self, base: &Path) -> Self {
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
    pub fn parse(text: &str, file: &Path) -> Result<Self, Problem> {
        let wrong = |span: Option<std::ops::Range<usize>>, why: &str| {
            let place = match span {
                Some(span) => format!("{}:{}", file.display(), line_at(text, span.start)),
                None => file.display().to_string(),
            };
            Problem::new(Exit::Input, "invalid configuration", why).at(place)
        };
        let table = toml::de::DeTable::parse(text).map_err(|error| wrong(error.span(), error.message()))?;
        let known = KnownKeys { tables: TABLES, renamed: &[] };
        if let Some(unknown) = known.first_unknown(table.get_ref()) {
            return Err(wrong(Some(unknown.span), &unknown.what).hint(unknown.hint));
        }
        let config: Self = toml::from_str(text).map_err(|error| wrong(error.span(), error.message()))?;
        config.check().map_err(|(key, why)| wrong(key_at(text, key), &why))?;
        Ok(config)
    }

    /// Whether the node has addresses for DNS clients.
    pub fn answers_queries(&self) -> bool {
        !self.dns.listen.is_empty() || self.dns.tls.as_ref().is_some_and(tls::Tls::is_open)
    }

    /// The file of the data keys, and the key that encrypts it.
    pub fn data_key(&self) -> DataKeyFile {
        DataKeyFile::new(&self.data_key_file, self.wrapping_key_file.as_deref())
    }

    /// The Unix socket of the API.
    pub fn api_socket(&self) -> PathBuf {
        self.api.socket.clone().unwrap_or_else(|| socket_of(&self.dir))
    }

    /// This node's raft id.
    pub const fn raft_id(&self) -> u64 {
        (self.incarnation as u64) << 32 | self.id as u64
    }

    /// The address that other nodes connect to; `None` if the configuration does not determine it.
    pub fn advertised(&self) -> Option<PeerAddress> {
        let listen = PeerAddress::from(self.peer.listen);
        self.peer.advertise.clone().or_else(|| Some(listen).filter(PeerAddress::is_reachable))
    }

    /// As TOML text, with a comment.
    pub fn to_text(&self) -> String {
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
