//! SIGHUP reloads the configuration and the files that it names, and applies the settings that can change at runtime.
//!
//! A wrong configuration changes nothing. The log names the settings that need a restart.

use super::file_limit::check_file_limit;
use crate::answer::cookies::SecretSource;
use crate::answer::limiter::shared::SharedRateLimit;
use crate::audit_log::AuditCounters;
use crate::listen::handler::ConnectionLimits;
use crate::sys::open_files;
use crate::threads::spawn;
use crate::tls::certificate::Certificate;
use config::Config;
use config::log_level::LogLevel;
use process::log;
use process::problem::Problem;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// The sources of the settings, and the reload signals.
pub(crate) struct Source {
    pub(crate) file: PathBuf,
    /// The log level of the command line, which overrides the one in the file.
    pub(crate) level: Option<LogLevel>,
    pub(crate) hangups: Receiver<()>,
}

/// The parts of a node that a reload can change.
#[derive(Clone)]
pub(super) struct Reload {
    /// The configuration in effect.
    pub(super) config: Config,
    pub(super) rate_limit: Arc<SharedRateLimit>,
    pub(super) connections: ConnectionLimits,
    pub(super) audit: Arc<AuditCounters>,
    pub(super) certificate: Option<Arc<Certificate>>,
    pub(super) cookies: SecretSource,
}

impl Reload {
    /// Starts the thread that waits for SIGHUP.
    pub(super) fn start(mut self, source: Source) -> Result<(), Problem> {
        let wait = move || {
            while source.hangups.recv().is_ok() {
                self.reload(&source);
            }
        };
        spawn("reload".into(), wait).map(drop)
    }

    fn reload(&mut self, source: &Source) {
        let mut new = match Config::load(&source.file) {
            Ok(new) => new,
            Err(problem) => {
                log::say(problem);
                tracing::error!("cannot reload the configuration: all settings stay as they were");
                return;
            }
        };
        new.zones.nodes_here = self.config.zones.nodes_here;
        // The other settings keep their old values, so each reload lists them until the node restarts.
        let next = with_live(&self.config, &new);
        self.apply(&next, source.level);
        let (live, restart) = (changed_keys(&self.config, &next).join(", "), changed_keys(&next, &new).join(", "));
        tracing::info!(changed = live, "the configuration was reloaded");
        if !restart.is_empty() {
            tracing::warn!(settings = restart, "these settings take effect when the node is started again");
        }
        self.config = next;
    }

    fn apply(&self, new: &Config, level: Option<LogLevel>) {
        log::set_level(level.or(new.log_level).unwrap_or_default().into());
        if new.dns.rate_limit != self.config.dns.rate_limit {
            self.rate_limit.set(new.dns.rate_limit.clone());
        }
        let tcp = &new.dns.tcp;
        if tcp.connections_max > self.config.dns.tcp.connections_max {
            check_file_limit(new, open_files::raise_file_limit());
        }
        self.connections.connections.set_limits(tcp.connections_max, tcp.connections_per_client_max);
        self.connections.memory.set_max(tcp.memory_bytes_max);
        self.audit.set_bytes_max(new.audit.bytes_max);
        // The file names stay those of the start; only the contents are read again.
        if let Some(certificate) = &self.certificate {
            certificate.refresh();
        }
        if let SecretSource::File(secrets) = &self.cookies {
            secrets.reload();
        }
    }
}

/// `old` with the settings of `new` that take effect without a restart.
fn with_live(old: &Config, new: &Config) -> Config {
    let mut next = old.clone();
    next.log_level = new.log_level;
    next.audit = new.audit;
    next.dns.rate_limit = new.dns.rate_limit.clone();
    let (tcp, new) = (&mut next.dns.tcp, &new.dns.tcp);
    tcp.connections_max = new.connections_max;
    tcp.connections_per_client_max = new.connections_per_client_max;
    tcp.memory_bytes_max = new.memory_bytes_max;
    next
}

/// The full names of the settings whose values differ.
fn changed_keys(old: &Config, new: &Config) -> Vec<String> {
    let table = |config| toml::Table::try_from(config).unwrap_or_default();
    let mut keys = Vec::new();
    compare("", &table(old), &table(new), &mut keys);
    keys
}

fn compare(path: &str, old: &toml::Table, new: &toml::Table, keys: &mut Vec<String>) {
    let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for name in names {
        let key = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match (old.get(name), new.get(name)) {
            (Some(toml::Value::Table(old)), Some(toml::Value::Table(new))) => compare(&key, old, new, keys),
            (old, new) if old != new => keys.push(key),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const TEXT: &str = "id = 1\ndir = \"d\"\ndata_key_file = \"k\"\n[dns]\nlisten = []\n[api]\n\
                        listen = \"127.0.0.1:1\"\ntoken_file = \"t\"\n[peer]\nlisten = \"127.0.0.1:2\"\n\
                        ca_file = \"a\"\ncert_file = \"b\"\nkey_file = \"c\"\n";

    #[test]
    fn live_settings_are_taken_over_and_the_others_are_named() {
        let old = Config::parse(TEXT, Path::new("c")).unwrap();
        let text = TEXT.replace("id = 1", "id = 1\nlog_level = \"debug\"").replace(
            "listen = []",
            "listen = []\ntcp = { connections_max = 5, idle_ms = 7 }\nrate_limit = { slip = 3 }",
        ) + "[audit]\nbytes_max = 2000000\n";
        let new = Config::parse(&text, Path::new("c")).unwrap();
        assert!(changed_keys(&old, &old).is_empty());
        let keys = changed_keys(&old, &new);
        let of_default = ["audit", "dns.rate_limit.slip", "dns.tcp.connections_max", "dns.tcp.idle_ms", "log_level"];
        assert_eq!(keys, of_default);
        let next = with_live(&old, &new);
        let live = ["audit", "dns.rate_limit.slip", "dns.tcp.connections_max", "log_level"];
        assert_eq!(changed_keys(&old, &next), live);
        assert_eq!(changed_keys(&next, &new), ["dns.tcp.idle_ms"]);
    }
}
