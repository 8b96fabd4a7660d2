//! Parses policies.

use super::lexer::{TextError, Token, TokenKind, Tokens};
use crate::external::SocketPath;
use crate::limits::SOCKET_PATH_BYTES_MAX;
use crate::rule::{Effect, Identity, KeyLimits, Rule, RuleType, Scope};
use crate::table::Policy;
use core::num::NonZeroU16;
use wire::name::Name;
use wire::number::Rtype;
use zone::text::scan_rtype;

/// Reads a whole policy.
///
/// # Errors
/// What is wrong, with line and column.
pub fn parse_policy(text: &str) -> Result<Policy, TextError> {
    let mut tokens = Tokens::new(text);
    let (mut rules, mut limits) = (Vec::new(), Vec::new());
    while let Some(token) = tokens.next_token()? {
        match &token.kind {
            TokenKind::Word(word) if word.eq_ignore_ascii_case("limit") => limits.push(parse_limits(&mut tokens)?),
            _ => rules.push(parse_rule(&token, &mut tokens)?),
        }
    }
    Policy::new(rules, limits).map_err(|error| tokens.error_here(error.to_string()))
}

/// Reads the rest of a rule after its first word, including the semicolon.
///
/// # Errors
/// What is wrong, with line and column.
pub fn parse_rule(first: &Token, tokens: &mut Tokens<'_>) -> Result<Rule, TextError> {
    let effect = match first.text().to_ascii_lowercase().as_str() {
        "grant" => Effect::Grant,
        "deny" => Effect::Deny,
        other => return Err(first.error(format!("expected `grant` or `deny`, found `{other}`"))),
    };
    let (identity_at, text) = tokens.expect_word("the name of a key, or `*`")?;
    let (token, word) = tokens.expect_word("a kind of rule, such as `name` or `zonesub`")?;
    let (identity, scope) = if word.eq_ignore_ascii_case("external") {
        (Identity::any_key(), parse_external(&identity_at, &text, tokens)?)
    } else {
        let name = parse_name(&identity_at, &text)?;
        (Identity::of_name(name.as_ref()), parse_scope(&token, &word, &name, tokens)?)
    };
    let mut types = Vec::new();
    loop {
        let token = tokens.expect("a type or `;`")?;
        match &token.kind {
            TokenKind::Word(word) => types.push(parse_type(&token, word)?),
            TokenKind::End => break,
            _ => return Err(token.error(format!("expected a type or `;`, found `{}`", token.text()))),
        }
    }
    Ok(Rule { effect, identity, scope, types })
}

/// Reads an external rule. The socket stands in the place of the key. BIND requires a name after it and ignores it.
fn parse_external(socket_at: &Token, text: &str, tokens: &mut Tokens<'_>) -> Result<Scope, TextError> {
    let Some(socket) = text.strip_prefix("local:").and_then(SocketPath::new) else {
        return Err(socket_at.error(format!(
            "`external` needs `local:` and the absolute path of a socket, of at most {SOCKET_PATH_BYTES_MAX} bytes, \
             without spaces, quotes and backslashes, in the place of a key: \"local:/run/auth.sock\""
        )));
    };
    let (token, name) = tokens.expect_word("`*`")?;
    if matches!(name.as_str(), "*" | ".") {
        Ok(Scope::External(socket))
    } else {
        Err(token.error("`external` takes no name: write `*` in its place"))
    }
}

fn parse_scope(word_at: &Token, word: &str, identity: &Name, tokens: &mut Tokens<'_>) -> Result<Scope, TextError> {
    let word = word.to_ascii_lowercase();
    let of_self = match word.as_str() {
        "zonesub" => return Ok(Scope::ZoneSub),
        "name" | "subdomain" | "wildcard" => None,
        "self" => Some(Scope::SelfName),
        "selfsub" => Some(Scope::SelfSub),
        "selfwild" => Some(Scope::SelfWild),
        "tcp-self" => Some(Scope::TcpSelf),
        "6to4-self" => Some(Scope::SixToFourSelf),
        _ if word.starts_with("krb5-") || word.starts_with("ms-") => {
            return Err(word_at.error(format!("`{word}` needs GSS-TSIG, which is not supported")));
        }
        _ => {
            return Err(word_at.error(format!(
                "`{word}` is no kind of rule; there are name, subdomain, zonesub, wildcard, self, selfsub, selfwild, \
                 tcp-self, 6to4-self and external"
            )));
        }
    };
    let (token, text) = tokens.expect_word("a name")?;
    let name = parse_name(&token, &text)?;
    if let Some(scope) = of_self {
        // As in BIND: a name that has no effect is refused.
        let is_identity = !scope.is_of_address() && name == *identity;
        if !(name.as_ref().is_root() || is_identity) {
            return Err(token.error(format!("`{word}` takes no name: write `.` in its place")));
        }
        return Ok(scope);
    }
    if scan_type(&text).is_some() {
        return Err(token.error(format!("the name is missing: `{text}` is a type")));
    }
    match (word.as_str(), name.as_ref().parent()) {
        ("name", _) => Ok(Scope::Name(name)),
        ("subdomain", _) => Ok(Scope::Subdomain(name)),
        (_, Some(above)) if name.as_ref().is_wildcard() => Ok(Scope::Wildcard(above.to_name())),
        _ => Err(token.error(format!("`{text}` is no wildcard: it does not begin with `*.`"))),
    }
}

/// Reads `A`, `TYPE65` or `A(4)`. A maximum of 0 means no maximum.
fn parse_type(token: &Token, word: &str) -> Result<RuleType, TextError> {
    let (mnemonic, max) = match word.split_once('(') {
        Some((mnemonic, rest)) => (mnemonic, Some(rest)),
        None => (word, None),
    };
    let rtype = scan_type(mnemonic).ok_or_else(|| token.error(format!("`{mnemonic}` is no type")))?;
    let Some(max) = max else { return Ok(RuleType { rtype, records_max: None }) };
    let max = max.strip_suffix(')').and_then(|max| max.parse().ok());
    let max: u16 = max.ok_or_else(|| {
        token.error(format!("expected a type with a number up to 65535, such as `A(4)`, found `{word}`"))
    })?;
    Ok(RuleType { rtype, records_max: NonZeroU16::new(max) })
}

fn scan_type(word: &str) -> Option<Rtype> {
    if word.eq_ignore_ascii_case("ANY") { Some(Rtype::ANY) } else { scan_rtype(word.as_bytes()) }
}

fn parse_name(token: &Token, text: &str) -> Result<Name, TextError> {
    if text == "@" {
        return Err(token
            .error("`@` is not allowed here; write the name of the zone, or `.`, which is what `@` means to named"));
    }
    match text.parse::<Name>() {
        Ok(name) => Ok(name.as_ref().to_canonical()),
        Err(error) => Err(token.error(format!("`{text}` is not a domain name: {error}"))),
    }
}

/// Reads the rest of a limit after the word `limit`.
fn parse_limits(tokens: &mut Tokens<'_>) -> Result<KeyLimits, TextError> {
    let (token, text) = tokens.expect_word("the name of a key, or `*`")?;
    let mut limits = KeyLimits::none(Identity::of_name(parse_name(&token, &text)?.as_ref()));
    loop {
        let token = tokens.expect("a limit or `;`")?;
        let word = match &token.kind {
            TokenKind::Word(word) => word.to_ascii_lowercase(),
            TokenKind::End => return Ok(limits),
            _ => return Err(token.error(format!("expected a limit or `;`, found `{}`", token.text()))),
        };
        let words = limits.numbers().map(|(word, _)| word);
        let index = words
            .iter()
            .position(|known| *known == word)
            .ok_or_else(|| token.error(format!("`{word}` is no limit; there are {}", words.join(", "))))?;
        let (token, number) = tokens.expect_word("a number")?;
        let number: u32 =
            number.parse().map_err(|_| token.error(format!("`{number}` is no number up to 4294967295")))?;
        if let Some(there) = limits.numbers_mut().into_iter().nth(index)
            && there.replace(number).is_some()
        {
            return Err(token.error(format!("`{word}` is given twice")));
        }
    }
}
