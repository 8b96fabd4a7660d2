//! Readable messages for text errors: the word, its part of the record, and what was expected.

use super::fields::{Expected, field_name};
use super::token::Token;
use super::words::Words;
use super::{TextError, print_rtype};
use crate::limits::{ENTRY_BYTES_MAX, ENTRY_TOKENS_MAX, EXCERPT_BYTES_MAX};
use core::fmt;
use wire::limits::RDATA_BYTES_MAX;
use wire::name::NameError;
use wire::number::Rtype;
use wire::rdata::{Field, RdataError, layout};

/// The part of an entry that a word belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The owner of a record.
    Owner,
    /// TTL, class and type.
    Head,
    /// The TTL of a record.
    Ttl,
    /// A field of the rdata, by its index in the layout.
    Field(Rtype, u8),
    /// The rdata as a whole.
    Rdata(Rtype),
    /// The length or the bytes of the generic form (RFC 3597 5).
    Generic(Rtype),
    /// A directive, and what it expects.
    Directive(&'static [&'static str; 2]),
}

/// The position of an error, as far as it is known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fault {
    /// The part of the entry.
    pub part: Option<Part>,
    /// The word as written, in printable ASCII and shortened if it is long.
    pub word: Option<String>,
    /// Column of the word in bytes, from 1 on; 0 if it is unknown.
    pub column: u32,
}

impl Fault {
    /// The blamed word, or else the last word that was taken.
    pub(crate) fn of(words: &Words<'_>, error: TextError) -> Self {
        let token = words.at_fault();
        // A missing word has no position, so the message shows the word before it.
        let word = token.map(|token| excerpt(token.word(words.bytes()).as_bytes()));
        Self { part: words.part(), word, column: token.map_or(0, |token| column(words.bytes(), token, error)) }
    }

    /// Writes the error message.
    ///
    /// # Errors
    /// Errors of the formatter.
    pub fn write(&self, error: TextError, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(error, self.word.as_deref(), self.part, f)
    }
}

/// The column of a token. For a missing word it is the column after the token.
fn column(bytes: &[u8], token: &Token, error: TextError) -> u32 {
    let at = if error == TextError::Missing { token.end() } else { token.start() };
    let line = bytes[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    u32::try_from(at - line + 1).unwrap_or(0)
}

/// A word in a form that fits into one log line.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    let (start, more) = match bytes.split_at_checked(EXCERPT_BYTES_MAX) {
        Some((start, rest)) if !rest.is_empty() => (start, "..."),
        _ => (bytes, ""),
    };
    let mut text = String::new();
    for &byte in start {
        match byte {
            0x20..=0x7E => text.push(byte as char),
            _ => super::names::print_decimal_escape(byte, &mut text),
        }
    }
    text + more
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mnemonic = |rtype: Rtype| {
            let mut text = String::new();
            print_rtype(rtype, &mut text);
            text
        };
        match *self {
            Self::Owner => f.write_str("owner"),
            Self::Head => f.write_str("type"),
            Self::Ttl => f.write_str("TTL"),
            Self::Field(rtype, at) => write!(f, "{} {}", mnemonic(rtype), field_name(rtype, at)),
            Self::Rdata(rtype) | Self::Generic(rtype) => write!(f, "{} record", mnemonic(rtype)),
            Self::Directive([directive, _]) => f.write_str(directive),
        }
    }
}

/// What a part must be.
fn expected(part: Part) -> Expected {
    match part {
        Part::Owner => Expected::Text("a domain name"),
        Part::Head => Expected::Text("an RR type, a class or a TTL"),
        Part::Ttl => Expected::Text(SECONDS),
        Part::Field(rtype, at) => super::fields::expected(rtype, at),
        Part::Rdata(_) => Expected::Text("rdata"),
        Part::Generic(_) => Expected::Parts(r"the generic form \# LENGTH HEXADECIMAL"),
        Part::Directive([_, expected]) => Expected::Text(expected),
    }
}

/// The format of a time span (RFC 1035 5.1, with the units of BIND).
pub(super) const SECONDS: &str = "a number of seconds up to 4294967295, such as 3600 or 1h30m";
pub(super) const TIME: &str = "a time as YYYYMMDDHHmmSS or in seconds since 1970";
pub(super) const RTYPE: &str = "an RR type";
pub(super) const PORT: &str = "a port number from 0 to 65535 or a service name such as SMTP";
pub(super) const IPV4: &str = "an IPv4 address such as 192.0.2.1";
pub(super) const IPV6: &str = "an IPv6 address such as 2001:db8::1";
pub(super) const HEX: &str = "hexadecimal";
pub(super) const BASE64: &str = "base64";
pub(super) const PREFIX: &str = "an address prefix such as 1:192.0.2.0/24 or !2:2001:db8::/32";

/// Writes an error, with the word and the part of the record if they are known.
pub(super) fn describe(
    error: TextError,
    word: Option<&str>,
    part: Option<Part>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    if error == TextError::EntryLong {
        return write!(f, "the record has more than {ENTRY_BYTES_MAX} bytes or {ENTRY_TOKENS_MAX} words");
    }
    if let Some(text) = of_entry(error) {
        return f.write_str(text);
    }
    match (error, part, word) {
        (TextError::Missing, Some(Part::Head), _) => return f.write_str("the record has no RR type"),
        (TextError::Missing, Some(part @ Part::Directive(..)), _) => {
            return write!(f, "{part} needs {}", expected(part));
        }
        (TextError::Missing, Some(part), Some(word)) => {
            return write!(f, "{part} is missing after \"{word}\"; expected {}", expected(part));
        }
        (TextError::Missing, ..) => return f.write_str("a field is missing"),
        (_, Some(Part::Head), _) | (_, None, _) => {}
        (_, Some(part), _) => write!(f, "{part}: ")?,
    }
    match (error, word) {
        (TextError::LeftOver, Some(word)) => write!(f, "unexpected \"{word}\" after the last field"),
        (TextError::LeftOver, None) => f.write_str("unexpected text after the last field"),
        (TextError::FormMissing, _) => {
            f.write_str(r"this type has only the generic form \# LENGTH HEXADECIMAL (RFC 3597)")
        }
        (TextError::DigestLength { .. } | TextError::GenericLength { .. } | TextError::Rdata(_), _) => {
            of_rdata(error, word, part, f)
        }
        _ => of_word(error, word, part, f),
    }
}

/// Errors of a whole entry.
const fn of_entry(error: TextError) -> Option<&'static str> {
    Some(match error {
        TextError::ParenthesisOpen => "this parenthesis is not closed",
        TextError::ParenthesisUnopened => "there is a closing parenthesis without an opening one",
        TextError::ParenthesisNested => "there is a parenthesis inside parentheses",
        TextError::QuoteOpen => "a quote is not closed on its line",
        _ => return None,
    })
}

/// Writes what is wrong with a word.
fn of_word(error: TextError, word: Option<&str>, part: Option<Part>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let word = word.map_or_else(|| "the text".to_owned(), |word| format!("\"{word}\""));
    if let Some(what) = misuse(error) {
        return write!(f, "{word} {what}");
    }
    let expected = match (part.map(expected), expected_by_error(error)) {
        // A one-word field describes its expected value better than the error kind does.
        (Some(Expected::Text(text)), _) | (_, Some(text)) => text,
        (Some(Expected::Parts(text)), None) if error != TextError::Number || !is_numbered(part) => text,
        (_, None) => "a number from 0 to 65535",
    };
    if is_parameter(part) {
        write!(f, "the value of {word} must be {expected}")
    } else {
        write!(f, "expected {expected}, found {word}")
    }
}

fn is_parameter(part: Option<Part>) -> bool {
    matches!(part, Some(Part::Field(rtype, at)) if field(rtype, at) == Some(Field::SvcParams))
}

/// Whether all numbers of this part have two bytes.
fn is_numbered(part: Option<Part>) -> bool {
    is_parameter(part) || matches!(part, Some(Part::Generic(_)))
}

fn field(rtype: Rtype, at: u8) -> Option<Field> {
    layout(rtype)?.get(usize::from(at)).copied()
}

/// Errors with a message of their own, beyond "expected X, found Y".
const fn misuse(error: TextError) -> Option<&'static str> {
    Some(match error {
        TextError::NotPlain => "must not have quotes or backslashes",
        TextError::Escape => "has a bad escape; after a backslash come three digits up to 255, or one other character",
        TextError::Name(NameError::Label) => "has a label of more than 63 bytes",
        TextError::Name(NameError::Long) => "is longer than 255 bytes, the longest domain name",
        TextError::Name(NameError::Text) => "has an empty label; look for two dots in a row or a dot at the start",
        TextError::Name(NameError::Pointer | NameError::Short) => "is not a domain name",
        TextError::OriginMissing => "is relative, and there is no origin; end the name with a dot or write $ORIGIN",
        TextError::StringLong => "has more than 255 bytes, the longest character string",
        TextError::BytesMany => "has more bytes than this field can hold",
        TextError::HexOdd => "has an odd number of hexadecimal digits",
        TextError::Base64Length => "is not base64: it is cut off, or its padding is wrong",
        TextError::Parameter => "is not a service parameter; write KEY, KEY=VALUE or KEY=\"VALUE\" without spaces",
        TextError::ParameterUnknown => "has an unknown key; write keyNUMBER=VALUE for an unregistered key",
        TextError::ParameterValueMissing => "needs a value",
        TextError::ParameterValueExtra => "must not have a value",
        TextError::ParameterId => "has an item that is empty or longer than 255 bytes",
        TextError::ParameterTwice => "repeats a key",
        TextError::ParameterMandatory => "names a key that is not there, or itself (RFC 9460 8)",
        TextError::ParameterAlpn => "needs alpn beside it (RFC 9460 7.1.1)",
        _ => return None,
    })
}

/// The expected form of a part of a field.
const fn expected_by_error(error: TextError) -> Option<&'static str> {
    Some(match error {
        TextError::Period => SECONDS,
        TextError::Time => TIME,
        TextError::Rtype => RTYPE,
        TextError::Algorithm => "a DNSSEC algorithm",
        TextError::CertType => "a certificate type",
        TextError::Protocol => "an IP protocol",
        TextError::Port => PORT,
        TextError::Ipv4 => IPV4,
        TextError::Ipv6 => IPV6,
        TextError::Hex => HEX,
        TextError::Base64 => BASE64,
        TextError::Base32 => "base32hex",
        TextError::Prefix => PREFIX,
        _ => return None,
    })
}

/// Errors in rdata whose words could be read.
fn of_rdata(error: TextError, word: Option<&str>, part: Option<Part>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match error {
        TextError::GenericLength { expected, found } => {
            write!(f, "the generic form says {expected} bytes, found {found}")
        }
        TextError::DigestLength { kind, expected: Some(expected), found } => {
            write!(f, "{} {kind} needs {expected} bytes, found {found}", digest_kind(part))
        }
        // RFC 8976 2.2.4
        TextError::DigestLength { kind, expected: None, found } => {
            write!(f, "{} {kind} needs at least 12 bytes, found {found}", digest_kind(part))
        }
        TextError::Rdata(error) => match (word, part) {
            (Some(word), Some(Part::Field(rtype, at))) => match value_reason(rtype, at) {
                Some(reason) => write!(f, "\"{word}\" {reason}"),
                None => write!(f, "\"{word}\" is not allowed: {}", rdata_reason(error)),
            },
            _ => f.write_str(rdata_reason(error)),
        },
        _ => Ok(()),
    }
}

const fn digest_kind(part: Option<Part>) -> &'static str {
    match part {
        Some(Part::Field(Rtype::ZONEMD, _) | Part::Generic(Rtype::ZONEMD)) => "hash algorithm",
        _ => "digest type",
    }
}

/// Why a field does not allow a value that its text form can express.
fn value_reason(rtype: Rtype, at: u8) -> Option<&'static str> {
    Some(match field(rtype, at)? {
        Field::Tag => "is not a tag of ASCII letters and digits",
        Field::TextRest { .. } | Field::Base32Len8 => "is empty",
        Field::SvcParams => "begins service parameters that are not allowed",
        Field::Loc => "begins a location that is not on the globe, or has a size out of range",
        Field::HipKeys => "begins a HIT or a key that is empty",
        Field::NxtBitmap => "begins a list of types that NXT cannot hold",
        Field::Atma | Field::Nsap => "is too short",
        _ => return None,
    })
}

fn rdata_reason(error: RdataError) -> &'static str {
    const { assert!(RDATA_BYTES_MAX == 65_535) };
    match error {
        RdataError::Short => "the rdata ends too early",
        RdataError::LeftOver => "the rdata has bytes behind its last field",
        RdataError::Long => "the rdata has more than 65535 bytes",
        RdataError::Name(NameError::Pointer) => "the rdata has a compressed name",
        RdataError::Name(_) => "the rdata has a malformed name",
        RdataError::Value(_) => "the rdata has a value that is not allowed",
    }
}
