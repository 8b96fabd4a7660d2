//! Class CH: names that identify a server (RFC 4892). The server only sends configured texts.

use wire::compose::Composer;
use wire::number::{Class, Rtype};
use wire::parse::{FirstQuestion, Section};

/// The texts of class CH.
#[derive(Clone, Copy, Default, Debug)]
pub struct Chaos<'c> {
    /// For `id.server` and `hostname.bind`; at most 255 bytes of it are sent.
    pub id_server: Option<&'c [u8]>,
    /// For `version.server` and `version.bind`; at most 255 bytes of it are sent.
    pub version: Option<&'c [u8]>,
}

const ID_NAMES: [&[u8]; 2] = [b"\x02id\x06server\x00", b"\x08hostname\x04bind\x00"];
const VERSION_NAMES: [&[u8]; 2] = [b"\x07version\x06server\x00", b"\x07version\x04bind\x00"];

impl<'c> Chaos<'c> {
    /// The text for a question.
    pub(super) fn find(&self, question: &FirstQuestion<'_>) -> Option<&'c [u8]> {
        if !matches!(question.qtype, Rtype::TXT | Rtype::ANY) {
            return None;
        }
        let is_among =
            |names: [&[u8]; 2]| names.iter().any(|name| question.qname.as_bytes().eq_ignore_ascii_case(name));
        let text = if is_among(ID_NAMES) {
            self.id_server
        } else if is_among(VERSION_NAMES) {
            self.version
        } else {
            None
        };
        text.map(|text| &text[..text.len().min(255)])
    }
}

/// Adds the text. Sets TC if it does not fit.
pub(super) fn push(composer: &mut Composer<'_>, question: &FirstQuestion<'_>, text: &[u8]) {
    let mut rdata = [0; 256];
    rdata[0] = text.len() as u8;
    rdata[1..=text.len()].copy_from_slice(text);
    let rdatas = [&rdata[..=text.len()]];
    let owner = question.qname;
    if composer.push_rrset(Section::Answer, owner, Rtype::TXT, Class::CH, 0, rdatas).is_err() {
        composer.truncate_all();
    }
}
