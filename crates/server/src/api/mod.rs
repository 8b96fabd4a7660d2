//! The HTTP API.
pub(crate) mod types;
