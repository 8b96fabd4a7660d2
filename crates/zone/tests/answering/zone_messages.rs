//! Messages about bad zone files: `testdata/messages/zone-files.txt`.
//!
//! Each unindented line is a zone file for the origin example.org. A line that begins with `|` continues the file.
//! `<N*C>` stands for N times the character C, `<BOM>` and `<BOM16>` for byte-order marks. The errors and warnings of
//! each file follow it. `CATAMARAN_REWRITE=1` writes them anew; review them before you commit.

use std::collections::BTreeSet;
use std::path::Path;
use zone::file::{LoadOptions, Slice, load};

#[test]
fn messages_name_the_word_and_what_was_expected() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/messages/zone-files.txt");
    let golden = std::fs::read_to_string(&path).unwrap();
    let (mut written, mut file, mut count) = (String::new(), Vec::new(), 0);
    let mut rtypes = BTreeSet::new();
    let mut lines = golden.lines().filter(|line| !line.starts_with("  ")).peekable();
    while let Some(line) = lines.next() {
        written.push_str(line);
        written.push('\n');
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        file.extend_from_slice(&bytes(line.strip_prefix('|').unwrap_or(line)));
        if lines.peek().is_some_and(|next| next.starts_with('|')) {
            file.push(b'\n');
            continue;
        }
        for message in messages(&std::mem::take(&mut file)) {
            assert!(message.is_ascii() && message.len() < 400, "{message}");
            rtypes.extend(line.split_whitespace().filter_map(|word| zone::text::scan_rtype(word.as_bytes())));
            written.push_str(&format!("  {message}\n"));
        }
        count += 1;
    }
    if std::env::var_os("CATAMARAN_REWRITE").is_some() {
        std::fs::write(&path, &written).unwrap();
    } else {
        assert_eq!(written.lines().count(), golden.lines().count());
    }
    let wanted = std::fs::read_to_string(&path).unwrap();
    for (is, wanted) in written.lines().zip(wanted.lines()) {
        assert_eq!(is, wanted);
    }
    assert!(count > 120, "only {count} files were found");
    let missing: Vec<_> = (0..=u16::MAX)
        .map(wire::Rtype)
        .filter(|rtype| wire::rdata::layout(*rtype).is_some() && !rtypes.contains(rtype))
        .collect();
    assert!(missing.is_empty(), "no bad record of {missing:?}");
}

/// Returns all errors, or all warnings if there are no errors.
fn messages(file: &[u8]) -> Vec<String> {
    let origin = "example.org".parse().unwrap();
    let options = LoadOptions { ttl: Some(60), ..LoadOptions::default() };
    match load(&mut Slice::new(file.to_vec()), Some(&origin), &options) {
        Ok(loaded) if loaded.warnings.is_empty() => vec!["no message".to_owned()],
        Ok(loaded) => loaded
            .warnings
            .iter()
            .map(|warning| format!("{}: warning: {}", warning.location.line, warning.kind))
            .collect(),
        Err(errors) => errors.all().iter().map(ToString::to_string).collect(),
    }
}

/// Expands the abbreviations of a line.
fn bytes(line: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = line;
    while let Some((before, behind)) = rest.split_once('<') {
        let (inside, behind) = behind.split_once('>').unwrap();
        bytes.extend_from_slice(before.as_bytes());
        match (inside, inside.split_once('*')) {
            ("BOM", _) => bytes.extend_from_slice(&[0xEF, 0xBB, 0xBF]),
            ("BOM16", _) => bytes.extend_from_slice(&[0xFF, 0xFE]),
            (_, Some((count, text))) => bytes.extend_from_slice(text.repeat(count.parse().unwrap()).as_bytes()),
            _ => panic!("<{inside}>"),
        }
        rest = behind;
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}
