//! The key, and the block cipher from which pseudonyms are derived.

use aes::Aes128;
use aes::cipher::{BlockEncrypt, KeyInit};
use std::fmt;

/// Block size of AES.
pub(super) const BLOCK_BYTES: usize = 16;
/// One block.
pub(super) type Block = [u8; BLOCK_BYTES];

/// The secret from which pseudonyms are derived. With the same key, an address or name has the same pseudonym in every
/// trace. The key can undo all pseudonyms.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; Self::BYTES]);

impl Key {
    /// Size of a key: an AES-128 key, and the same for the pad (Crypto-PAn).
    pub const BYTES: usize = 2 * BLOCK_BYTES;

    /// A key from these bytes, which must be secret.
    #[must_use]
    pub const fn new(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The cipher with the first half as key.
    pub(super) fn cipher(&self) -> Cipher {
        Cipher::new(*self.halves().0)
    }

    /// The second half.
    pub(super) fn pad(&self) -> Block {
        *self.halves().1
    }

    /// A cipher for another purpose. Its blocks reveal nothing about those of the other ciphers.
    pub(super) fn derived(&self, purpose: &Block) -> Cipher {
        Cipher::new(self.cipher().block(*purpose))
    }

    fn halves(&self) -> (&Block, &Block) {
        let (blocks, _) = self.0.as_chunks::<BLOCK_BYTES>();
        (&blocks[0], &blocks[1])
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// AES-128 (FIPS 197) on single blocks.
#[derive(Clone)]
pub(super) struct Cipher(Aes128);

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cipher(..)")
    }
}

impl Cipher {
    fn new(key: Block) -> Self {
        Self(Aes128::new(&key.into()))
    }

    /// Encrypts one block.
    pub(super) fn block(&self, block: Block) -> Block {
        let mut block = aes::Block::from(block);
        self.0.encrypt_block(&mut block);
        block.into()
    }

    /// Encrypts several blocks at once, which is faster.
    pub(super) fn blocks(&self, blocks: &mut [aes::Block]) {
        self.0.encrypt_blocks(blocks);
    }

    /// A block that depends on `purpose` and all of `bytes`: CBC-MAC, which is secure because the length comes first.
    pub(super) fn digest(&self, purpose: [u8; 4], bytes: &[u8]) -> Block {
        let mut state = [0; BLOCK_BYTES];
        state[..4].copy_from_slice(&purpose);
        state[4..12].copy_from_slice(&(bytes.len() as u64).to_be_bytes());
        let mut state = self.block(state);
        for part in bytes.chunks(BLOCK_BYTES) {
            state.iter_mut().zip(part).for_each(|(state, byte)| *state ^= byte);
            state = self.block(state);
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::HEXLOWER;

    #[test]
    fn the_cipher_is_aes_128() {
        // FIPS 197, appendix C.1.
        let key: Block = std::array::from_fn(|at| at as u8);
        let plain: Block = std::array::from_fn(|at| (at * 0x11) as u8);
        let expected = HEXLOWER.decode(b"69c4e0d86a7b0430d8cdb78070b4c55a").unwrap();
        assert_eq!(Cipher::new(key).block(plain).as_slice(), expected);
    }

    #[test]
    fn debug_output_hides_the_key() {
        assert_eq!(format!("{:?}", Key::new([7; Key::BYTES])), "Key(..)");
    }

    #[test]
    fn digests_differ_by_purpose_length_and_bytes() {
        let cipher = Key::new([7; 32]).cipher();
        let all = [
            cipher.digest([0; 4], b""),
            cipher.digest([0; 4], &[0]),
            cipher.digest([0; 4], &[0; 16]),
            cipher.digest([0; 4], &[0; 17]),
            cipher.digest([0, 0, 0, 1], b""),
        ];
        assert!(all.iter().enumerate().all(|(at, one)| all[..at].iter().all(|other| other != one)));
    }
}
