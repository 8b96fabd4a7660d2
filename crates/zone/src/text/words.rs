//! A cursor over the tokens of a record's rdata.

use super::token::{Token, Word};
use super::{Part, TextError};

/// A cursor over the tokens of one entry.
#[derive(Clone, Debug)]
pub struct Words<'t> {
    bytes: &'t [u8],
    tokens: &'t [Token],
    at: usize,
    /// The part of the entry that the next tokens belong to.
    part: Option<Part>,
    /// The token at fault, if it is not the last one taken.
    fault: Option<usize>,
    /// The first name that seems to lack its trailing dot.
    undotted: Option<usize>,
}

impl<'t> Words<'t> {
    /// Creates a cursor over `tokens`, whose text is in `bytes`.
    #[must_use]
    pub const fn new(bytes: &'t [u8], tokens: &'t [Token]) -> Self {
        Self { bytes, tokens, at: 0, part: None, fault: None, undotted: None }
    }

    /// Takes the next token, if there is one.
    pub fn take(&mut self) -> Option<Word<'t>> {
        let token = self.tokens.get(self.at)?;
        self.at += 1;
        Some(token.word(self.bytes))
    }

    /// Takes the next token.
    ///
    /// # Errors
    /// [`TextError::Missing`] when none is left.
    pub fn expect(&mut self) -> Result<Word<'t>, TextError> {
        self.take().ok_or(TextError::Missing)
    }

    /// Takes the next token, which must have neither quotes nor escapes.
    pub(crate) fn plain(&mut self) -> Result<&'t [u8], TextError> {
        self.expect()?.plain()
    }

    /// The next token, without taking it.
    #[must_use]
    pub fn peek(&self) -> Option<Word<'t>> {
        self.tokens.get(self.at).map(|token| token.word(self.bytes))
    }

    /// Whether no token is left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.at == self.tokens.len()
    }

    /// The buffer that the tokens point into.
    pub(crate) const fn bytes(&self) -> &'t [u8] {
        self.bytes
    }

    /// Sets the part of the entry that the next tokens belong to.
    pub(crate) const fn begin(&mut self, part: Part) {
        self.part = Some(part);
    }

    /// The part of the entry that the last tokens belong to.
    pub(crate) const fn part(&self) -> Option<Part> {
        self.part
    }

    /// Number of tokens taken so far.
    pub(crate) const fn read_count(&self) -> usize {
        self.at
    }

    /// Sets the token at fault, by its index.
    pub(crate) const fn set_fault(&mut self, token: usize) {
        self.fault = Some(token);
    }

    /// Removes the blame: the last token taken is at fault again.
    pub(crate) const fn clear_fault(&mut self) {
        self.fault = None;
    }

    /// Notes that the last token taken seems to lack its trailing dot.
    pub(crate) fn note_undotted(&mut self) {
        self.undotted.get_or_insert(self.at.saturating_sub(1));
    }

    /// The first name that seems to lack its trailing dot.
    pub(crate) fn undotted(&self) -> Option<Word<'t>> {
        self.undotted.and_then(|at| self.tokens.get(at)).map(|token| token.word(self.bytes))
    }

    /// The blamed token, or else the last one taken, or else the first.
    pub(crate) fn at_fault(&self) -> Option<&'t Token> {
        self.tokens.get(self.fault.unwrap_or(self.at.saturating_sub(1)))
    }

    /// The line of the token at fault, counted from 0 in the entry.
    #[must_use]
    pub fn line(&self) -> u32 {
        self.at_fault().map_or(0, Token::line)
    }
}
