//! Shared code of tests of updates.
#![expect(clippy::unwrap_used, dead_code, reason = "an unexpected value fails the test; no test uses everything")]

pub(crate) mod rdata_text;
pub(crate) mod test_zone;

use wire::name::Name;

pub(crate) fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// A name relative to `apex`: `@` is the apex itself, a final dot makes it absolute.
pub(crate) fn name_in(text: &str, apex: &Name) -> Name {
    match text {
        "@" => apex.clone(),
        _ if text.ends_with('.') => name(text),
        _ => name(&format!("{text}.{apex}")),
    }
}

/// The opposite of [`name_in`].
pub(crate) fn name_out(owner: &Name, apex: &Name) -> String {
    if owner == apex {
        return "@".into();
    }
    let text = owner.to_string();
    match owner.as_ref().is_at_or_below(apex.as_ref()) {
        true => text[..text.len() - apex.to_string().len() - 1].to_owned(),
        false => text,
    }
}
