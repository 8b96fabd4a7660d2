//! Scans text into rdata, following the table of layouts.

use super::addresses::{
    ipv4, ipv6, scan_a6_suffix, scan_atma, scan_eui, scan_ipn, scan_locator, scan_nsap, scan_prefixes,
};
use super::bitmaps::{scan_bit_rtype, scan_nxt, scan_ports, scan_windows};
use super::bytes::{
    scan_base32_len8, scan_base64, scan_base64_rest, scan_hex, scan_hex_len8, scan_hex_rest, scan_string, scan_text,
};
use super::location::scan_location;
use super::mnemonic::{algorithm, cert_type, dsync_scheme, protocol};
use super::names::{is_undotted, scan_name};
use super::numbers::{number, number_u8, number_u16, number_u32, scan_period, time32};
use super::parameters::scan_parameters;
use super::token::{Step, Word, tokenize};
use super::words::Words;
use super::{Part, TextError};
use wire::limits::RDATA_BYTES_MAX;
use wire::name::NameRef;
use wire::number::Rtype;
use wire::rdata::{Field, RdataError, digest_bytes, layout, rdata_check, rdata_fields};

/// Scans the rdata of one record up to the end of `words` and appends its wire form to `out`.
///
/// The generic form (RFC 3597 5) is accepted for every type. For a type with a layout, the bytes must fit the layout.
///
/// # Errors
/// [`TextError`]. The bytes appended to `out` are then invalid.
pub fn scan_rdata(
    rtype: Rtype,
    words: &mut Words<'_>,
    origin: Option<NameRef<'_>>,
    out: &mut Vec<u8>,
) -> Result<(), TextError> {
    let start = out.len();
    let before = words.clone();
    let is_generic = words.peek().is_some_and(|word| !word.is_quoted() && word.as_bytes() == b"\\#");
    if is_generic {
        words.begin(Part::Generic(rtype));
        words.take();
        scan_generic(words, out)?;
    } else {
        words.begin(Part::Rdata(rtype));
        let fields = layout(rtype).ok_or(TextError::FormMissing)?;
        let mut scan = Scan { rtype, origin, start };
        for (at, &field) in fields.iter().enumerate() {
            words.begin(Part::Field(rtype, at as u8));
            scan.field(field, words, out)?;
        }
    }
    if !words.is_empty() {
        words.begin(Part::Rdata(rtype));
        words.take();
        return Err(TextError::LeftOver);
    }
    let rdata = &out[start..];
    if rdata.len() > RDATA_BYTES_MAX {
        words.begin(Part::Rdata(rtype));
        return Err(RdataError::Long.into());
    }
    rdata_check(rtype, rdata).map_err(|error| {
        let error = why_refused(rtype, rdata, error);
        if is_generic { error } else { find_faulty_field(rtype, rdata, origin, error, before, words) }
    })
}

/// Finds the field at fault in rdata that was scanned but refused, and the first word of that field.
fn find_faulty_field<'t>(
    rtype: Rtype,
    rdata: &[u8],
    origin: Option<NameRef<'_>>,
    error: TextError,
    mut retry: Words<'t>,
    words: &mut Words<'t>,
) -> TextError {
    let fields = layout(rtype).unwrap_or_default();
    let faulty = rdata_fields(rtype, rdata).position(|field| field.is_err()).unwrap_or(fields.len().saturating_sub(1));
    let (mut out, mut scan) = (Vec::new(), Scan { rtype, origin, start: 0 });
    for &field in &fields[..faulty.min(fields.len())] {
        if scan.field(field, &mut retry, &mut out).is_err() {
            break;
        }
    }
    words.begin(Part::Field(rtype, faulty as u8));
    if retry.is_empty() {
        return TextError::Missing;
    }
    words.set_fault(retry.read_count());
    error
}

/// Adds the expected length to the error of a digest.
fn why_refused(rtype: Rtype, rdata: &[u8], error: RdataError) -> TextError {
    let is_digest = matches!(error, RdataError::Value(Field::HexRest { .. }));
    let (kind_at, is_registered) = match rtype {
        Rtype::DS | Rtype::CDS | Rtype::TA | Rtype::DLV => (3, true),
        // RFC 8976 2.2.2: the lengths of hash algorithms are defined for scheme 1.
        Rtype::ZONEMD => (5, rdata.get(4) == Some(&1)),
        _ => return error.into(),
    };
    match rdata.get(kind_at) {
        Some(&kind) if is_digest => TextError::DigestLength {
            kind,
            expected: digest_bytes(rtype, kind).filter(|_| is_registered),
            found: rdata.len() - kind_at - 1,
        },
        _ => error.into(),
    }
}

/// Scans rdata from a string.
///
/// # Errors
/// [`TextError`].
pub fn scan_rdata_text(rtype: Rtype, text: &[u8], origin: Option<NameRef<'_>>) -> Result<Vec<u8>, TextError> {
    let (mut tokens, mut out) = (Vec::new(), Vec::new());
    match tokenize(text, 0, true, &mut tokens).map_err(|(_, error)| error)? {
        Step::Entry { next, .. } if next < text.len() => Err(TextError::LeftOver),
        _ => scan_rdata(rtype, &mut Words::new(text, &tokens), origin, &mut out).map(|()| out),
    }
}

/// The rest of `\# LENGTH HEXADECIMAL` after `\#`.
fn scan_generic(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    let len = number_u16(words.plain()?)?;
    let start = out.len();
    scan_hex_rest(words, out)?;
    let found = out.len() - start;
    if found == usize::from(len) { Ok(()) } else { Err(TextError::GenericLength { expected: len, found }) }
}

/// The rdata of one record while it is scanned.
struct Scan<'o> {
    rtype: Rtype,
    origin: Option<NameRef<'o>>,
    /// Offset of the rdata in the output.
    start: usize,
}

impl Scan<'_> {
    fn field(&mut self, field: Field, words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), TextError> {
        match field {
            Field::Name(_) => self.name(words, out)?,
            Field::NamesRest => {
                while !words.is_empty() {
                    self.name(words, out)?;
                }
            }
            Field::U8 if self.rtype == Rtype::DSYNC => out.push(dsync_scheme(words.plain()?)?),
            Field::U8 => out.push(number_u8(words.plain()?)?),
            Field::U16 => out.extend_from_slice(&number_u16(words.plain()?)?.to_be_bytes()),
            Field::U32 => out.extend_from_slice(&number_u32(words.plain()?)?.to_be_bytes()),
            Field::Ttl => out.extend_from_slice(&scan_period(words.plain()?)?.to_be_bytes()),
            Field::Time32 => out.extend_from_slice(&time32(words.plain()?)?.to_be_bytes()),
            Field::RtypeField => out.extend_from_slice(&scan_bit_rtype(words.plain()?)?.0.to_be_bytes()),
            Field::Algorithm => out.push(algorithm(words.plain()?)?),
            Field::CertType => out.extend_from_slice(&cert_type(words.plain()?)?.to_be_bytes()),
            Field::IpProtocol => out.push(protocol(words.plain()?)?),
            Field::Ipv4 => out.extend_from_slice(&ipv4(words.plain()?)?),
            Field::Ipv6 => out.extend_from_slice(&ipv6(words.plain()?)?),
            Field::CharString => scan_string(words.expect()?, out)?,
            Field::CharStringOptional => {
                if let Some(word) = words.take() {
                    scan_string(word, out)?;
                }
            }
            Field::CharStringsRest => {
                scan_string(words.expect()?, out)?;
                while let Some(word) = words.take() {
                    scan_string(word, out)?;
                }
            }
            // Types with a layout but without a text form, such as NULL.
            Field::Bytes => return Err(TextError::FormMissing),
            Field::HexRest { .. } => scan_hex_rest(words, out)?,
            // The data of DOA may be empty, and is then `-` (draft-durand-doa-over-dns 3.2).
            Field::Base64Rest { .. } if self.rtype == Rtype::DOA && words.peek().is_some_and(is_hyphen) => {
                words.take();
            }
            Field::Base64Rest { .. } => scan_base64_rest(words, out)?,
            Field::TextRest { .. } => scan_text(words.expect()?, out)?,
            Field::Tag => scan_string(words.expect()?, out)?,
            _ => self.special(field, words, out)?,
        }
        Ok(())
    }

    /// Fields with a form of their own.
    fn special(&mut self, field: Field, words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), TextError> {
        match field {
            Field::HexLen8 => scan_hex_len8(words.plain()?, out),
            Field::Base32Len8 => scan_base32_len8(words.plain()?, out),
            Field::Bitmap => scan_windows(words, out),
            Field::NxtBitmap => scan_nxt(words, out),
            Field::PortBitmap => scan_ports(words, out),
            Field::Gateway { type_at, type_mask } => {
                let kind = out[self.start + usize::from(type_at)] & type_mask;
                self.gateway(kind, words, out)
            }
            Field::RelayType => {
                let discovery = number(words.plain()?, 1)? as u8;
                let kind = number(words.plain()?, 127)? as u8;
                out.push(discovery << 7 | kind);
                Ok(())
            }
            Field::Loc => scan_location(words, out),
            Field::Apl => scan_prefixes(words, out),
            Field::SvcParams => scan_parameters(words, out),
            Field::Nsap => scan_nsap(words.plain()?, out),
            Field::Atma => scan_atma(words.plain()?, out),
            Field::Locator64 => scan_locator(words.plain()?, out),
            Field::Ipn => scan_ipn(words.plain()?, out),
            Field::Eui48 => scan_eui(words.plain()?, 6, out),
            Field::Eui64 => scan_eui(words.plain()?, 8, out),
            Field::HipKeys => scan_hip_keys(words, out),
            Field::A6Suffix => scan_a6_suffix(words, out),
            Field::A6Name if out[self.start] == 0 => Ok(()),
            Field::A6Name => self.name(words, out),
            _ => Err(TextError::FormMissing),
        }
    }

    fn name(&self, words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), TextError> {
        let start = out.len();
        let word = words.expect()?;
        scan_name(word, self.origin, out)?;
        if is_undotted(word.as_bytes(), &out[start..], self.origin) {
            words.note_undotted();
        }
        Ok(())
    }

    /// A gateway by its type (RFC 4025 3.1, RFC 8777 4.3.1).
    fn gateway(&self, kind: u8, words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), TextError> {
        let word = words.expect()?;
        match kind {
            0 if word.is_bare(b".") => {}
            1 => out.extend_from_slice(&ipv4(word.plain()?)?),
            2 => out.extend_from_slice(&ipv6(word.plain()?)?),
            3 => scan_name(word, self.origin, out)?,
            _ => return Err(TextError::Gateway),
        }
        Ok(())
    }
}

fn is_hyphen(word: Word<'_>) -> bool {
    word.is_bare(b"-")
}

/// Algorithm, host identity tag, key. On the wire, their lengths come first (RFC 8005 5, 6).
fn scan_hip_keys(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    let algorithm = number_u8(words.plain()?)?;
    let (mut tag, mut key) = (Vec::new(), Vec::new());
    scan_hex(words.plain()?, &mut tag)?;
    scan_base64(words.plain()?, &mut key)?;
    let tag_len = u8::try_from(tag.len()).map_err(|_| TextError::BytesMany)?;
    let key_len = u16::try_from(key.len()).map_err(|_| TextError::BytesMany)?;
    out.extend_from_slice(&[tag_len, algorithm]);
    out.extend_from_slice(&key_len.to_be_bytes());
    out.extend_from_slice(&tag);
    out.extend_from_slice(&key);
    Ok(())
}
