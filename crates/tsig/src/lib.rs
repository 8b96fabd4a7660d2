//! TSIG (RFC 8945): keys, MACs, signed requests and responses. Pure functions, independent of zones and consensus. The
//! current time is an argument.
//!
//! ```text
//!   request --> authenticate --> Verified (which key) + Signer --> response
//! ```
#![forbid(unsafe_code)]

pub mod limits;

// Keys.
mod algorithm;
mod keys;
mod name_table;
pub use algorithm::KeyAlgorithm;
pub use keys::{KeyError, KeyTable, SecretId, TsigKey};
pub use name_table::NameTable;

// MACs.
mod mac;
mod secret_hmac;
// What a MAC covers.
mod digest;

// The server: checks requests and signs responses.
mod authenticate;
mod sign;
pub use authenticate::{Authenticated, TsigReject, Verified, authenticate, authenticate_bytes};
pub use sign::{NoRoom, SequenceSigner, Signer};

// The client: builds UPDATE messages, signs requests, checks responses.
pub mod client;
