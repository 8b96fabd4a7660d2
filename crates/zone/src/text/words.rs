//! The tokens of one record's rdata, taken one after the other.

use super::TextError;
use super::token::{Token, Word};

/// A cursor over the tokens of one entry.
#[derive(Clone, Debug)]
pub struct Words<'t> {
    octets: &'t [u8],
    tokens: &'t [Token],
    at: usize,
}

impl<'t> Words<'t> {
    /// All of `tokens`, which lie in `octets`.
    #[must_use]
    pub const fn new(octets: &'t [u8], tokens: &'t [Token]) -> Self {
        Self { octets, tokens, at: 0 }
    }

    /// Takes the next token, if there is one.
    pub fn take(&mut self) -> Option<Word<'t>> {
        let token = self.tokens.get(self.at)?;
        self.at += 1;
        Some(token.word(self.octets))
    }

    /// Takes the next token.
    ///
    /// # Errors
    /// [`TextError::Missing`] when none is left.
    pub fn expect(&mut self) -> Result<Word<'t>, TextError> {
        self.take().ok_or(TextError::Missing)
    }

    /// Takes the next token, which neither quotes nor escapes may stand in.
    pub(crate) fn plain(&mut self) -> Result<&'t [u8], TextError> {
        self.expect()?.plain()
    }

    /// The next token, left where it is.
    #[must_use]
    pub fn peek(&self) -> Option<Word<'t>> {
        self.tokens.get(self.at).map(|token| token.word(self.octets))
    }

    /// Whether nothing is left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.at == self.tokens.len()
    }

    /// The line of the token that was taken last, or of the first; the entry's first line is 0.
    #[must_use]
    pub fn line(&self) -> u32 {
        self.tokens.get(self.at.saturating_sub(1)).map_or(0, Token::line)
    }
}
