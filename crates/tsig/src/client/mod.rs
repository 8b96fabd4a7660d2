//! The client: builds UPDATE messages, signs requests and checks responses. Used by `catamaran ddns`, tests and tools.

mod response;
pub use response::{Unverified, VerifiedResponse};

use crate::algorithm::KeyAlgorithm;
use crate::digest::Cover;
use crate::keys::{KeyError, TsigKey};
use crate::limits::FUDGE_S_MAX;
use crate::mac::Mac;
use crate::sign::{NoRoom, Signer};
use wire::limits::MESSAGE_BYTES_MAX;
use wire::name::NameRef;
use wire::number::{Class, Opcode, Rcode, Rtype};
use wire::parse::{Header, NameBuf, Section};

/// Builds an UPDATE (RFC 2136 2). Names are not compressed. Add all prerequisites before the first step.
#[derive(Clone, Debug)]
pub struct UpdateBuilder {
    bytes: Vec<u8>,
    counts: [u16; 4],
}

impl UpdateBuilder {
    /// An UPDATE of a zone of class IN.
    #[must_use]
    pub fn new(id: u16, apex: NameRef<'_>) -> Self {
        let header = Header { id, opcode: Opcode::UPDATE, ..Header::default() };
        let mut bytes = header.to_bytes().to_vec();
        bytes.extend(apex.as_bytes());
        bytes.extend(Rtype::SOA.0.to_be_bytes());
        bytes.extend(Class::IN.0.to_be_bytes());
        Self { bytes, counts: [1, 0, 0, 0] }
    }

    /// Adds any record, well formed or not. Sections must be filled in order.
    #[must_use]
    pub fn raw(
        mut self,
        section: Section,
        owner: NameRef<'_>,
        (rtype, class, ttl): (Rtype, Class, u32),
        rdata: &[u8],
    ) -> Self {
        self.bytes.extend(owner.as_bytes());
        self.bytes.extend(rtype.0.to_be_bytes());
        self.bytes.extend(class.0.to_be_bytes());
        self.bytes.extend(ttl.to_be_bytes());
        self.bytes.extend((rdata.len() as u16).to_be_bytes());
        self.bytes.extend(rdata);
        self.counts[section as usize] += 1;
        self
    }

    /// The RRset must exist (RFC 2136 2.4.1).
    #[must_use]
    pub fn require_rrset(self, owner: NameRef<'_>, rtype: Rtype) -> Self {
        self.raw(Section::PREREQUISITE, owner, (rtype, Class::ANY, 0), &[])
    }

    /// The RRset must consist of exactly the records that are required in this way (RFC 2136 2.4.2).
    #[must_use]
    pub fn require_record(self, owner: NameRef<'_>, rtype: Rtype, rdata: &[u8]) -> Self {
        self.raw(Section::PREREQUISITE, owner, (rtype, Class::IN, 0), rdata)
    }

    /// The RRset must not exist (RFC 2136 2.4.3).
    #[must_use]
    pub fn require_no_rrset(self, owner: NameRef<'_>, rtype: Rtype) -> Self {
        self.raw(Section::PREREQUISITE, owner, (rtype, Class::NONE, 0), &[])
    }

    /// The owner must have a record (RFC 2136 2.4.4).
    #[must_use]
    pub fn require_name(self, owner: NameRef<'_>) -> Self {
        self.require_rrset(owner, Rtype::ANY)
    }

    /// The owner must have no record (RFC 2136 2.4.5).
    #[must_use]
    pub fn require_no_name(self, owner: NameRef<'_>) -> Self {
        self.require_no_rrset(owner, Rtype::ANY)
    }

    /// Add a record (RFC 2136 2.5.1).
    #[must_use]
    pub fn add(self, owner: NameRef<'_>, ttl: u32, rtype: Rtype, rdata: &[u8]) -> Self {
        self.raw(Section::UPDATE, owner, (rtype, Class::IN, ttl), rdata)
    }

    /// Delete an RRset (RFC 2136 2.5.2).
    #[must_use]
    pub fn delete_rrset(self, owner: NameRef<'_>, rtype: Rtype) -> Self {
        self.raw(Section::UPDATE, owner, (rtype, Class::ANY, 0), &[])
    }

    /// Delete all RRsets of an owner (RFC 2136 2.5.3).
    #[must_use]
    pub fn delete_name(self, owner: NameRef<'_>) -> Self {
        self.delete_rrset(owner, Rtype::ANY)
    }

    /// Delete a record (RFC 2136 2.5.4).
    #[must_use]
    pub fn delete_record(self, owner: NameRef<'_>, rtype: Rtype, rdata: &[u8]) -> Self {
        self.raw(Section::UPDATE, owner, (rtype, Class::NONE, 0), rdata)
    }

    /// The bytes of the message, not signed.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        for (at, count) in self.counts.iter().enumerate() {
            self.bytes[4 + 2 * at..6 + 2 * at].copy_from_slice(&count.to_be_bytes());
        }
        self.bytes
    }
}

/// A key on the client's side.
#[derive(Clone, Debug)]
pub struct ClientKey(TsigKey);

impl ClientKey {
    /// A key with its secret.
    ///
    /// # Errors
    /// [`KeyError`] when the secret is empty or too long.
    pub fn new(name: NameRef<'_>, algorithm: KeyAlgorithm, secret: &[u8]) -> Result<Self, KeyError> {
        TsigKey::new(name, algorithm, &[secret]).map(Self)
    }

    /// Signs a request of any opcode with a fudge of 300 s.
    ///
    /// # Errors
    /// [`NoRoom`] when the message would grow beyond 65,535 bytes.
    pub fn sign(&self, message: Vec<u8>, time_signed: u64) -> Result<Vec<u8>, NoRoom> {
        self.sign_with_fudge(message, time_signed, FUDGE_S_MAX)
    }

    /// Signs a request of any opcode.
    ///
    /// # Errors
    /// [`NoRoom`] when the message would grow beyond 65,535 bytes.
    pub fn sign_with_fudge(&self, mut message: Vec<u8>, time_signed: u64, fudge: u16) -> Result<Vec<u8>, NoRoom> {
        let algorithm = NameRef::from_bytes(self.0.algorithm.name_bytes()).map_err(|_| NoRoom)?;
        let signer = Signer {
            key_name: NameBuf::from(self.0.name()),
            algorithm: NameBuf::from(algorithm),
            secret: self.0.secrets.first().map(|secret| secret.hmac.clone()),
            mac_bytes: self.0.algorithm.mac_bytes(),
            request_mac: Mac::NONE,
            time_signed,
            fudge,
            own_fudge: fudge,
            error: Rcode::NOERROR,
        };
        let len = message.len();
        message.resize((len + signer.reserve_bytes()).min(MESSAGE_BYTES_MAX).max(len), 0);
        let (len, _) = signer.append(&mut message, len, time_signed, None, Cover::Variables)?;
        message.truncate(len);
        Ok(message)
    }
}
