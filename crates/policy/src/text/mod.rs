//! Policies as text: the rules of BIND's `update-policy` in the same syntax, and limits.
//!
//! ```text
//!   grant dhcp.example. zonesub A(4) AAAA DHCID;
//!   deny * name www.example. ANY;
//!   limit dhcp.example. update-records 100 name-records 20;
//! ```

mod lexer;
mod parse;

pub use lexer::{TextError, Token, TokenKind, Tokens};
pub use parse::{parse_policy, parse_rule};

use crate::Policy;
use core::fmt;

impl fmt::Display for Policy {
    /// One rule or limit per line, as [`parse_policy`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rules().iter().try_for_each(|rule| writeln!(f, "{rule}"))?;
        self.limits().iter().try_for_each(|limits| writeln!(f, "{limits}"))
    }
}
