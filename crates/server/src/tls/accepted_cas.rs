//! The CAs that the cluster accepts, and their file.

use super::ca::to_pem;
use replica::Trust;
use rustls::pki_types::CertificateDer;
use std::path::{Path, PathBuf};

/// Prefix of the first line in `ca.pem`; the step number of the CAs follows.
const STEP: &str = "catamaran authorities, step ";

/// The feature level that pins the keys of members in the state of the cluster.
pub(crate) const PIN_LEVEL: u32 = 3;

/// The CAs of a cluster; the issuing one comes first.
pub(crate) fn roots_of(trust: &Trust) -> Vec<CertificateDer<'static>> {
    let (first, others): (Vec<_>, Vec<_>) = trust.cas.iter().partition(|of| of.number == trust.issuer);
    first.into_iter().chain(others).map(|of| CertificateDer::from(of.certificate.clone())).collect()
}

/// The CAs as PEM text, with their step number.
pub(crate) fn roots_text(trust: &Trust) -> String {
    let certs: String = roots_of(trust).iter().map(|root| to_pem(root)).collect();
    format!("{STEP}{}\n{certs}", step_of(trust))
}

/// The key file of the first CA. It exists on the node where the cluster was created.
pub(crate) fn ca_key_of(ca_file: &Path) -> PathBuf {
    ca_file.with_extension("key")
}

/// The step number of the CAs. It increases when a CA is added, when it issues, and when the old one is removed.
pub(crate) fn step_of(trust: &Trust) -> u32 {
    let newest = trust.cas.iter().map(|of| of.number).max().unwrap_or(0);
    newest * 3 + if trust.cas.len() == 1 { 2 } else { u32::from(trust.issuer == newest) }
}

/// The step number in a file; zero if there is none.
pub(crate) fn step_in(text: &[u8]) -> u32 {
    let line = text.split(|&byte| byte == b'\n').next().and_then(|line| str::from_utf8(line).ok());
    line.and_then(|line| line.strip_prefix(STEP)?.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use replica::Ca as Accepted;
    use rustls::pki_types::pem::PemObject;

    fn trust(numbers: &[u32], issuer: u32) -> Trust {
        let of = |&number: &u32| Accepted { number, certificate: vec![number as u8; 70], key: None };
        Trust { cas: numbers.iter().map(of).collect(), issuer, ..Trust::default() }
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
            "the issuing CA is first"
        );
    }
}
