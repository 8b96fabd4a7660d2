//! Errors in the text of records.

use core::fmt;
use wire::name::NameError;
use wire::rdata::RdataError;

/// Why text is not a record. The error is always in the text. This type does not contain the word at fault.
/// [`Fault`](super::Fault) has the word and its part of the entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextError {
    /// A parenthesis is not closed.
    ParenthesisOpen,
    /// A closing parenthesis without an opening one.
    ParenthesisUnopened,
    /// A parenthesis within parentheses.
    ParenthesisNested,
    /// A quote is not closed on its line.
    QuoteOpen,
    /// An entry has more bytes or tokens than the bounds allow.
    EntryLong,
    /// The record ends where a field is expected.
    Missing,
    /// There is text after the last field.
    LeftOver,
    /// Quotes or escapes where they are not allowed.
    NotPlain,
    /// A backslash that is not followed by a character or three digits up to 255.
    Escape,
    /// A malformed name.
    Name(NameError),
    /// A relative name without an origin.
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
    /// A character string of more than 255 bytes.
    StringLong,
    /// Not hexadecimal.
    Hex,
    /// An odd number of hexadecimal digits.
    HexOdd,
    /// Not base64.
    Base64,
    /// Base64 digits, but not a valid number of them.
    Base64Length,
    /// Not base32hex.
    Base32,
    /// More bytes than the field's length byte can count.
    BytesMany,
    /// A gateway or relay that does not fit its type.
    Gateway,
    /// Not a place of RFC 1876 3.
    Location,
    /// Not an address prefix of RFC 3123 5.
    Prefix,
    /// Not a service parameter of RFC 9460 2.1.
    Parameter,
    /// A service parameter whose key is neither registered nor `keyN`.
    ParameterUnknown,
    /// A service parameter without its required value.
    ParameterValueMissing,
    /// A service parameter with a value that its key does not allow.
    ParameterValueExtra,
    /// An empty item of `alpn` or `docpath`, or an item of more than 255 bytes.
    ParameterId,
    /// A service parameter that occurs twice.
    ParameterTwice,
    /// `mandatory` names a missing key, or itself (RFC 9460 8).
    ParameterMandatory,
    /// `no-default-alpn` without `alpn` (RFC 9460 7.1.1).
    ParameterAlpn,
    /// Not an address of NSAP, ATMA, EUI48, EUI64, NID, L64, A6 or IPN.
    Address,
    /// A type that has only the generic form.
    FormMissing,
    /// The number of bytes in the generic form differs from its length field (RFC 3597 5).
    GenericLength {
        /// The length field.
        expected: u16,
        /// The actual number of bytes.
        found: usize,
    },
    /// A digest whose length does not fit its registered kind.
    DigestLength {
        /// The number of the digest type or hash algorithm.
        kind: u8,
        /// The length for that kind; `None` if there is only a minimum.
        expected: Option<usize>,
        /// The actual length.
        found: usize,
    },
    /// The text is well formed, but its value is not allowed.
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
        super::fault::describe(*self, None, None, f)
    }
}

impl std::error::Error for TextError {}
