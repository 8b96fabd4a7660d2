//! Why text is not what it should be.

use core::fmt;
use wire::name::NameError;
use wire::rdata::RdataError;

/// Why text is no record. The party at fault is always the writer of the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextError {
    /// A parenthesis is not closed.
    ParenthesisOpen,
    /// A parenthesis is closed that was not opened.
    ParenthesisUnopened,
    /// A parenthesis within parentheses.
    ParenthesisNested,
    /// A quote is not closed, or not on its line.
    QuoteOpen,
    /// An entry has more octets or tokens than the bounds allow.
    EntryLong,
    /// The record ends where a field is expected.
    Missing,
    /// Something is left over behind the last field.
    LeftOver,
    /// Quotes or escapes where they have no place.
    NotPlain,
    /// A backslash without a character or three digits up to 255 behind it.
    Escape,
    /// A malformed name.
    Name(NameError),
    /// A relative name, and no origin that it is relative to.
    OriginMissing,
    /// Not a number, or not one that fits the field.
    Number,
    /// Not a number of seconds, with or without units.
    Period,
    /// Not a time of RFC 4034 3.2.
    Time,
    /// Not the mnemonic of an RR type.
    Rtype,
    /// Not a DNSSEC algorithm.
    Algorithm,
    /// Not a certificate type.
    CertType,
    /// Not an IP protocol.
    Protocol,
    /// Not a port or a service.
    Port,
    /// Not an IPv4 address.
    Ipv4,
    /// Not an IPv6 address.
    Ipv6,
    /// A character string of more than 255 octets.
    StringLong,
    /// Not hexadecimal.
    Hex,
    /// Not base64.
    Base64,
    /// Not base32hex.
    Base32,
    /// A gateway or relay that does not fit its type.
    Gateway,
    /// Not a place of RFC 1876 3.
    Location,
    /// Not an address prefix of RFC 3123 5.
    Prefix,
    /// Not a service parameter of RFC 9460 2.1.
    Parameter,
    /// A service parameter that is there twice.
    ParameterTwice,
    /// Not an address of NSAP, ATMA, EUI48, EUI64, NID, L64, A6 or IPN.
    Address,
    /// The type has no text form but the generic one.
    FormMissing,
    /// The generic form has another number of octets than it says (RFC 3597 5).
    GenericLength,
    /// Text was read, but what it says is not allowed.
    Rdata(RdataError),
}

impl From<NameError> for TextError {
    fn from(error: NameError) -> Self {
        Self::Name(error)
    }
}

impl From<RdataError> for TextError {
    fn from(error: RdataError) -> Self {
        Self::Rdata(error)
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ParenthesisOpen => "parenthesis is not closed",
            Self::ParenthesisUnopened => "closing parenthesis without an opening one",
            Self::ParenthesisNested => "parenthesis within parentheses",
            Self::QuoteOpen => "quote is not closed",
            Self::EntryLong => "entry is too long",
            Self::Missing => "a field is missing",
            Self::LeftOver => "unexpected text behind the last field",
            Self::NotPlain => "quotes or escapes have no place here",
            Self::Escape => "bad escape",
            Self::Name(error) => return write!(f, "bad name: {}", name_reason(*error)),
            Self::OriginMissing => "relative name without an origin",
            Self::Number => "bad number",
            Self::Period => "bad TTL or number of seconds",
            Self::Time => "bad time",
            Self::Rtype => "unknown RR type",
            Self::Algorithm => "unknown algorithm",
            Self::CertType => "unknown certificate type",
            Self::Protocol => "unknown protocol",
            Self::Port => "unknown port",
            Self::Ipv4 => "bad IPv4 address",
            Self::Ipv6 => "bad IPv6 address",
            Self::StringLong => "character string of more than 255 octets",
            Self::Hex => "bad hexadecimal",
            Self::Base64 => "bad base64",
            Self::Base32 => "bad base32hex",
            Self::Gateway => "bad gateway",
            Self::Location => "bad location",
            Self::Prefix => "bad address prefix",
            Self::Parameter => "bad service parameter",
            Self::ParameterTwice => "service parameter is there twice",
            Self::Address => "bad address",
            Self::FormMissing => "this type has only the generic form \\# LENGTH HEXADECIMAL",
            Self::GenericLength => "generic form has another length than it says",
            Self::Rdata(error) => return rdata_reason(*error, f),
        })
    }
}

impl std::error::Error for TextError {}

const fn name_reason(error: NameError) -> &'static str {
    match error {
        NameError::Short => "it ends too early",
        NameError::Label => "label of more than 63 octets",
        NameError::Long => "more than 255 octets",
        NameError::Pointer => "compressed",
        NameError::Text => "empty label",
    }
}

fn rdata_reason(error: RdataError, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match error {
        RdataError::Short => f.write_str("rdata ends too early"),
        RdataError::LeftOver => f.write_str("rdata goes on behind its last field"),
        RdataError::Long => f.write_str("rdata of more than 65535 octets"),
        RdataError::Name(error) => write!(f, "bad name in rdata: {}", name_reason(error)),
        RdataError::Value(field) => write!(f, "value not allowed in rdata ({field:?})"),
    }
}
