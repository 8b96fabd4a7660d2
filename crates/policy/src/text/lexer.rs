//! Words of a text in the syntax of `named.conf`, each with its place.

use core::fmt;

/// What is wrong with a text, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextError {
    /// From one.
    pub line: usize,
    /// From one, in characters.
    pub column: usize,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.what)
    }
}

/// What a token is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TokenKind {
    /// A word, quotes taken off.
    Word(String),
    /// `{`
    Open,
    /// `}`
    Close,
    /// `;`
    End,
}

/// A token and its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    /// From one.
    pub line: usize,
    /// From one, in characters.
    pub column: usize,
    /// What it is.
    pub kind: TokenKind,
}

impl Token {
    /// Says that something is wrong here.
    #[must_use]
    pub fn error(&self, what: impl Into<String>) -> TextError {
        TextError { line: self.line, column: self.column, what: what.into() }
    }

    /// How it is called where it is not wanted.
    #[must_use]
    pub fn shown(&self) -> &str {
        match &self.kind {
            TokenKind::Word(word) => word,
            TokenKind::Open => "{",
            TokenKind::Close => "}",
            TokenKind::End => ";",
        }
    }
}

/// The tokens of a text, one after the other.
#[derive(Clone, Debug)]
pub struct Tokens<'t> {
    rest: &'t str,
    line: usize,
    column: usize,
}

impl<'t> Tokens<'t> {
    /// Begins at the first character.
    #[must_use]
    pub const fn new(text: &'t str) -> Self {
        Self { rest: text, line: 1, column: 1 }
    }

    /// The next token; `None` at the end.
    ///
    /// # Errors
    /// A quote or a comment that does not end.
    pub fn next_token(&mut self) -> Result<Option<Token>, TextError> {
        self.skip()?;
        let (line, column) = (self.line, self.column);
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        let kind = match first {
            '{' => self.one(TokenKind::Open),
            '}' => self.one(TokenKind::Close),
            ';' => self.one(TokenKind::End),
            '"' => self.quoted()?,
            _ => {
                let end = (0..self.rest.len()).find(|&at| self.ends_word(at)).unwrap_or(self.rest.len());
                let word = self.rest[..end].to_owned();
                self.advance(end);
                TokenKind::Word(word)
            }
        };
        Ok(Some(Token { line, column, kind }))
    }

    /// A token that must be there.
    ///
    /// # Errors
    /// As [`Self::next_token`]; and the end, where `wanted` was wanted.
    pub fn expect(&mut self, wanted: &str) -> Result<Token, TextError> {
        match self.next_token()? {
            Some(token) => Ok(token),
            None => Err(self.error_here(format!("expected {wanted}, found the end"))),
        }
    }

    /// A word that must be there.
    ///
    /// # Errors
    /// As [`Self::expect`], and another token.
    pub fn expect_word(&mut self, wanted: &str) -> Result<(Token, String), TextError> {
        let token = self.expect(wanted)?;
        match &token.kind {
            TokenKind::Word(word) => {
                let word = word.clone();
                Ok((token, word))
            }
            _ => Err(token.error(format!("expected {wanted}, found `{}`", token.shown()))),
        }
    }

    /// Says that something is wrong where reading is.
    #[must_use]
    pub fn error_here(&self, what: impl Into<String>) -> TextError {
        TextError { line: self.line, column: self.column, what: what.into() }
    }

    fn ends_word(&self, at: usize) -> bool {
        let rest = &self.rest.as_bytes()[at..];
        matches!(rest[0], b' ' | b'\t' | b'\r' | b'\n' | b'{' | b'}' | b';' | b'"' | b'#')
            || rest.starts_with(b"//")
            || rest.starts_with(b"/*")
    }

    fn one(&mut self, kind: TokenKind) -> TokenKind {
        self.advance(1);
        kind
    }

    /// A backslash takes the meaning from a quote, and from nothing else: it belongs to the name that is quoted.
    fn quoted(&mut self) -> Result<TokenKind, TextError> {
        let (mut word, mut is_escaped) = (String::new(), false);
        for (at, character) in self.rest.char_indices().skip(1) {
            match character {
                '"' if is_escaped => {
                    word.pop();
                    word.push('"');
                }
                '"' => {
                    self.advance(at + 1);
                    return Ok(TokenKind::Word(word));
                }
                '\n' => break,
                other => word.push(other),
            }
            is_escaped = character == '\\' && !is_escaped;
        }
        Err(self.error_here("a quote is not closed"))
    }

    /// Leaves out blanks and comments, of all three kinds.
    fn skip(&mut self) -> Result<(), TextError> {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.advance(blank);
            let end = if self.rest.starts_with('#') || self.rest.starts_with("//") {
                self.rest.find('\n').unwrap_or(self.rest.len())
            } else if self.rest.starts_with("/*") {
                let end = self.rest.find("*/").ok_or_else(|| self.error_here("a comment does not end"))?;
                end + 2
            } else {
                return Ok(());
            };
            self.advance(end);
        }
    }

    fn advance(&mut self, bytes: usize) {
        let (taken, rest) = self.rest.split_at(bytes);
        for character in taken.chars() {
            if character == '\n' {
                (self.line, self.column) = (self.line + 1, 1);
            } else {
                self.column += 1;
            }
        }
        self.rest = rest;
    }
}
