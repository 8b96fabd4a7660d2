//! The sandbox of a node: the files and ports that its configuration names.

use crate::tls::session::PeerFiles;
use crate::tls::validity::is_issued_by;
use config::Config;
use config::files::read_bounded;
use config::limits::SMALL_FILE_BYTES_MAX;
use config::tls::Tls;
use process::sandbox::{self, Files};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::path::Path;

/// Enters the sandbox of a node, if its configuration enables that. `file` is the configuration file.
pub(super) fn enter(config: &Config, file: &Path) {
    if !config.sandbox.is_on() {
        tracing::warn!("the sandbox is off (`sandbox` in the configuration)");
        return;
    }
    // The sockets for peers and operators are open already. Those for clients are opened when the node can serve.
    let tls = config.dns.tls.iter().flat_map(|tls| [&tls.dot, &tls.doh, &tls.doq]).flatten();
    let later = config.dns.listen.iter().chain(tls).copied();
    sandbox::enter_as_node(&config.dir, later, &files_of(config, file));
}

/// The files of a node.
fn files_of(config: &Config, file: &Path) -> Files {
    let mut files = Files::default();
    // SIGHUP reads the configuration again.
    files.read_beside(file);
    // The lock, the audit log and marker files are beside the data.
    files.written.push(config.dir.clone());
    files.write_beside(&config.dir);
    // The node itself replaces data keys, CAs and its certificate.
    files.write_beside(&config.data_key_file);
    config.wrapping_key_file.iter().for_each(|file| files.write_beside(file));
    let peer = &config.peer;
    [&peer.ca_file, &peer.cert_file, &peer.key_file].into_iter().for_each(|file| files.write_beside(file));
    files.read_beside(&config.api.token_file);
    config.dns.cookie_secrets_file.iter().for_each(|file| files.read_beside(file));
    if let Some(tls) = &config.dns.tls {
        let is_ours = is_of_cluster(tls, config);
        for file in [&tls.cert_file, &tls.key_file] {
            if is_ours { files.write_beside(file) } else { files.read_beside(file) }
        }
    }
    files.read_system();
    files
}

/// Whether the cluster issued the certificate for clients. Then the node renews it.
fn is_of_cluster(tls: &Tls, config: &Config) -> bool {
    let peer = &config.peer;
    let files = PeerFiles { ca: peer.ca_file.clone(), cert: peer.cert_file.clone(), key: peer.key_file.clone() };
    let Ok(pem) = read_bounded(&tls.cert_file, SMALL_FILE_BYTES_MAX) else { return false };
    let Ok(certificate) = CertificateDer::from_pem_slice(&pem) else { return false };
    files.roots().is_ok_and(|roots| roots.iter().any(|root| is_issued_by(&certificate, root)))
}
