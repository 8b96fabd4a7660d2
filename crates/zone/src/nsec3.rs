//! NSEC3 hashes (RFC 5155 5) and their parameters.

use crate::limits::NSEC3_ITERATIONS_MAX;
use sha1::{Digest, Sha1};
use wire::name::NameRef;

/// Bytes of a hashed owner name. SHA-1 is the only registered algorithm (RFC 5155 11).
pub const HASH_BYTES: usize = 20;
/// Bytes of the label that a hash makes: base32 with extended hex alphabet, no padding (RFC 5155 3).
pub const LABEL_BYTES: usize = 32;

/// Opt-out flag of an NSEC3 record: unsigned delegations may lack NSEC3 records (RFC 5155 3.1.2.1).
pub const FLAG_OPT_OUT: u8 = 1;

/// Algorithm, iterations and salt of a chain of NSEC3 records, borrowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nsec3Params<'a> {
    /// Additional hash iterations; at most [`NSEC3_ITERATIONS_MAX`].
    pub iterations: u16,
    /// The salt, which is appended to the hash input.
    pub salt: &'a [u8],
}

/// Why a chain of NSEC3 records cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nsec3Error {
    /// The rdata ends early.
    Short,
    /// A hash algorithm other than SHA-1 (RFC 5155 8.1: such records are ignored).
    Algorithm,
    /// More iterations than [`NSEC3_ITERATIONS_MAX`] (RFC 9276 3.2).
    Iterations(u16),
}

impl<'a> Nsec3Params<'a> {
    /// Reads the fields at the start of NSEC3PARAM and NSEC3 rdata (RFC 5155 3.2, 4.2), except the flags.
    ///
    /// # Errors
    /// [`Nsec3Error`] when the chain cannot be used.
    pub fn from_rdata(rdata: &'a [u8]) -> Result<Self, Nsec3Error> {
        let &[algorithm, _flags, high, low, salt_bytes, ref rest @ ..] = rdata else { return Err(Nsec3Error::Short) };
        let iterations = u16::from_be_bytes([high, low]);
        if algorithm != 1 {
            return Err(Nsec3Error::Algorithm);
        }
        if iterations > NSEC3_ITERATIONS_MAX {
            return Err(Nsec3Error::Iterations(iterations));
        }
        let salt = rest.get(..usize::from(salt_bytes)).ok_or(Nsec3Error::Short)?;
        Ok(Self { iterations, salt })
    }

    /// Hashes the canonical form of `name` (RFC 5155 5).
    #[must_use]
    pub fn hash(&self, name: NameRef<'_>) -> [u8; HASH_BYTES] {
        let mut canonical = [0u8; wire::limits::NAME_BYTES_MAX];
        let bytes = &mut canonical[..name.as_bytes().len()];
        bytes.copy_from_slice(name.as_bytes());
        // RFC 5155 5: the owner name is in the canonical form of RFC 4034 6.2. Length bytes are no letters.
        bytes.make_ascii_lowercase();
        let mut hash: [u8; HASH_BYTES] = Sha1::new().chain_update(bytes).chain_update(self.salt).finalize().into();
        for _ in 0..self.iterations {
            hash = Sha1::new().chain_update(hash).chain_update(self.salt).finalize().into();
        }
        hash
    }

    /// The first label of the NSEC3 owner for `name`.
    #[must_use]
    pub fn label(&self, name: NameRef<'_>) -> [u8; LABEL_BYTES] {
        base32hex(&self.hash(name))
    }
}

/// Whether an NSEC3 record has the opt-out flag.
#[must_use]
pub fn is_opt_out(rdata: &[u8]) -> bool {
    rdata.get(1).is_some_and(|flags| flags & FLAG_OPT_OUT != 0)
}

/// Base32 with the extended hex alphabet, lower case (RFC 4648 7).
fn base32hex(hash: &[u8; HASH_BYTES]) -> [u8; LABEL_BYTES] {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
    let mut label = [0; LABEL_BYTES];
    for (group, digits) in hash.chunks_exact(5).zip(label.chunks_exact_mut(8)) {
        let bits = group.iter().fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
        for (place, digit) in digits.iter_mut().enumerate() {
            *digit = ALPHABET[(bits >> (35 - 5 * place) & 31) as usize];
        }
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::name::Name;

    /// RFC 5155 appendix A: salt aabbccdd, 12 iterations.
    #[test]
    fn nsec3_hashes_match_rfc_5155_appendix_a() {
        let params = Nsec3Params { iterations: 12, salt: &[0xaa, 0xbb, 0xcc, 0xdd] };
        for (name, label) in [
            ("example", "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom"),
            ("a.example", "35mthgpgcu1qg68fab165klnsnk3dpvl"),
            ("ai.example", "gjeqe526plbf1g8mklp59enfd789njgi"),
            ("NS1.example", "2t7b4g4vsa5smi47k61mv5bv1a22bojr"),
            ("*.w.example", "r53bq7cc2uvmubfu5ocmm6pers9tk9en"),
            ("x.y.w.example", "2vptu5timamqttgl4luu9kg21e0aor3s"),
        ] {
            let name: Name = name.parse().unwrap();
            assert_eq!(params.label(name.as_ref()), label.as_bytes(), "{name}");
        }
    }

    #[test]
    fn parameters_are_bounded() {
        assert_eq!(Nsec3Params::from_rdata(&[1, 0, 0, 151, 0]), Err(Nsec3Error::Iterations(151)));
        assert_eq!(Nsec3Params::from_rdata(&[2, 0, 0, 0, 0]), Err(Nsec3Error::Algorithm));
        assert_eq!(Nsec3Params::from_rdata(&[1, 0, 0, 150, 2, 7]), Err(Nsec3Error::Short));
        let params = Nsec3Params { iterations: 150, salt: &[7] };
        assert_eq!(Nsec3Params::from_rdata(&[1, 1, 0, 150, 1, 7, 20]), Ok(params));
    }
}
