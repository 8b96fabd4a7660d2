//! Splits text in the syntax of `named.conf` into tokens with line and column.

use core::fmt;

/// An error in a text, with its position.
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

/// The kind of a token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TokenKind {
    /// A word, without quotes.
    Word(String),
    /// `{`
    Open,
    /// `}`
    Close,
    /// `;`
    End,
}

/// A token and its position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    /// From one.
    pub line: usize,
    /// From one, in characters.
    pub column: usize,
    /// The kind, with the text of a word.
    pub kind: TokenKind,
}

impl Token {
    /// An error at this token.
    #[must_use]
    pub fn error(&self, what: impl Into<String>) -> TextError {
        TextError { line: self.line, column: self.column, what: what.into() }
    }

    /// The text of the token, for error messages.
    #[must_use]
    pub fn text(&self) -> &str {
        match &self.kind {
            TokenKind::Word(word) => word,
            TokenKind::Open => "{",
            TokenKind::Close => "}",
            TokenKind::End => ";",
        }
    }
}

/// Reads the tokens of a text.
#[derive(Clone, Debug)]
pub struct Tokens<'t> {
    rest: &'t str,
    line: usize,
    column: usize,
}

impl<'t> Tokens<'t> {
    /// Starts at the first character.
    #[must_use]
    pub const fn new(text: &'t str) -> Self {
        Self { rest: text, line: 1, column: 1 }
    }

    /// The next token; `None` at the end.
    ///
    /// # Errors
    /// An unclosed quote or comment.
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

    /// The next token, which must exist.
    ///
    /// # Errors
    /// As [`Self::next_token`], and at the end of the text. `wanted` names the expected token in the message.
    pub fn expect(&mut self, wanted: &str) -> Result<Token, TextError> {
        match self.next_token()? {
            Some(token) => Ok(token),
            None => Err(self.error_here(format!("expected {wanted}, found the end"))),
        }
    }

    /// The next token, which must be a word.
    ///
    /// # Errors
    /// As [`Self::expect`], and for a token that is no word.
    pub fn expect_word(&mut self, wanted: &str) -> Result<(Token, String), TextError> {
        let token = self.expect(wanted)?;
        match &token.kind {
            TokenKind::Word(word) => {
                let word = word.clone();
                Ok((token, word))
            }
            _ => Err(token.error(format!("expected {wanted}, found `{}`", token.text()))),
        }
    }

    /// An error at the current position.
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

    /// A backslash escapes a quote only. Every other backslash is part of the quoted name.
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

    /// Skips blanks and comments of all three kinds.
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
