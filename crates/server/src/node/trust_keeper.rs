//! Keeps what nodes know each other by, and the data keys: what this node accepts follows the cluster's state, its own
//! certificate is replaced in time, and the others are told how far it is.
//!
//! The key of the issuing authority is in the cluster's state, and every node can open it: a node issues its own
//! certificate, also one that was away until its old one ended. From feature level 3 on the state pins the key that
//! each node shows: connections that show another one are cut, also those that are open.

use super::data_keys::DataKeyKeeper;
use super::handle::ReplicaHandle;
use crate::api::error::ApiError;
use crate::files::token::fill_random;
use crate::files::watch::Watch;
use crate::files::{Readers, read_bounded, write_atomic};
use crate::limits::{SMALL_FILE_BYTES_MAX, TRUST_COMMAND_MS, TRUST_LOOK_MS};
use crate::tls::ca::{CertificateAuthority, NodeCertificate, to_pem};
use crate::tls::session::{CurrentTls, PeerFiles, PeerTls};
use crate::tls::validity::{is_due, is_issued_by};
use replica::Trust;
use replica::io::{AdminCommand, AdminError, NodeId, Standing, TrustCommand};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What the text before the authorities in `ca.pem` begins with; the number of the step that they are of follows.
const STEP: &str = "catamaran authorities, step ";

/// The feature level from which on the authorities are in the cluster's state.
const TRUST_LEVEL: u32 = 2;
/// The feature level from which on the cluster's state pins the keys of members.
pub(crate) const PIN_LEVEL: u32 = 3;

/// One node's.
pub(crate) struct TrustKeeper {
    own: NodeId,
    files: PeerFiles,
    /// What clients of encrypted DNS see, if there are any: certificate and key.
    local: Option<(PathBuf, PathBuf)>,
    tls: Arc<CurrentTls>,
    keys: DataKeyKeeper,
    handle: ReplicaHandle,
    watch: Watch<3>,
    /// The last order to renew that was followed.
    renewal: u32,
    /// The order that the next certificate was made for.
    next_renewal: Option<u32>,
    /// The last problem that was told, so that it is told once.
    told: Option<String>,
}

impl TrustKeeper {
    pub(super) fn new(
        own: NodeId,
        files: PeerFiles,
        local: Option<(PathBuf, PathBuf)>,
        tls: Arc<CurrentTls>,
        keys: DataKeyKeeper,
        handle: ReplicaHandle,
    ) -> Self {
        let watch = Watch::new([files.ca.clone(), files.cert.clone(), files.key.clone()]);
        Self { own, files, local, tls, keys, handle, watch, renewal: 0, next_renewal: None, told: None }
    }

    /// Works for ever.
    pub(super) async fn run(mut self) {
        let mut changes = self.handle.shared().trust.subscribe();
        loop {
            let trust = changes.borrow_and_update().clone();
            if !self.handle.shared().removal.is_removed() {
                let outcome = self.look(&trust).await;
                self.tell(outcome);
            }
            // The sender lives as long as the handle.
            let _ = tokio::time::timeout(Duration::from_millis(TRUST_LOOK_MS), changes.changed()).await;
        }
    }

    fn tell(&mut self, outcome: io::Result<()>) {
        let problem = outcome.err().map(|error| error.to_string());
        if let Some(problem) = problem.as_ref().filter(|_| problem != self.told) {
            tracing::warn!(%problem, "certificates between nodes; it is tried again");
        }
        self.told = problem;
    }

    async fn look(&mut self, trust: &Trust) -> io::Result<()> {
        let Some(issuing) = trust.issuing() else {
            self.follow_files();
            return self.bring_authority(trust).await;
        };
        // The key of the authority may be sealed by a data key that is still to be got.
        if issuing.key.is_none() {
            self.keys.follow(trust, &self.tls, &self.handle).await?;
        }
        let closed = || io::Error::other("the data key does not open the key of the cluster's authority");
        let key = issuing.key.as_ref().ok_or_else(closed)?;
        let issuer = CertificateAuthority::from_der(&issuing.certificate, key)?;
        let text = read_bounded(&self.files.ca, SMALL_FILE_BYTES_MAX).unwrap_or_default();
        if step_in(&text) > step_of(trust) {
            // This node was further before it started, or another that shares the file is: what its state says now may
            // be accepted by nobody any more. It catches up with what it has.
            return Ok(());
        }
        let written = self.accept(trust, &issuer, &text);
        self.renew(trust, &issuer).await?;
        self.renew_local(trust, &issuer)?;
        // Who could not write it does not say that it accepts it: it would not after a restart.
        written?;
        let data_key = self.keys.follow(trust, &self.tls, &self.handle).await?;
        self.stand(trust, data_key).await?;
        match self.keys.lead(trust, &self.handle).await? {
            Some(command) => self.command(command).await,
            None => Ok(()),
        }
    }

    /// Where the cluster has no authority in its state, an operator may exchange the files.
    fn follow_files(&mut self) {
        if !self.watch.has_changed() {
            return;
        }
        match self.files.load() {
            Ok(tls) => self.tls.set(tls),
            Err(error) => {
                tracing::error!(%error, "the new certificate between nodes cannot be used; the old one stays")
            }
        }
    }

    /// A node that holds the key of the first authority in a file gives it to the cluster.
    async fn bring_authority(&self, trust: &Trust) -> io::Result<()> {
        let key_file = ca_key_of(&self.files.ca);
        if trust.feature_level < TRUST_LEVEL || !key_file.exists() {
            return Ok(());
        }
        let authority = CertificateAuthority::load_or_make(&self.files.ca, &key_file)?;
        let test = CertificateDer::from_pem_slice(authority.issue(1)?.cert_pem.as_bytes()).map_err(io::Error::other)?;
        if !is_issued_by(&test, &authority.cert_der()) {
            return Err(io::Error::other(format!("{}: not the key of the authority", key_file.display())));
        }
        let mut nonce = [0; 12];
        fill_random(&mut nonce)?;
        let (certificate, key) = (authority.cert_der().to_vec(), authority.key_der());
        self.command(TrustCommand::AddAuthority { number: 1, certificate, key, nonce }).await
    }

    /// Accepts what the cluster does, on new connections and in the file, whose text is `text`.
    fn accept(&self, trust: &Trust, issuer: &CertificateAuthority, text: &[u8]) -> io::Result<()> {
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
            tracing::info!(authorities = roots.len(), "the authorities of the cluster have changed");
        }
        Ok(())
    }

    /// Gets this node another certificate where it wants one.
    async fn renew(&mut self, trust: &Trust, issuer: &CertificateAuthority) -> io::Result<()> {
        // A node that has never said anything follows no order that was given before.
        let followed = trust.standings.get(&self.own).map_or(trust.renewal, |standing| standing.renewal);
        self.renewal = self.renewal.max(followed);
        if trust.feature_level >= PIN_LEVEL {
            return self.renew_pinned(trust, issuer).await;
        }
        if self.is_good(trust, issuer) && self.renewal >= trust.renewal {
            return Ok(());
        }
        let NodeCertificate { cert_pem, key_pem } = issuer.issue_at(self.own, self.now_s(trust))?;
        self.files.save(&cert_pem, &key_pem)?;
        self.show(trust)?;
        self.renewal = trust.renewal;
        Ok(())
    }

    /// Where the cluster pins keys, a certificate is renewed for the key that is pinned. Another key comes on an order
    /// only: the node shows it once every member has seen its pin, then has the one before unpinned. Whenever the node
    /// ends, the key in its files is one that every member accepts, also a member that was down.
    async fn renew_pinned(&mut self, trust: &Trust, issuer: &CertificateAuthority) -> io::Result<()> {
        let own = self.own_pin()?;
        let pins = trust.pins.get(&self.own).map_or(&[][..], Vec::as_slice);
        if pins.is_empty() {
            return self.command(TrustCommand::AddPin { id: self.own, pin: own }).await;
        }
        if !pins.contains(&own) {
            return Err(io::Error::other(
                "the cluster does not accept the key of this node: another key took its place, or the directory is an \
                 older copy",
            ));
        }
        if !self.is_good(trust, issuer) {
            let key_pem = read_bounded(&self.files.key, SMALL_FILE_BYTES_MAX)?;
            let made = issuer.issue_for_key(self.own, &String::from_utf8_lossy(&key_pem), self.now_s(trust))?;
            self.files.save(&made.cert_pem, &made.key_pem)?;
            self.show(trust)?;
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
            None => Err(io::Error::other("the next certificate of this node cannot be read")),
        }
    }

    /// Says that this node has applied the pins of all members, while one of them waits for that.
    async fn see_pins(&self, trust: &Trust) -> io::Result<()> {
        match trust.pins_wanted.filter(|_| trust.pins_unseen_by.contains(&self.own)) {
            Some(version) => self.command(TrustCommand::SeePins { version }).await,
            None => Ok(()),
        }
    }

    /// Goes on with the next key, which lies beside the one in use.
    async fn use_next(
        &mut self,
        trust: &Trust,
        issuer: &CertificateAuthority,
        next: &PeerTls,
        pins: &[[u8; 32]],
    ) -> io::Result<()> {
        let Some(pin) = next.own_pin().filter(|_| next.is_of(&issuer.cert_der())) else {
            // Another authority issues by now.
            return self.files.forget_next();
        };
        if pins.last() != Some(&pin) {
            return self.command(TrustCommand::AddPin { id: self.own, pin }).await;
        }
        if !trust.next_pins_seen.contains(&self.own) {
            return Ok(());
        }
        self.files.use_next()?;
        self.show(trust)?;
        self.command(TrustCommand::UsePin { pin }).await
    }

    fn own_pin(&self) -> io::Result<[u8; 32]> {
        self.tls.get().own_pin().ok_or_else(|| io::Error::other("the certificate of this node cannot be read"))
    }

    /// Whether the node's certificate is of the authority that issues, names the member, and has time left.
    fn is_good(&self, trust: &Trust, issuer: &CertificateAuthority) -> bool {
        let tls = self.tls.get();
        let is_named = trust.feature_level < PIN_LEVEL || tls.names_member(self.own);
        is_named && tls.is_of(&issuer.cert_der()) && !is_due(tls.expires_s(), self.now_s(trust))
    }

    /// New connections begin with what is in the files.
    fn show(&self, trust: &Trust) -> io::Result<()> {
        self.tls.set(self.files.load_with(roots_of(trust))?);
        tracing::info!(authority = trust.issuer, "new connections between nodes show a new certificate");
        Ok(())
    }

    /// The certificate for clients on this machine is of the cluster's authority too, where `up` made it.
    fn renew_local(&self, trust: &Trust, issuer: &CertificateAuthority) -> io::Result<()> {
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

    /// Says how far this node is, if that is news.
    async fn stand(&self, trust: &Trust, data_key: u32) -> io::Result<()> {
        let tls = self.tls.get();
        let numbers = trust.authorities.iter().map(|authority| authority.number);
        let issued_by = trust.authorities.iter().find(|of| tls.is_of(&CertificateDer::from(&of.certificate[..])));
        let standing = Standing {
            accepts: numbers.max().unwrap_or(0),
            issued_by: issued_by.map_or(0, |authority| authority.number),
            renewal: self.renewal,
            expires_s: tls.expires_s(),
            data_key,
        };
        if trust.standings.get(&self.own) == Some(&standing)
            || !trust.members.iter().any(|member| member.id == self.own)
        {
            return Ok(());
        }
        self.command(TrustCommand::Stand { standing }).await
    }

    /// The cluster's time, or the time of the last entry if that is later. Otherwise a clock that is behind could issue
    /// certificates that have already expired for the other nodes.
    fn now_s(&self, trust: &Trust) -> u64 {
        self.handle.shared().clock.now_s().max(trust.time_ms / 1_000)
    }

    async fn command(&self, command: TrustCommand) -> io::Result<()> {
        let asked = self.handle.admin(AdminCommand::Trust(command));
        match tokio::time::timeout(Duration::from_millis(TRUST_COMMAND_MS), asked).await {
            // Another was first; or there is no leader now, and there will be.
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
                Err(io::Error::other(format!("the leader refuses: {}", ApiError::from(error).into_reason())))
            }
        }
    }
}

/// The authorities of a cluster, the one that issues first.
pub(crate) fn roots_of(trust: &Trust) -> Vec<CertificateDer<'static>> {
    let (first, others): (Vec<_>, Vec<_>) = trust.authorities.iter().partition(|of| of.number == trust.issuer);
    first.into_iter().chain(others).map(|of| CertificateDer::from(of.certificate.clone())).collect()
}

/// The same as text, with the step that they are of.
pub(crate) fn roots_text(trust: &Trust) -> String {
    let certs: String = roots_of(trust).iter().map(|root| to_pem(root)).collect();
    format!("{STEP}{}\n{certs}", step_of(trust))
}

/// The key of the first authority lies beside its certificate, on the node where the cluster was made.
pub(crate) fn ca_key_of(ca_file: &Path) -> PathBuf {
    ca_file.with_extension("key")
}

/// Rises with each change of the authorities: one comes, it issues, the one before goes.
fn step_of(trust: &Trust) -> u32 {
    let newest = trust.authorities.iter().map(|of| of.number).max().unwrap_or(0);
    newest * 3 + if trust.authorities.len() == 1 { 2 } else { u32::from(trust.issuer == newest) }
}

/// That of a file; zero where it says none.
fn step_in(text: &[u8]) -> u32 {
    let line = text.split(|&byte| byte == b'\n').next().and_then(|line| str::from_utf8(line).ok());
    line.and_then(|line| line.strip_prefix(STEP)?.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use replica::Authority as Accepted;

    fn trust(numbers: &[u32], issuer: u32) -> Trust {
        let of = |&number: &u32| Accepted { number, certificate: vec![number as u8; 70], key: None };
        Trust { authorities: numbers.iter().map(of).collect(), issuer, ..Trust::default() }
    }

    #[test]
    fn each_step_of_a_rotation_has_a_higher_number() {
        let steps = [(&[1][..], 1), (&[1, 2], 1), (&[1, 2], 2), (&[2], 2), (&[2, 3], 2), (&[2, 3], 3), (&[3], 3)];
        let steps: Vec<u32> = steps.iter().map(|(numbers, issuer)| step_of(&trust(numbers, *issuer))).collect();
        assert!(steps.is_sorted_by(|one, next| one < next) && steps[0] > step_in(b""), "{steps:?}");
        let text = roots_text(&trust(&[1, 2], 2));
        assert_eq!(step_in(text.as_bytes()), step_of(&trust(&[1, 2], 2)));
        assert_eq!(step_in(b"-----BEGIN CERTIFICATE-----\n"), 0);
        let certs: Vec<_> = CertificateDer::pem_slice_iter(text.as_bytes()).map(Result::unwrap).collect();
        assert_eq!(
            certs,
            [CertificateDer::from(vec![2; 70]), CertificateDer::from(vec![1; 70])],
            "who issues is first"
        );
    }
}
