//! The start of an entry: a directive, or the fields of a record before its rdata.

use super::error::Reason;
use super::generate::{GenerateError, Range, rhs_template};
use crate::text::token::Word;
use crate::text::words::Words;
use crate::text::{Part, TextError, scan_name, scan_period, scan_rtype};
use wire::name::{Name, NameRef};
use wire::number::Rtype;

/// A parsed directive.
pub(super) enum Directive {
    Origin(Name),
    Ttl(u32),
    Include(String, Option<Name>),
    Generate { range: Range, lhs: Vec<u8>, rhs: Vec<u8>, head: Head },
}

pub(super) fn scan_directive(words: &mut Words<'_>, origin: Option<&Name>) -> Result<Directive, Reason> {
    let name = |words: &mut Words<'_>| {
        let mut out = Vec::new();
        scan_name(words.expect()?, origin.map(Name::as_ref), &mut out)?;
        Ok::<_, TextError>(NameRef::from_bytes(&out)?.to_name())
    };
    let directive = match words.expect()?.as_bytes().to_ascii_uppercase().as_slice() {
        b"$ORIGIN" => {
            words.begin(Part::Directive(&["$ORIGIN", "a domain name"]));
            Directive::Origin(name(words)?)
        }
        b"$TTL" => {
            words.begin(Part::Directive(&["$TTL", "a number of seconds such as 3600 or 1h30m"]));
            Directive::Ttl(scan_period(words.plain()?)?)
        }
        b"$INCLUDE" => {
            words.begin(Part::Directive(&["$INCLUDE", "a file name"]));
            let path = path(words.expect()?)?;
            words.begin(Part::Directive(&["$INCLUDE", "a domain name"]));
            Directive::Include(path, if words.is_empty() { origin.cloned() } else { Some(name(words)?) })
        }
        b"$GENERATE" => generate_directive(words)?,
        _ => return Err(Reason::DirectiveUnknown),
    };
    if words.take().is_some() {
        return Err(TextError::LeftOver.into());
    }
    Ok(directive)
}

fn generate_directive(words: &mut Words<'_>) -> Result<Directive, Reason> {
    words.begin(Part::Directive(&["$GENERATE", "a range, an owner, a type and rdata"]));
    let range = Range::scan(words.plain()?)?;
    let lhs = words.expect()?;
    if lhs.is_quoted() {
        return Err(GenerateError::LhsQuoted.into());
    }
    let head = Head::scan(words)?;
    if head.rtype == Rtype::SOA {
        return Err(GenerateError::Soa.into());
    }
    words.begin(Part::Directive(&["$GENERATE", "rdata"]));
    let rhs = rhs_template(words.expect()?);
    if words.take().is_some() {
        return Err(GenerateError::RhsMany.into());
    }
    Ok(Directive::Generate { range, lhs: lhs.as_bytes().to_vec(), rhs, head })
}

/// The fields between owner and rdata: optional TTL and class in any order, then the type (RFC 1035 5.1).
pub(super) struct Head {
    pub(super) ttl: Option<u32>,
    pub(super) rtype: Rtype,
}

impl Head {
    pub(super) fn scan(words: &mut Words<'_>) -> Result<Self, Reason> {
        let (mut ttl, mut has_class) = (None, false);
        loop {
            words.begin(Part::Head);
            let text = words.expect()?.plain()?;
            if ttl.is_none() && text.first().is_some_and(u8::is_ascii_digit) {
                words.begin(Part::Ttl);
                ttl = Some(scan_period(text)?);
            } else if !has_class && is_class(text) {
                if !text.eq_ignore_ascii_case(b"IN") && !text.eq_ignore_ascii_case(b"CLASS1") {
                    return Err(Reason::Class);
                }
                has_class = true;
            } else {
                let rtype = scan_rtype(text).ok_or(TextError::Rtype)?;
                if rtype.is_meta() {
                    return Err(Reason::RtypeMeta);
                }
                return Ok(Self { ttl, rtype });
            }
        }
    }
}

fn is_class(text: &[u8]) -> bool {
    let known: [&[u8]; 6] = [b"IN", b"CH", b"HS", b"CS", b"CHAOS", b"HESIOD"];
    known.iter().any(|class| class.eq_ignore_ascii_case(text))
        || (text.len() > 5 && text[..5].eq_ignore_ascii_case(b"CLASS") && text[5..].iter().all(u8::is_ascii_digit))
}

/// Reads a file name, with or without quotes. Escapes are resolved.
fn path(word: Word<'_>) -> Result<String, TextError> {
    let mut bytes = Vec::new();
    word.text(&mut bytes)?;
    String::from_utf8(bytes).map_err(|_| TextError::Escape)
}
