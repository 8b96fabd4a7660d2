//! From bytes of a zone file to tokens, one entry at a time (RFC 1035 5.1).
//!
//! An *entry* is what RFC 1035 calls a line: it ends with a line feed outside of parentheses. Tokens stay where they
//! are in the buffer, escapes included; what an escape means is known only where the token is used.

use super::TextError;
use crate::limits::ENTRY_TOKENS_MAX;

/// One token of an entry: where it stands, and what stands around it.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    start: u32,
    end: u32,
    line: u32,
    marks: u8,
}

/// The token stood between quotes (they are not part of it).
const QUOTED: u8 = 1;
/// It holds a backslash.
const ESCAPED: u8 = 2;
/// No white space stood between it and the token before.
const JOINED: u8 = 4;

impl Token {
    /// Its bytes in `bytes`, the buffer that was tokenised.
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

    /// On which line it begins; the line that tokenising began on counts as 0.
    #[must_use]
    pub const fn line(&self) -> u32 {
        self.line
    }
}

/// One token as those who scan it see it.
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

    /// Whether it stood between quotes.
    #[must_use]
    pub const fn is_quoted(self) -> bool {
        self.marks & QUOTED != 0
    }

    /// Whether it holds a backslash.
    #[must_use]
    pub const fn is_escaped(self) -> bool {
        self.marks & ESCAPED != 0
    }

    /// Whether it follows the token before it at once, as in `key="value"`.
    #[must_use]
    pub const fn is_joined(self) -> bool {
        self.marks & JOINED != 0
    }

    /// Whether it is these characters, neither quoted nor escaped.
    #[must_use]
    pub fn is_bare(self, text: &[u8]) -> bool {
        self.marks & (QUOTED | ESCAPED) == 0 && self.bytes == text
    }

    /// A word that stands for itself, not in a buffer that was tokenised: `text` may hold escapes.
    pub(crate) fn unquoted(bytes: &'a [u8]) -> Self {
        Self { bytes, marks: if bytes.contains(&b'\\') { ESCAPED } else { 0 } }
    }

    /// Appends its bytes to `out`, escapes taken for what they mean.
    pub(crate) fn text(self, out: &mut Vec<u8>) -> Result<(), TextError> {
        super::bytes::scan_text(self, out)
    }

    /// The bytes of a token in which no escape and no quote has a place: a number, a mnemonic, encoded bytes.
    pub(crate) fn plain(self) -> Result<&'a [u8], TextError> {
        if self.marks & (QUOTED | ESCAPED) == 0 { Ok(self.bytes) } else { Err(TextError::NotPlain) }
    }
}

/// What was found at one place of the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A whole entry; it may have no token.
    Entry {
        /// Where the next entry begins.
        next: usize,
        /// How many line ends the entry had.
        lines: u32,
        /// Whether the entry begins with white space: the owner is the one before (RFC 1035 5.1).
        owner_omitted: bool,
    },
    /// The buffer ends within the entry.
    More,
    /// Nothing is left.
    End,
}

/// What an byte means to the tokeniser.
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
    // CR LF ends a line; a CR elsewhere is white space.
    kinds[b'\r' as usize] = Kind::Space;
    kinds[b'\n' as usize] = Kind::LineEnd;
    kinds[b'"' as usize] = Kind::Quote;
    kinds[b'(' as usize] = Kind::Open;
    kinds[b')' as usize] = Kind::Close;
    kinds[b';' as usize] = Kind::Comment;
    kinds[b'\\' as usize] = Kind::Escape;
    kinds
};

/// Where in an entry the tokeniser stands.
struct State {
    at: usize,
    lines: u32,
    /// The line of the open parenthesis.
    open: Option<u32>,
    /// Where the token before ended.
    joined_at: usize,
}

/// Takes the entry at `start` of `buffer` apart into `tokens`, which is emptied first.
///
/// `is_last` says that nothing follows the buffer. Lines without a token are entries too.
///
/// # Errors
/// What is wrong, and on which line, `start` being on line 0.
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
            // RFC 1035 5.1 knows one level of parentheses; nested ones are an error, as NSD and Knot have it.
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
                    // A token that touches the end may go on in what follows.
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
                // An escaped line end is no part of a token: the backslash stays behind and is an error later on.
                at += if buffer.get(at + 1).is_none_or(|&byte| byte == b'\n') { 1 } else { 2 };
            }
            _ => break,
        }
    }
    state.at = at.min(buffer.len());
    Some(Token { start: start as u32, end: state.at as u32, line, marks })
}

/// A token between quotes; `None` when the buffer ends before it does.
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
            // A line end is a character like others between quotes (RFC 1035 5.1), but where none may be the quote is
            // more likely to have been forgotten. Knot draws the same line.
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
