//! Maintains the certificate of this node, the accepted CAs and the data keys: it follows the state of the cluster,
//! renews the certificate in time, and reports the progress of this node.
//!
//! The key of the issuing CA is in the state of the cluster, and every node can open it. So a node issues its own
//! certificate, even after the old one expired. From feature level 3 on, the state pins the key of each node.
//! Connections with another key are closed, including open ones.

use super::data_keys::DataKeyManager;
use crate::limits::TRUST_COMMAND_MS;
use crate::replica_host::command_failed::CommandFailed;
use crate::replica_host::handle::ReplicaHandle;
use crate::tls::accepted_cas::{PIN_LEVEL, ca_key_of, roots_of, roots_text, step_in, step_of};
use crate::tls::ca::{Ca, NodeCertificate};
use crate::tls::session::{CurrentTls, PeerFiles, PeerTls};
use crate::tls::validity::{is_due, is_issued_by};
use config::files::token::fill_random;
use config::files::watch::Watch;
use config::files::{Readers, read_bounded, write_atomic};
use config::limits::SMALL_FILE_BYTES_MAX;
use replica::Trust;
use replica::io::{AdminCommand, AdminError, CredentialProgress, NodeId, TrustCommand};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Interval between checks of certificates, CAs and data keys.
const TRUST_LOOK_MS: u64 = 1_000;
/// The feature level that keeps the CAs in the state of the cluster.
const TRUST_LEVEL: u32 = 2;
/// Manages the certificate of one node.
pub(crate) struct CertManager {
    own: NodeId,
    files: PeerFiles,
    /// The certificate and key for clients of encrypted DNS, if there are any.
    local: Option<(PathBuf, PathBuf)>,
    tls: Arc<CurrentTls>,
    keys: DataKeyManager,
    handle: ReplicaHandle,
    watch: Watch<3>,
    /// The number of the last renewal that this node has done.
    renewal: u32,
    /// The number of the renewal that the next certificate is for.
    next_renewal: Option<u32>,
    /// The last problem that was logged, so that it is logged once.
    logged: Option<String>,
}

impl CertManager {
    pub(crate) fn new(
        own: NodeId,
        files: PeerFiles,
        local: Option<(PathBuf, PathBuf)>,
        tls: Arc<CurrentTls>,
        keys: DataKeyManager,
        handle: ReplicaHandle,
    ) -> Self {
        let watch = Watch::new([files.ca.clone(), files.cert.clone(), files.key.clone()]);
        Self { own, files, local, tls, keys, handle, watch, renewal: 0, next_renewal: None, logged: None }
    }

    /// Runs forever.
    pub(crate) async fn run(mut self) {
        let mut changes = self.handle.shared().trust.subscribe();
        loop {
            let trust = changes.borrow_and_update().clone();
            if !self.handle.shared().removal.is_removed() {
                let outcome = self.look(&trust).await;
                self.log_problem(outcome);
            }
            // The sender lives as long as the handle.
            let _ = tokio::time::timeout(Duration::from_millis(TRUST_LOOK_MS), changes.changed()).await;
        }
    }

    fn log_problem(&mut self, outcome: io::Result<()>) {
        let problem = outcome.err().map(|error| error.to_string());
        if let Some(problem) = problem.as_ref().filter(|_| problem != self.logged) {
            tracing::warn!(%problem, "cannot update the certificates between nodes; will retry");
        }
        self.logged = problem;
    }

    async fn look(&mut self, trust: &Trust) -> io::Result<()> {
        let Some(issuing) = trust.issuing() else {
            self.follow_files();
            return self.publish_ca(trust).await;
        };
        // The key of the CA may be sealed with a data key that this node does not have yet.
        if issuing.key.is_none() {
            self.keys.follow(trust, &self.tls, &self.handle).await?;
        }
        let closed = || io::Error::other("cannot open the key of the cluster's CA with the data key");
        let key = issuing.key.as_ref().ok_or_else(closed)?;
        let issuer = Ca::from_der(&issuing.certificate, key)?;
        let text = read_bounded(&self.files.ca, SMALL_FILE_BYTES_MAX).unwrap_or_default();
        if step_in(&text) > step_of(trust) {
            // Before its restart, this node or another one that shares the file was at a later step. Certificates of
            // the older step may no longer be accepted. Wait until the state has caught up.
            return Ok(());
        }
        let written = self.accept(trust, &issuer, &text);
        self.renew(trust, &issuer).await?;
        self.renew_local(trust, &issuer)?;
        // If the file was not written, do not report the CAs as accepted: after a restart they would not be.
        written?;
        let data_key = self.keys.follow(trust, &self.tls, &self.handle).await?;
        self.report(trust, data_key).await?;
        match self.keys.lead(trust, &self.handle).await? {
            Some(command) => self.command(command).await,
            None => Ok(()),
        }
    }

    /// Reloads the files if the cluster has no CA in its state: then an operator may replace them.
    fn follow_files(&mut self) {
        if !self.watch.has_changed() {
            return;
        }
        match self.files.load() {
            Ok(tls) => self.tls.set(tls),
            Err(error) => {
                tracing::error!(%error, "cannot use the new certificate between nodes; the old one stays in use")
            }
        }
    }

    /// Adds the first CA to the state of the cluster, on the node that has its key file.
    async fn publish_ca(&self, trust: &Trust) -> io::Result<()> {
        let key_file = ca_key_of(&self.files.ca);
        if trust.feature_level < TRUST_LEVEL || !key_file.exists() {
            return Ok(());
        }
        let ca = Ca::load_or_make(&self.files.ca, &key_file)?;
        let test = CertificateDer::from_pem_slice(ca.issue(1)?.cert_pem.as_bytes()).map_err(io::Error::other)?;
        if !is_issued_by(&test, &ca.cert_der()) {
            return Err(io::Error::other(format!("{}: this is not the key of the CA", key_file.display())));
        }
        let mut nonce = [0; 12];
        fill_random(&mut nonce)?;
        let (certificate, key) = (ca.cert_der().to_vec(), ca.key_der());
        self.command(TrustCommand::AddCa { number: 1, certificate, key, nonce }).await
    }

    /// Accepts the CAs of the cluster on new connections, and writes them to the file, whose current text is `text`.
    fn accept(&self, trust: &Trust, issuer: &Ca, text: &[u8]) -> io::Result<()> {
        let roots = roots_of(trust);
        if self.tls.get().roots() != roots {
            self.tls.set(self.files.load_with(roots.clone())?);
        }
        if self.files.roots().ok().as_ref() != Some(&roots) && step_in(text) < step_of(trust) {
            let key_file = ca_key_of(&self.files.ca);
            if key_file.exists() {
                write_atomic(&key_file, issuer.key_pem().as_bytes(), Readers::Owner)?;
            }
            write_atomic(&self.files.ca, roots_text(trust).as_bytes(), Readers::All)?;
            tracing::info!(cas = roots.len(), "the accepted CAs of the cluster have changed");
        }
        Ok(())
    }

    /// Renews the certificate of this node if necessary.
    async fn renew(&mut self, trust: &Trust, issuer: &Ca) -> io::Result<()> {
        // A node that has never reported ignores earlier renewals.
        let followed = trust.credentials.get(&self.own).map_or(trust.renewal, |progress| progress.renewal);
        self.renewal = self.renewal.max(followed);
        if trust.feature_level >= PIN_LEVEL {
            return self.renew_pinned(trust, issuer).await;
        }
        if self.is_current(trust, issuer) && self.renewal >= trust.renewal {
            return Ok(());
        }
        let NodeCertificate { cert_pem, key_pem } = issuer.issue_at(self.own, self.now_s(trust))?;
        self.files.save(&cert_pem, &key_pem)?;
        self.use_files(trust)?;
        self.renewal = trust.renewal;
        Ok(())
    }

    /// Renews the certificate for the pinned key. The key changes only in a requested renewal: the node uses a new key
    /// once every member has seen its pin, and then removes the old pin. So if the node stops at any time, every member
    /// accepts the key in its files, including members that were down.
    async fn renew_pinned(&mut self, trust: &Trust, issuer: &Ca) -> io::Result<()> {
        let own = self.own_pin()?;
        let pins = trust.pins.get(&self.own).map_or(&[][..], Vec::as_slice);
        if pins.is_empty() {
            return self.command(TrustCommand::AddPin { id: self.own, pin: own }).await;
        }
        if !pins.contains(&own) {
            return Err(io::Error::other(
                "the cluster does not accept the key of this node: the key was replaced, or the directory is an older \
                 copy",
            ));
        }
        if !self.is_current(trust, issuer) {
            let key_pem = read_bounded(&self.files.key, SMALL_FILE_BYTES_MAX)?;
            let made = issuer.issue_for_key(self.own, &String::from_utf8_lossy(&key_pem), self.now_s(trust))?;
            self.files.save(&made.cert_pem, &made.key_pem)?;
            self.use_files(trust)?;
        }
        self.see_pins(trust).await?;
        if let Some(next) = self.files.load_next(&roots_of(trust)) {
            return self.use_next(trust, issuer, &next, pins).await;
        }
        if pins.last() == Some(&own) && pins.len() > 1 {
            return self.command(TrustCommand::UsePin { pin: own }).await;
        }
        if let Some(number) = self.next_renewal.take() {
            self.renewal = self.renewal.max(number);
        }
        if self.renewal >= trust.renewal {
            return Ok(());
        }
        let NodeCertificate { cert_pem, key_pem } = issuer.issue_at(self.own, self.now_s(trust))?;
        self.files.save_next(&cert_pem, &key_pem)?;
        self.next_renewal = Some(trust.renewal);
        match self.files.load_next(&roots_of(trust)).and_then(|next| next.own_pin()) {
            Some(pin) => self.command(TrustCommand::AddPin { id: self.own, pin }).await,
            None => Err(io::Error::other("cannot read the next certificate of this node")),
        }
    }

    /// Reports that this node has applied the pins of all members, if a renewal waits for that.
    async fn see_pins(&self, trust: &Trust) -> io::Result<()> {
        match trust.pins_wanted.filter(|_| trust.pins_unseen_by.contains(&self.own)) {
            Some(version) => self.command(TrustCommand::SeePins { version }).await,
            None => Ok(()),
        }
    }

    /// Continues the change to the next key, which is stored beside the current one.
    async fn use_next(&mut self, trust: &Trust, issuer: &Ca, next: &PeerTls, pins: &[[u8; 32]]) -> io::Result<()> {
        let Some(pin) = next.own_pin().filter(|_| next.is_of(&issuer.cert_der())) else {
            // Meanwhile, another CA issues certificates.
            return self.files.forget_next();
        };
        if pins.last() != Some(&pin) {
            return self.command(TrustCommand::AddPin { id: self.own, pin }).await;
        }
        if !trust.next_pins_seen.contains(&self.own) {
            return Ok(());
        }
        self.files.use_next()?;
        self.use_files(trust)?;
        self.command(TrustCommand::UsePin { pin }).await
    }

    fn own_pin(&self) -> io::Result<[u8; 32]> {
        self.tls.get().own_pin().ok_or_else(|| io::Error::other("cannot read the certificate of this node"))
    }

    /// Whether the certificate is of the issuing CA, names the member, and is not due for renewal.
    fn is_current(&self, trust: &Trust, issuer: &Ca) -> bool {
        let tls = self.tls.get();
        let is_named = trust.feature_level < PIN_LEVEL || tls.names_member(self.own);
        is_named && tls.is_of(&issuer.cert_der()) && !is_due(tls.expires_s(), self.now_s(trust))
    }

    /// Uses the certificate in the files for new connections.
    fn use_files(&self, trust: &Trust) -> io::Result<()> {
        self.tls.set(self.files.load_with(roots_of(trust))?);
        tracing::info!(ca = trust.issuer, "new connections between nodes use a new certificate");
        Ok(())
    }

    /// Renews the certificate for local clients, if `up` created it with the cluster CA.
    fn renew_local(&self, trust: &Trust, issuer: &Ca) -> io::Result<()> {
        let Some((cert_file, key_file)) = &self.local else { return Ok(()) };
        let Ok(cert) = read_bounded(cert_file, SMALL_FILE_BYTES_MAX) else { return Ok(()) };
        let Ok(cert) = CertificateDer::from_pem_slice(&cert) else { return Ok(()) };
        let others = roots_of(trust).into_iter().skip(1);
        if !others.into_iter().any(|root| is_issued_by(&cert, &root)) {
            return Ok(());
        }
        let made = issuer.issue_local()?;
        write_atomic(key_file, made.key_pem.as_bytes(), Readers::Owner)?;
        write_atomic(cert_file, made.cert_pem.as_bytes(), Readers::All)
    }

    /// Reports the progress of this node, if it changed.
    async fn report(&self, trust: &Trust, data_key: u32) -> io::Result<()> {
        let tls = self.tls.get();
        let numbers = trust.cas.iter().map(|ca| ca.number);
        let issued_by = trust.cas.iter().find(|of| tls.is_of(&CertificateDer::from(&of.certificate[..])));
        let progress = CredentialProgress {
            accepts: numbers.max().unwrap_or(0),
            issued_by: issued_by.map_or(0, |ca| ca.number),
            renewal: self.renewal,
            expires_s: tls.expires_s(),
            data_key,
        };
        if trust.credentials.get(&self.own) == Some(&progress)
            || !trust.members.iter().any(|member| member.id == self.own)
        {
            return Ok(());
        }
        self.command(TrustCommand::ReportCredentials { progress }).await
    }

    /// The cluster's time, or the time of the last entry if that is later. Otherwise a clock that is behind could issue
    /// certificates that have already expired for the other nodes.
    fn now_s(&self, trust: &Trust) -> u64 {
        self.handle.shared().clock.now_s().max(trust.time_ms / 1_000)
    }

    async fn command(&self, command: TrustCommand) -> io::Result<()> {
        let result = self.handle.admin(AdminCommand::Trust(command));
        match tokio::time::timeout(Duration::from_millis(TRUST_COMMAND_MS), result).await {
            // Another node was faster, or there is no leader now. The next round retries.
            Ok(
                Ok(_)
                | Err(
                    AdminError::RotationBusy
                    | AdminError::MembersBehind
                    | AdminError::NotProposed
                    | AdminError::Unknown,
                ),
            )
            | Err(_) => Ok(()),
            Ok(Err(error)) => {
                Err(io::Error::other(format!("the leader refuses: {}", CommandFailed::from(error).error)))
            }
        }
    }
}
