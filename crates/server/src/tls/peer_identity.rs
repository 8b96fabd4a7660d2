//! The member that a peer certificate names, and the key that it shows.

use super::names::{MEMBER, member_name, node_name, node_number};
use replica::io::NodeId;
use rustls::pki_types::CertificateDer;

/// The identity in the certificate of a peer. TLS has checked the issuer and the possession of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PeerIdentity {
    names: Vec<String>,
    /// SHA-256 of its public key, as pinned in the cluster's state.
    pub(crate) pin: [u8; 32],
}

impl PeerIdentity {
    /// `None` without a certificate.
    pub(crate) fn of(certs: Option<&[CertificateDer<'_>]>) -> Option<Self> {
        let cert = webpki::EndEntityCert::try_from(certs?.first()?).ok()?;
        let names = cert.valid_dns_names().map(str::to_owned).collect();
        Some(Self { names, pin: pin_of(&cert.subject_public_key_info()) })
    }

    /// The identity that another member reports.
    pub(crate) const fn claimed(names: Vec<String>, pin: [u8; 32]) -> Self {
        Self { names, pin }
    }

    /// The names in the certificate.
    pub(crate) fn all_names(&self) -> &[String] {
        &self.names
    }

    /// Whether it names this member with its incarnation.
    pub(crate) fn names(&self, id: NodeId) -> bool {
        self.names.contains(&member_name(id))
    }

    /// Whether it names this member. Certificates of older builds name only the node number; the pins in the cluster's
    /// state distinguish members with the same number.
    pub(crate) fn is_about(&self, id: NodeId) -> bool {
        let (node, member) = (node_name(node_number(id)), member_name(id));
        let names_members = |name: &&String| name.starts_with(MEMBER);
        replica::planted!(AnyCertificateTaken)
            || self.names.contains(&node) && self.names.iter().find(names_members).is_none_or(|name| *name == member)
    }
}

/// SHA-256 of a SubjectPublicKeyInfo (RFC 5280 4.1.2.7).
fn pin_of(public_key: &[u8]) -> [u8; 32] {
    let digest = ring::digest::digest(&ring::digest::SHA256, public_key);
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::ca::Ca;
    use rustls::pki_types::pem::PemObject;

    const AGAIN: NodeId = 1 << 32 | 4;

    #[test]
    fn a_certificate_is_about_one_member() {
        let ca = Ca::make().unwrap();
        let identity = |cert_pem: &str| {
            let cert = CertificateDer::from_pem_slice(cert_pem.as_bytes()).unwrap();
            PeerIdentity::of(Some(&[cert])).unwrap()
        };
        let (first, again) = (ca.issue(4).unwrap(), ca.issue(AGAIN).unwrap());
        let about = |cert_pem: &str| [4, AGAIN, 2 << 32 | 4, 14, 1].map(|id| identity(cert_pem).is_about(id));
        assert_eq!(about(&first.cert_pem), [true, false, false, false, false]);
        assert_eq!(about(&again.cert_pem), [false, true, false, false, false]);
        assert_ne!(identity(&first.cert_pem).pin, identity(&again.cert_pem).pin);
        assert!(PeerIdentity::of(None).is_none() && PeerIdentity::of(Some(&[])).is_none());
        // A certificate for clients on this machine names no node.
        assert_eq!(about(&ca.issue_local().unwrap().cert_pem), [false; 5]);
    }

    #[test]
    fn a_pin_is_of_the_key_and_outlives_the_certificate() {
        let ca = Ca::make().unwrap();
        let first = ca.issue(4).unwrap();
        let second = ca.issue_for_key(4, &first.key_pem, 1_900_000_000).unwrap();
        let pin = |cert_pem: &str| {
            let cert = CertificateDer::from_pem_slice(cert_pem.as_bytes()).unwrap();
            PeerIdentity::of(Some(&[cert])).unwrap().pin
        };
        assert_ne!(first.cert_pem, second.cert_pem);
        assert_eq!(pin(&first.cert_pem), pin(&second.cert_pem));
    }
}
