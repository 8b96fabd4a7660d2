//! Reads the expiry of a certificate (RFC 5280 4.1.2.5), and checks its issuer.

use super::ca::LIFE;
use config::date::days_since_1970;
use rustls::pki_types::{CertificateDer, UnixTime};
use std::time::Duration;

/// Expiry of a certificate, in seconds since 1970; `None` if it is malformed.
pub(crate) fn expires_s(cert: &[u8]) -> Option<u64> {
    // RFC 5280 4.1: Certificate, TBSCertificate.
    let mut fields = Der(Der(cert).value(SEQUENCE)?);
    let mut fields = Der(fields.value(SEQUENCE)?);
    if fields.0.first() == Some(&VERSION) {
        fields.next()?;
    }
    // Serial number, signature, issuer.
    for _ in 0..3 {
        fields.next()?;
    }
    let mut validity = Der(fields.value(SEQUENCE)?);
    validity.time()?;
    validity.time()
}

/// Whether a node should renew a certificate: little time is left, or it has no expiry.
pub(crate) const fn is_due(expires_s: u64, now_s: u64) -> bool {
    let left_s = expires_s.saturating_sub(now_s);
    left_s < LIFE.as_secs() / 3 || left_s > 2 * LIFE.as_secs()
}

/// Whether `root` issued `cert`, ignoring expiry.
pub(crate) fn is_issued_by(cert: &CertificateDer<'_>, root: &CertificateDer<'_>) -> bool {
    let Ok(anchor) = webpki::anchor_from_trusted_cert(root) else { return false };
    let Some(expires_s) = expires_s(cert) else { return false };
    let Ok(end_entity) = webpki::EndEntityCert::try_from(cert) else { return false };
    // Expiry is checked elsewhere.
    let at = UnixTime::since_unix_epoch(Duration::from_secs(expires_s));
    let usage = webpki::KeyUsage::server_auth();
    let anchors = [anchor];
    end_entity.verify_for_usage(webpki::ALL_VERIFICATION_ALGS, &anchors, &[], at, usage, None, None).is_ok()
}

const SEQUENCE: u8 = 0x30;
/// The version field, which version 1 certificates lack.
const VERSION: u8 = 0xA0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// A sequence of DER values (X.690 8.1).
struct Der<'d>(&'d [u8]);

impl<'d> Der<'d> {
    /// The next value with its tag.
    fn next(&mut self) -> Option<(u8, &'d [u8])> {
        let (&[tag, first], rest) = self.0.split_first_chunk::<2>()?;
        let (len, rest) = match first {
            0..=0x7F => (usize::from(first), rest),
            // Certificates are short, so lengths have at most three bytes.
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7F))?;
                (bytes.iter().fold(0, |len, &byte| len << 8 | usize::from(byte)), rest)
            }
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((tag, value))
    }

    fn value(&mut self, tag: u8) -> Option<&'d [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, value)| value)
    }

    /// RFC 5280 4.1.2.5.1 and .2: YYMMDDHHMMSSZ up to 2049, YYYYMMDDHHMMSSZ later.
    fn time(&mut self) -> Option<u64> {
        let (tag, text) = self.next()?;
        let digits = text.strip_suffix(b"Z")?;
        let (year_digits, century) = match tag {
            UTC_TIME => (2, None),
            GENERALIZED_TIME => (4, Some(0)),
            _ => return None,
        };
        if digits.len() != year_digits + 10 || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let number = |from: usize, count: usize| {
            digits[from..from + count].iter().fold(0u64, |sum, digit| sum * 10 + u64::from(digit - b'0'))
        };
        let year = number(0, year_digits);
        let year = match century {
            Some(century) => century + year,
            // RFC 5280 4.1.2.5.1: years from 50 on are in the 20th century.
            None if year >= 50 => 1900 + year,
            None => 2000 + year,
        };
        let part = |index: usize| number(year_digits + 2 * index, 2);
        let days = days_since_1970(year, part(0), part(1))?;
        Some(days * 86_400 + part(2) * 3_600 + part(3) * 60 + part(4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::ca::Ca;
    use rustls::pki_types::pem::PemObject;

    #[test]
    fn an_issued_certificate_lasts_a_year_and_is_renewed_in_its_last_third() {
        let [one, two] = [(); 2].map(|()| Ca::make().unwrap());
        let cert = CertificateDer::from_pem_slice(one.issue_at(1, 1_800_000_000).unwrap().cert_pem.as_bytes()).unwrap();
        let to_s = expires_s(&cert).unwrap();
        assert_eq!(to_s, 1_800_000_000 + LIFE.as_secs());
        assert!(!is_due(to_s, 1_800_000_000) && !is_due(to_s, to_s - LIFE.as_secs() * 2 / 5));
        assert!(is_due(to_s, to_s - LIFE.as_secs() * 3 / 10) && is_due(to_s, to_s + 1));
        assert!(is_issued_by(&cert, &one.cert_der()) && !is_issued_by(&cert, &two.cert_der()));
        let endless = CertificateDer::from_pem_slice(one.issue_without_end(1).unwrap().cert_pem.as_bytes()).unwrap();
        assert!(is_due(expires_s(&endless).unwrap(), 1_800_000_000), "issued by an older version");
        for cut in 0..cert.len() {
            let _ = expires_s(&cert[..cut]);
            assert!(!is_issued_by(&CertificateDer::from(&cert[..cut]), &one.cert_der()));
        }
    }

    #[test]
    fn both_forms_of_time_are_read() {
        let time = |tag: u8, text: &str| Der(&[&[tag, text.len() as u8], text.as_bytes()].concat()).time();
        assert_eq!(time(UTC_TIME, "700101000001Z"), Some(1));
        assert_eq!(time(GENERALIZED_TIME, "20261122000000Z"), Some(20_779 * 86_400));
        assert_eq!(time(UTC_TIME, "261122000000Z"), Some(20_779 * 86_400));
        for wrong in ["", "Z", "26112200000Z", "2611220000000Z", "26112200000xZ", "261122000000"] {
            assert_eq!(time(UTC_TIME, wrong), None, "{wrong}");
        }
    }
}
