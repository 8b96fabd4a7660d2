//! The expression of a claim, parsed by operator precedence.
//!
//! Libraries for expressions do not know selectors, and after replacing selectors by variables their errors would name
//! wrong columns.

use crate::limits::EXPRESSION_DEPTH_MAX;
use std::iter::Peekable;
use std::str::CharIndices;

/// A parsed expression.
#[derive(Debug)]
pub(crate) struct Expression {
    root: Node,
    /// The selectors, from left to right.
    pub(crate) selectors: Vec<Selector>,
}

/// `FIGURE[PARAMETER=VALUE, ...]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selector {
    /// Where it begins, from 1.
    pub(crate) column: usize,
    pub(crate) figure: String,
    /// Parameters with their values.
    pub(crate) parameters: Vec<(String, String)>,
}

impl Selector {
    /// Checks that this selects one cell of each repeat: it names each parameter at most once, and all that have
    /// several values.
    ///
    /// # Errors
    /// It selects more than one cell, or names a parameter twice. The error names the column.
    pub(crate) fn check_one_cell<'p>(
        &self,
        parameters: impl Iterator<Item = (&'p str, Vec<&'p str>)>,
    ) -> Result<(), String> {
        let name = |what: &str| format!("column {}: {}: {what}", self.column, self.figure);
        let count = |parameter: &str| self.parameters.iter().filter(|(named, _)| named == parameter).count();
        let mut open = Vec::new();
        for (parameter, values) in parameters {
            match count(parameter) {
                0 if values.len() > 1 => open.push(format!("{parameter} ({})", values.join(", "))),
                0 | 1 => {}
                _ => return Err(name(&format!("the parameter `{parameter}` is named twice; remove one"))),
            }
        }
        match open.is_empty() {
            true => Ok(()),
            false => Err(name(&format!("selects more than one cell; also name {}", open.join(" and ")))),
        }
    }
}

/// Whether two values are the same text or the same number.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    one == other || number(one).is_some_and(|value| number(other) == Some(value))
}

/// The parameters that selectors of an expression name, with their values.
///
/// # Errors
/// The expression cannot be parsed. The error names the column.
pub(crate) fn selected(value: &str) -> Result<Vec<(String, String)>, String> {
    let parsed = Expression::parse(value)?;
    Ok(parsed.selectors.into_iter().flat_map(|selector| selector.parameters).collect())
}

/// The names of the figures in an expression. Empty if it cannot be parsed.
pub(crate) fn figures(value: &str) -> Vec<String> {
    let parsed = Expression::parse(value);
    parsed.map_or_else(|_| Vec::new(), |all| all.selectors.into_iter().map(|selector| selector.figure).collect())
}

#[derive(Debug)]
enum Node {
    Number(f64),
    /// Index of a selector.
    Selector(usize),
    Negative(Box<Self>),
    Binary(Box<Self>, char, Box<Self>),
}

impl Expression {
    /// Parses an expression. Errors name the column.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { text, letters: text.char_indices().peekable(), selectors: Vec::new() };
        let root = parser.operation(0, 0)?;
        match parser.peek() {
            Some(')') => Err(parser.error("this `)` has no `(`; remove it or add the `(`")),
            Some(letter) => Err(parser.error(&format!("found `{letter}`; write an operator: + - * /"))),
            None => Ok(Self { root, selectors: parser.selectors }),
        }
    }

    /// Computes the expression. `values` has a value for each selector.
    pub(crate) fn evaluate(&self, values: &[f64]) -> f64 {
        self.root.evaluate(values)
    }
}

impl Node {
    fn evaluate(&self, values: &[f64]) -> f64 {
        match self {
            Self::Number(number) => *number,
            Self::Selector(index) => values[*index],
            Self::Negative(node) => -node.evaluate(values),
            Self::Binary(left, operator, right) => {
                let (left, right) = (left.evaluate(values), right.evaluate(values));
                match operator {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    _ => left / right,
                }
            }
        }
    }
}

/// How strongly an operator binds. Zero for other letters.
const fn strength(operator: char) -> u8 {
    match operator {
        '+' | '-' => 1,
        '*' | '/' => 2,
        _ => 0,
    }
}

struct Parser<'t> {
    text: &'t str,
    letters: Peekable<CharIndices<'t>>,
    selectors: Vec<Selector>,
}

impl Parser<'_> {
    /// An operand and all operators after it that bind more strongly than `above`.
    fn operation(&mut self, above: u8, depth: usize) -> Result<Node, String> {
        let mut left = self.operand(depth)?;
        while let Some(operator) = self.peek().filter(|letter| strength(*letter) > above) {
            self.letters.next();
            let right = self.operation(strength(operator), depth)?;
            left = Node::Binary(Box::new(left), operator, Box::new(right));
        }
        Ok(left)
    }

    fn operand(&mut self, depth: usize) -> Result<Node, String> {
        if depth > EXPRESSION_DEPTH_MAX {
            return Err(self.error(&format!("more than {EXPRESSION_DEPTH_MAX} parentheses and signs; use fewer")));
        }
        match self.peek() {
            Some('-') => {
                self.letters.next();
                Ok(Node::Negative(Box::new(self.operand(depth + 1)?)))
            }
            Some('(') => {
                self.letters.next();
                let inner = self.operation(0, depth + 1)?;
                self.expect(')')?;
                Ok(inner)
            }
            Some(letter) if letter.is_ascii_digit() || letter == '.' => self.number(),
            Some(letter) if letter.is_ascii_alphabetic() => self.selector(),
            Some(letter) => Err(self.error(&format!("found `{letter}`; write a number, a figure or `(`"))),
            None => Err(self.error("the expression ends here; write a number, a figure or `(`")),
        }
    }

    fn number(&mut self) -> Result<Node, String> {
        let start = self.position();
        let mut last = ' ';
        let is_part = |letter: char, last: char| {
            letter.is_ascii_alphanumeric() || letter == '.' || (last == 'e' && "+-".contains(letter))
        };
        while let Some((_, letter)) = self.letters.next_if(|(_, letter)| is_part(*letter, last)) {
            last = letter;
        }
        let text = &self.text[start..self.position()];
        let found = text.parse().ok().filter(|number: &f64| number.is_finite());
        found.map(Node::Number).ok_or_else(|| error_at(self.text, start, &format!("`{text}` is not a number")))
    }

    fn selector(&mut self) -> Result<Node, String> {
        let start = self.position();
        let figure = self.word(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter));
        let mut parameters = Vec::new();
        if self.peek() == Some('[') {
            self.letters.next();
            loop {
                parameters.push(self.parameter()?);
                if self.peek() != Some(',') {
                    break;
                }
                self.letters.next();
            }
            self.expect(']')?;
        }
        let column = column(self.text, start);
        self.selectors.push(Selector { column, figure, parameters });
        Ok(Node::Selector(self.selectors.len() - 1))
    }

    /// `PARAMETER=VALUE`. The value may have quotation marks.
    fn parameter(&mut self) -> Result<(String, String), String> {
        self.peek();
        let name = self.word(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter));
        if name.is_empty() {
            return Err(self.error("the name of a parameter is missing; write PARAMETER=VALUE"));
        }
        if self.peek() != Some('=') {
            return Err(self.error(&format!("`{name}` has no value; write PARAMETER=VALUE")));
        }
        self.letters.next();
        let quote = self.peek().filter(|letter| "\"'".contains(*letter));
        let value = if let Some(quote) = quote {
            self.letters.next();
            let value = self.word(|letter| letter != quote);
            self.expect(quote)?;
            value
        } else {
            self.word(|letter| !",]".contains(letter)).trim_end().to_owned()
        };
        if value.is_empty() && quote.is_none() {
            return Err(self.error(&format!("the value of `{name}` is missing; write {name}=VALUE")));
        }
        Ok((name, value))
    }

    fn word(&mut self, is_part: impl Fn(char) -> bool) -> String {
        let mut word = String::new();
        while let Some((_, letter)) = self.letters.next_if(|(_, letter)| is_part(*letter)) {
            word.push(letter);
        }
        word
    }

    fn expect(&mut self, expected: char) -> Result<(), String> {
        match self.peek() {
            Some(letter) if letter == expected => {
                self.letters.next();
                Ok(())
            }
            Some(letter) => Err(self.error(&format!("found `{letter}`; write `{expected}`"))),
            None => Err(self.error(&format!("the expression ends here; write `{expected}`"))),
        }
    }

    /// The next letter that is not a space.
    fn peek(&mut self) -> Option<char> {
        while self.letters.next_if(|(_, letter)| letter.is_whitespace()).is_some() {}
        self.letters.peek().map(|(_, letter)| *letter)
    }

    /// The byte before which the next letter is.
    fn position(&mut self) -> usize {
        self.letters.peek().map_or(self.text.len(), |(at, _)| *at)
    }

    fn error(&mut self, what: &str) -> String {
        let position = self.position();
        error_at(self.text, position, what)
    }
}

fn error_at(text: &str, position: usize, what: &str) -> String {
    format!("column {}: {what}", column(text, position))
}

fn column(text: &str, position: usize) -> usize {
    text[..position].chars().count() + 1
}
