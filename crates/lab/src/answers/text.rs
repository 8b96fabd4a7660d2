//! An answer as readable text.

use compare::Response;
use domain::base::{Message, RecordSection};
use domain::rdata::AllRecordData;
use wire::name::NameRef;
use wire::number::{Class, Rtype};

/// RRs shown of each section.
const SHOWN_MAX: usize = 4;
/// Maximum length of the text in bytes.
const TEXT_BYTES_MAX: usize = 500;

/// Formats RCODE, answer and authority section.
pub(super) fn of(message: &[u8], response: &Response) -> String {
    let mut text = format!("{:?}", response.rcode);
    if response.flags[compare::response::flag::TC] {
        text += ", truncated";
    } else if let Ok(message) = Message::from_slice(message) {
        for (what, section) in [("answer", message.answer()), ("authority", message.authority())] {
            if let Some(rrs) = section.ok().filter(|section| section.clone().next().is_some()) {
                text += &format!("; {what} {}", rrs_of(rrs));
            }
        }
    }
    cut(text)
}

fn rrs_of(section: RecordSection<'_, [u8]>) -> String {
    let count = section.count();
    let shown: Vec<String> = section
        .take(SHOWN_MAX)
        .filter_map(Result::ok)
        .filter_map(|record| Some(record.to_any_record::<AllRecordData<_, _>>().ok()?.to_string()))
        .collect();
    let more = count.saturating_sub(shown.len());
    shown.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
}

/// Formats bytes that are not a message.
pub(super) fn unreadable(message: &[u8]) -> String {
    let bytes: String = message.iter().take(40).map(|byte| format!("{byte:02x}")).collect();
    format!("{} bytes that are no message: {bytes}", message.len())
}

/// Formats name, class and type of a question in wire form.
pub(super) fn question(bytes: &[u8]) -> String {
    let Some((name, rest)) = bytes.split_at_checked(bytes.len().saturating_sub(4)).filter(|(_, rest)| rest.len() == 4)
    else {
        return "no question".to_owned();
    };
    let name = NameRef::from_bytes(name).map_or_else(|_| "?".to_owned(), |name| name.to_string());
    let number = |at: usize| u16::from_be_bytes([rest[at], rest[at + 1]]);
    format!("{name} {:?} {:?}", Class(number(2)), Rtype(number(0)))
}

fn cut(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        let end = (0..=TEXT_BYTES_MAX).rev().find(|&end| text.is_char_boundary(end)).unwrap_or_default();
        text.truncate(end);
        text += " ...";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_printed_as_text() {
        let message =
            b"\0\x01\x84\x03\0\x01\0\x01\0\0\0\0\x03www\x07example\0\0\x01\0\x01\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\
            \xc0\0\x02\x07";
        let response = Response::parse(message).unwrap();
        let shown = of(message, &response);
        assert!(shown.starts_with("NXDOMAIN; answer www.example") && shown.contains("192.0.2.7"), "{shown}");
        assert_eq!(question(&response.question), "www.example. IN A");
        assert_eq!(question(&[]), "no question");
    }
}
