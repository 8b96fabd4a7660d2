//! Splits the bytes of a zone file into tokens, entry by entry (RFC 1035 5.1).
//!
//! An *entry* is a "line" in RFC 1035: it ends with a line feed outside of parentheses. Tokens stay in the buffer with
//! their escapes, which are resolved where a token is used.

use super::TextError;
use crate::limits::ENTRY_TOKENS_MAX;

/// The position and properties of one token.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    start: u32,
    end: u32,
    line: u32,
    marks: u8,
}

/// Whether the token was in quotes, which are not part of it.
const QUOTED: u8 = 1;
/// Whether it contains a backslash.
const ESCAPED: u8 = 2;
/// Whether no white space precedes it.
const JOINED: u8 = 4;

impl Token {
    /// Its bytes in `bytes`, the tokenised buffer.
    pub(crate) fn word<'a>(&self, bytes: &'a [u8]) -> Word<'a> {
        Word { bytes: &bytes[self.start as usize..self.end as usize], marks: self.marks }
    }

    /// Start of the token in the tokenised buffer.
    pub(crate) const fn start(&self) -> usize {
        self.start as usize
    }

    /// End of the token in that buffer.
    pub(crate) const fn end(&self) -> usize {
        self.end as usize
    }

    /// The line on which it starts, counted from 0 at the start of tokenising.
    #[must_use]
    pub const fn line(&self) -> u32 {
        self.line
    }
}

/// A token with its text.
#[derive(Clone, Copy, Debug)]
pub struct Word<'a> {
    bytes: &'a [u8],
    marks: u8,
}

impl<'a> Word<'a> {
    /// The bytes as written: without quotes, with escapes.
    #[must_use]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Whether it was in quotes.
    #[must_use]
    pub const fn is_quoted(self) -> bool {
        self.marks & QUOTED != 0
    }

    /// Whether it contains a backslash.
    #[must_use]
    pub const fn is_escaped(self) -> bool {
        self.marks & ESCAPED != 0
    }

    /// Whether it directly follows the previous token, as in `key="value"`.
    #[must_use]
    pub const fn is_joined(self) -> bool {
        self.marks & JOINED != 0
    }

    /// Whether it consists of these characters, neither quoted nor escaped.
    #[must_use]
    pub fn is_bare(self, text: &[u8]) -> bool {
        self.marks & (QUOTED | ESCAPED) == 0 && self.bytes == text
    }

    /// A word outside of a tokenised buffer. `text` may contain escapes.
    pub(crate) fn unquoted(bytes: &'a [u8]) -> Self {
        Self { bytes, marks: if bytes.contains(&b'\\') { ESCAPED } else { 0 } }
    }

    /// Appends its bytes to `out`, with escapes resolved.
    pub(crate) fn text(self, out: &mut Vec<u8>) -> Result<(), TextError> {
        super::bytes::scan_text(self, out)
    }

    /// The bytes of a token without escapes and quotes: a number, a mnemonic, encoded bytes.
    pub(crate) fn plain(self) -> Result<&'a [u8], TextError> {
        if self.marks & (QUOTED | ESCAPED) == 0 { Ok(self.bytes) } else { Err(TextError::NotPlain) }
    }
}

/// The result of tokenising at one offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A whole entry, which may have no token.
    Entry {
        /// Offset of the next entry.
        next: usize,
        /// Number of line ends in the entry.
        lines: u32,
        /// Whether the entry starts with white space, so that it has the owner of the previous record (RFC 1035 5.1).
        owner_omitted: bool,
    },
    /// The buffer ends within the entry.
    More,
    /// There are no more bytes.
    End,
}

/// The meaning of a byte for the tokeniser.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Space,
    LineEnd,
    Quote,
    Open,
    Close,
    Comment,
    Escape,
}

const KINDS: [Kind; 256] = {
    let mut kinds = [Kind::Plain; 256];
    kinds[b' ' as usize] = Kind::Space;
    kinds[b'\t' as usize] = Kind::Space;
    // CR LF ends a line. Another CR is white space.
    kinds[b'\r' as usize] = Kind::Space;
    kinds[b'\n' as usize] = Kind::LineEnd;
    kinds[b'"' as usize] = Kind::Quote;
    kinds[b'(' as usize] = Kind::Open;
    kinds[b')' as usize] = Kind::Close;
    kinds[b';' as usize] = Kind::Comment;
    kinds[b'\\' as usize] = Kind::Escape;
    kinds
};

/// The state of the tokeniser within an entry.
struct State {
    at: usize,
    lines: u32,
    /// The line of the open parenthesis.
    open: Option<u32>,
    /// End of the previous token.
    joined_at: usize,
}

/// Splits the entry at `start` of `buffer` into `tokens`, which is cleared first.
///
/// `is_last`: nothing follows the buffer. Lines without tokens are entries too.
///
/// # Errors
/// The error and its line, counted from 0 at `start`.
pub fn tokenize(buffer: &[u8], start: usize, is_last: bool, tokens: &mut Vec<Token>) -> Result<Step, (u32, TextError)> {
    tokens.clear();
    if start >= buffer.len() {
        return Ok(if is_last { Step::End } else { Step::More });
    }
    let owner_omitted = KINDS[buffer[start] as usize] == Kind::Space;
    let mut state = State { at: start, lines: 0, open: None, joined_at: usize::MAX };
    loop {
        let Some(&byte) = buffer.get(state.at) else {
            return end_of_buffer(&state, is_last, owner_omitted);
        };
        match KINDS[byte as usize] {
            Kind::Space => state.at += 1,
            Kind::LineEnd => {
                state.at += 1;
                state.lines += 1;
                if state.open.is_none() {
                    return Ok(Step::Entry { next: state.at, lines: state.lines, owner_omitted });
                }
            }
            Kind::Comment => {
                state.at += buffer[state.at..].iter().position(|&o| o == b'\n').unwrap_or(buffer.len() - state.at);
            }
            // RFC 1035 5.1 has one level of parentheses. Nested ones are an error, as in NSD and Knot.
            Kind::Open if state.open.is_some() => return Err((state.lines, TextError::ParenthesisNested)),
            Kind::Open => {
                state.open = Some(state.lines);
                state.at += 1;
            }
            Kind::Close if state.open.is_none() => return Err((state.lines, TextError::ParenthesisUnopened)),
            Kind::Close => {
                state.open = None;
                state.at += 1;
            }
            kind => {
                if tokens.len() == ENTRY_TOKENS_MAX {
                    return Err((state.lines, TextError::EntryLong));
                }
                let token = if kind == Kind::Quote { quoted(buffer, &mut state)? } else { plain(buffer, &mut state) };
                match token {
                    // A token at the end of the buffer may continue in the next bytes.
                    Some(token) if state.at < buffer.len() || is_last => tokens.push(token),
                    Some(_) => return Ok(Step::More),
                    None if is_last => return Err((state.lines, TextError::QuoteOpen)),
                    None => return Ok(Step::More),
                }
                state.joined_at = state.at;
            }
        }
    }
}

fn end_of_buffer(state: &State, is_last: bool, owner_omitted: bool) -> Result<Step, (u32, TextError)> {
    match state.open {
        _ if !is_last => Ok(Step::More),
        Some(line) => Err((line, TextError::ParenthesisOpen)),
        // The last line may lack its line feed.
        None => Ok(Step::Entry { next: state.at, lines: state.lines, owner_omitted }),
    }
}

/// A token without quotes.
fn plain(buffer: &[u8], state: &mut State) -> Option<Token> {
    let start = state.at;
    let mut marks = if state.joined_at == start { JOINED } else { 0 };
    let line = state.lines;
    let mut at = start;
    loop {
        match buffer.get(at).map(|&byte| KINDS[byte as usize]) {
            Some(Kind::Plain) => at += 1,
            Some(Kind::Escape) => {
                marks |= ESCAPED;
                // An escaped line end is not part of a token. The backslash stays, and is an error later.
                at += if buffer.get(at + 1).is_none_or(|&byte| byte == b'\n') { 1 } else { 2 };
            }
            _ => break,
        }
    }
    state.at = at.min(buffer.len());
    Some(Token { start: start as u32, end: state.at as u32, line, marks })
}

/// A token in quotes; `None` if the buffer ends before the closing quote.
fn quoted(buffer: &[u8], state: &mut State) -> Result<Option<Token>, (u32, TextError)> {
    let mut marks = if state.joined_at == state.at { QUOTED | JOINED } else { QUOTED };
    let line = state.lines;
    let start = state.at + 1;
    let mut at = start;
    loop {
        match buffer.get(at) {
            None => return Ok(None),
            Some(b'"') => break,
            Some(b'\\') => {
                marks |= ESCAPED;
                at += if buffer.get(at + 1) == Some(&b'\n') { 1 } else { 2 };
            }
            // RFC 1035 5.1 allows line ends in quotes. Outside of parentheses, a missing quote is more likely. Knot has
            // the same rule.
            Some(b'\n') if state.open.is_none() => return Err((line, TextError::QuoteOpen)),
            Some(b'\n') => {
                state.lines += 1;
                at += 1;
            }
            Some(_) => at += 1,
        }
    }
    state.at = at + 1;
    Ok(Some(Token { start: start as u32, end: at as u32, line, marks }))
}
