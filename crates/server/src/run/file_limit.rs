//! The limit of open files.

use crate::listen::client_sockets::client_files;
use config::Config;

/// Open files besides those for clients: log, checkpoints, peers, the API.
const OTHER_FILES: u64 = 768;

/// Warns if the limit of open files is too low for the configured connections and sockets.
pub(super) fn check_file_limit(config: &Config, files_max: u64) {
    let connections_max = config.dns.tcp.connections_max;
    let wanted = (connections_max + client_files(config)) as u64 + OTHER_FILES;
    if files_max < wanted {
        tracing::warn!(
            files_max,
            wanted,
            connections_max,
            "the limit of open files is too low: raise it (LimitNOFILE of systemd, `ulimit -n`), or lower \
             dns.tcp.connections_max"
        );
    }
}
