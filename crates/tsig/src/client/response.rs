//! A client's check of the response to a signed request (RFC 8945 5.4): whether a holder of the key made it for this
//! request.

use super::ClientKey;
use crate::digest::{self, Cover, Variables};
use crate::limits::FUDGE_S_MAX;
use crate::mac::Mac;
use wire::limits::HEADER_BYTES;
use wire::number::{Class, Rcode, Rtype};
use wire::parse::tsig::{TsigAt, TsigView};
use wire::parse::{Message, Section};

/// Why a response is not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unverified {
    /// It is no DNS message, or not the response to this request: another ID or opcode, or a request.
    Foreign,
    /// It has no TSIG record at its end.
    Unsigned,
    /// Its TSIG record has an error and no MAC, because the server could not sign (RFC 8945 5.3.2): BADKEY or BADSIG.
    /// Anybody can forge such a response.
    Error(Rcode),
    /// The key did not make the MAC, or made it for another request.
    BadMac,
    /// The MAC is right, but Time Signed is too far from the current time.
    BadTime,
}

/// The TSIG of a response that was verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VerifiedResponse {
    /// The error of the TSIG record: NOERROR, or BADTIME when the clocks differ too much, or BADTRUNC.
    pub error: Rcode,
    /// With BADTIME, the time of the server (RFC 8945 5.2.3).
    pub server_time_s: Option<u64>,
}

impl ClientKey {
    /// Checks that `response` is the response to `request`, which this key has signed.
    ///
    /// # Errors
    /// [`Unverified`]: discard the response and keep waiting for another (RFC 8945 5.4).
    pub fn verify(&self, request: &[u8], response: &[u8], now_s: u64) -> Result<VerifiedResponse, Unverified> {
        let sent = Message::parse(request).map_err(|_| Unverified::Foreign)?;
        let received = Message::parse(response).map_err(|_| Unverified::Foreign)?;
        let (request_header, header) = (sent.header(), received.header());
        if !header.qr || header.id != request_header.id || header.opcode != request_header.opcode {
            return Err(Unverified::Foreign);
        }
        let request_mac = tsig_of(&sent).and_then(|(_, tsig)| Mac::from_bytes(tsig.mac)).ok_or(Unverified::Foreign)?;
        let (at, tsig) = tsig_of(&received).ok_or(Unverified::Unsigned)?;
        if tsig.mac.is_empty() {
            return Err(Unverified::Error(Rcode(tsig.error)));
        }
        let names_key = tsig.key_name.as_ref() == self.0.name()
            && tsig.algorithm.as_bytes().eq_ignore_ascii_case(self.0.algorithm.name_bytes())
            && tsig.mac.len() >= self.0.algorithm.mac_bytes_min();
        if !names_key || !self.is_made_by_key(&request_mac, response, at, &tsig) {
            return Err(Unverified::BadMac);
        }
        let error = Rcode(tsig.error);
        // RFC 8945 5.2.3: with BADTIME the record repeats the client's time, not the time of the response.
        if error != Rcode::BADTIME && now_s.abs_diff(tsig.time_signed) > u64::from(tsig.fudge.min(FUDGE_S_MAX)) {
            return Err(Unverified::BadTime);
        }
        let server_time_s = tsig.other.first_chunk().filter(|_| error == Rcode::BADTIME && tsig.other.len() == 6);
        let server_time_s = server_time_s.map(|&[a, b, c, d, e, f]| u64::from_be_bytes([0, 0, a, b, c, d, e, f]));
        Ok(VerifiedResponse { error, server_time_s })
    }

    fn is_made_by_key(&self, request_mac: &Mac, response: &[u8], at: usize, tsig: &TsigView<'_>) -> bool {
        // RFC 8945 4.3.2: the message as it was before the TSIG record was added, with its original ID.
        let Some(mut header) = response.first_chunk::<HEADER_BYTES>().copied() else { return false };
        header[..2].copy_from_slice(&tsig.original_id.to_be_bytes());
        let arcount = u16::from_be_bytes([header[10], header[11]]).saturating_sub(1);
        header[10..].copy_from_slice(&arcount.to_be_bytes());
        let variables = Variables {
            key_name: tsig.key_name.as_ref(),
            algorithm: tsig.algorithm.as_ref(),
            time_signed: tsig.time_signed,
            fudge: tsig.fudge,
            error: tsig.error,
            other: tsig.other,
        };
        let message = [&header[..], &response[HEADER_BYTES..at]];
        self.0.secrets.iter().any(|secret| {
            let mac = digest::compute(&secret.hmac, Some(request_mac), message, &variables, Cover::Variables);
            mac.starts_with(tsig.mac)
        })
    }
}

/// The TSIG record of a message, which must be its last record (RFC 8945 5.1), and its offset.
fn tsig_of<'m>(message: &Message<'m>) -> Option<(usize, TsigView<'m>)> {
    let record = message.records(Section::Additional).flatten().last().filter(|record| record.rtype == Rtype::TSIG)?;
    // RFC 8945 4.2: CLASS "MUST be ANY", TTL "MUST be 0". The MAC does not cover the received values.
    let is_well_formed = record.class == Class::ANY && record.ttl == 0;
    let at = TsigAt { at: record.at, rdata_at: record.rdata_at.clone() };
    let view = TsigView::read(record.message, &at).filter(|_| is_well_formed)?;
    Some((record.at, view))
}
