//! Rules for the English of documents: short sentences, short lines, short table cells, and no private words.

use super::{File, Finding};

const LINE_COLUMNS_MAX: usize = 100;
const SENTENCE_WORDS_MAX: usize = 30;
const CELL_CHARS_MAX: usize = 160;

/// Words that a reader has to guess. Each line has the word and what to write instead.
const WORDS: &[(&str, &str)] = &[
    ("whoever", "name the subject"),
    ("whomever", "name the subject"),
    ("manieth", "every Nth"),
    ("octet", "byte"),
    ("octets", "bytes"),
    ("mend", "fix"),
    ("mends", "fixes"),
    ("mended", "fixed"),
    ("so many", "the number"),
    ("of which", "name the subject"),
    ("ends with exit code", "exits with"),
    ("at leisure", "in the background"),
    ("sign of life", "heartbeat"),
    ("ends with 0", "exits with 0"),
    ("ends with 1", "exits with 1"),
    ("ends with 2", "exits with 2"),
    ("ends with 3", "exits with 3"),
];

/// Pages that are not checked: history is kept as it was written.
const UNCHECKED: &[&str] = &["docs/history/"];
/// Pages that a program writes from help texts. Their code blocks are checked for words too.
const GENERATED: &[&str] = &["docs/reference/cli.md", "docs/catlab/cli.md"];

/// Checks one document.
pub(super) fn check(file: &File, findings: &mut Vec<Finding>) {
    if UNCHECKED.iter().any(|folder| file.path.starts_with(folder)) {
        return;
    }
    let is_generated = GENERATED.contains(&file.path.as_str());
    let mut paragraph = Paragraph::default();
    let mut fence: Option<&str> = None;
    for (index, line) in file.text.lines().enumerate() {
        let number = index + 1;
        let trimmed = line.trim_start();
        let marks = if trimmed.starts_with("~~~") { "~~~" } else { "```" };
        if trimmed.starts_with(marks) && fence.is_none_or(|open| open == marks) {
            fence = if fence.is_some() { None } else { Some(marks) };
            paragraph.end(file, findings);
            continue;
        }
        // After an empty line, four spaces begin a block of code too.
        if fence.is_some() || line.starts_with("    ") && paragraph.text.is_empty() {
            if is_generated {
                words(file, number, line, findings);
            }
            continue;
        }
        words(file, number, &without_code(line), findings);
        if trimmed.starts_with('|') {
            paragraph.end(file, findings);
            cells(file, number, line, findings);
        } else {
            columns(file, number, line, findings);
            paragraph.add(file, number, trimmed, findings);
        }
    }
    paragraph.end(file, findings);
}

fn columns(file: &File, number: usize, line: &str, findings: &mut Vec<Finding>) {
    let count = line.chars().count();
    // A link or an address cannot be broken.
    let is_one_word = line.trim_start_matches([' ', '-', '*']).split_whitespace().count() <= 2 || line.contains("](");
    if count > LINE_COLUMNS_MAX && !is_one_word {
        findings.push(Finding::new(file, number, format!("{count} columns, over {LINE_COLUMNS_MAX}")));
    }
}

fn cells(file: &File, number: usize, line: &str, findings: &mut Vec<Finding>) {
    for cell in visible(line).split(" | ") {
        let count = cell.trim_matches(['|', ' ']).chars().count();
        if count > CELL_CHARS_MAX {
            findings.push(Finding::new(file, number, format!("a cell of {count} characters, over {CELL_CHARS_MAX}")));
        }
    }
}

fn words(file: &File, number: usize, line: &str, findings: &mut Vec<Finding>) {
    let text = format!(" {} ", line.to_lowercase().replace(|c: char| !c.is_alphanumeric() && c != '"', " "));
    for (word, instead) in WORDS {
        if let Some(at) = text.find(&format!(" {word} "))
            // RFCs are quoted as they are.
            && text[..at].matches('"').count().is_multiple_of(2)
        {
            findings.push(Finding::new(file, number, format!("`{word}`: write `{instead}`")));
        }
    }
}

/// The lines of a paragraph or of a list item.
#[derive(Default)]
struct Paragraph {
    line: usize,
    text: String,
}

impl Paragraph {
    fn add(&mut self, file: &File, number: usize, line: &str, findings: &mut Vec<Finding>) {
        let is_item = line.starts_with("- ")
            || line.starts_with("* ")
            || line.split_once(". ").is_some_and(|(first, _)| first.bytes().all(|byte| byte.is_ascii_digit()));
        if line.is_empty() || line.starts_with('#') || is_item {
            self.end(file, findings);
        }
        if line.is_empty() || line.starts_with('#') {
            return;
        }
        if self.text.is_empty() {
            self.line = number;
        }
        self.text.push_str(line);
        self.text.push(' ');
    }

    fn end(&mut self, file: &File, findings: &mut Vec<Finding>) {
        let text = visible(&std::mem::take(&mut self.text));
        for sentence in sentences(&text) {
            let count = sentence.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count();
            if count > SENTENCE_WORDS_MAX {
                let start: Vec<&str> = sentence.split_whitespace().take(5).collect();
                let what = format!("a sentence of {count} words, over {SENTENCE_WORDS_MAX}: {} ...", start.join(" "));
                findings.push(Finding::new(file, self.line, what));
            }
        }
    }
}

/// The sentences of a text. A colon at the end of a clause begins a new one: lists of names are no long sentences.
fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut start = 0;
    for (at, mark) in text.char_indices() {
        let rest = &text[at + mark.len_utf8()..];
        let ends = matches!(mark, '.' | '!' | '?' | ':' | ';') && rest.starts_with([' ', ')', '"']) || rest.is_empty();
        if ends {
            sentences.push(&text[start..at + mark.len_utf8()]);
            start = at + mark.len_utf8();
        }
    }
    sentences
}

/// The text without code, which counts as one word.
fn without_code(line: &str) -> String {
    let parts = line.split('`').enumerate();
    parts.map(|(index, part)| if index % 2 == 0 { part } else { "code" }).collect()
}

/// The text as a reader sees it: without the targets of links, and with code as one word.
fn visible(text: &str) -> String {
    let text = without_code(text);
    let mut seen = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("](") {
        seen.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    seen.push_str(rest);
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check(&File { path: "docs/page.md".into(), text: text.into() }, &mut findings);
        findings.into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn long_sentences_lines_and_cells_are_found() {
        let long = "word ".repeat(16);
        assert_eq!(found(&format!("{long}\n{long}end.\n")).len(), 1, "one sentence over two lines");
        assert!(found(&format!("{long}end.\n{long}end.\n")).is_empty());
        assert!(found(&format!("{long}end:\n{long}end.\n")).is_empty());
        assert_eq!(found(&format!("{}\n", "end. ".repeat(21))).len(), 1, "105 columns");
        assert_eq!(found(&format!("| {} | b |\n", "x. ".repeat(60))).len(), 1);
        assert!(found(&format!("| [a]({}) | b |\n", "x".repeat(200))).is_empty());
        assert!(found(&format!("```\n{}\n```\n\n    {}\n", long.repeat(3), long.repeat(3))).is_empty());
    }

    #[test]
    fn private_words_are_found_outside_code_and_quotations() {
        assert_eq!(found("Whoever reads this.\n"), ["`whoever`: write `name the subject`"]);
        assert!(found("RFC 1035 says \"255 octets or less\", and `octets` is a name.\n").is_empty());
        assert_eq!(found("It ends with 3.\n").len(), 1);
    }
}
