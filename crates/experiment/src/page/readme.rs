//! `README.md`: the page as Markdown, for a repository.

use super::verdicts::value;
use super::{CELLS, Page};
use crate::claim::{Interval, Judgement, Verdict, cell_name, number};
use crate::limits::TABLE_FIELDS_MAX;

const NONE: &str = "–";
/// In the reason of an INVALID repeat, this follows the names of the cell and the repeat.
const INVALID: &str = ": INVALID";
/// Longest line of text.
const COLUMNS_MAX: usize = 100;

/// Breaks a text into lines. All but the first one are indented.
fn wrapped(text: &str, indent: &str) -> String {
    let (mut out, mut columns) = (String::new(), 2);
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if !out.is_empty() && columns + 1 + length > COLUMNS_MAX {
            out += &format!("\n{indent}");
            columns = indent.len();
        } else if !out.is_empty() {
            out.push(' ');
            columns += 1;
        }
        out += word;
        columns += length;
    }
    out
}

/// An item of a list.
fn item(line: &str) -> String {
    format!("- {}\n", wrapped(&text(line), "  "))
}

impl Page<'_> {
    pub(super) fn readme(&self) -> String {
        let experiment = self.experiment;
        let mut out = format!(
            "# {}\n\n{}\n\n{}\n",
            text(&experiment.title),
            wrapped(&text(&experiment.question), ""),
            wrapped(&format!("Source: {}", text(&experiment.source)), "")
        );
        out += &self.claims_in_markdown();
        for picture in &self.pictures {
            let stem = &picture.file_stem;
            out += &format!("\n![{}]({stem}.svg)\n\n[PNG]({stem}.png)\n", text(&picture.title));
        }
        out += &self.cells_in_markdown();
        let first = self.results.combinations.iter().find_map(|all| {
            let result = all.cells.iter().find(|result| !result.commands.is_empty())?;
            Some((cell_name(&all.parameters), result.commands.join("\n")))
        });
        if let Some((name, commands)) = first {
            let name = if name.is_empty() { name } else { format!(" of {}", text(&name)) };
            let how = format!(
                "The commands{name}, for a shell in the folder of the results. `index.html` has those of all cells."
            );
            out += &format!("\n## Commands\n\n{}\n\n", wrapped(&how, ""));
            out += &fenced(&commands);
        }
        out += &self.servers_in_markdown();
        if !experiment.limits.is_empty() {
            let limits: String =
                experiment.limits.iter().map(|limit| format!("- {}\n", wrapped(&text(limit), "  "))).collect();
            out += &format!("\n## What it does not show\n\n{limits}");
        }
        let machines: String = self.machines.iter().map(|machine| format!("- {}\n", text(machine))).collect();
        out + &format!("\n## Machine\n\n{machines}")
    }

    fn claims_in_markdown(&self) -> String {
        if self.verdicts.claims.is_empty() {
            return String::new();
        }
        let row = |cells: [String; 5]| format!("| {} |\n", cells.join(" | "));
        let kind = self.only_kind();
        let about = kind.as_ref().map(|kind| format!(" In parentheses: {kind}.")).unwrap_or_default();
        let mut out = format!("\n## Claims\n\n{}.{about}\n\n", self.verdicts.counts());
        out += &row(["claim", "wanted", "source", "here", "verdict"].map(str::to_owned));
        out += "|---|---|---|---|---|\n";
        for judged in &self.verdicts.claims {
            let here = value(judged).zip(judged.interval).map(|(here, interval)| {
                let interval = if kind.is_some() { interval.ends() } else { interval.text() };
                format!("{} ({})", text(&here), text(&interval))
            });
            out += &row([
                text(&judged.claim),
                text(&judged.want),
                judged.paper.map_or_else(|| NONE.to_owned(), number::text),
                here.unwrap_or_else(|| NONE.to_owned()),
                format!("**{}**", judged.verdict.text()),
            ]);
        }
        // The table shows why a claim is undecided.
        let has_reasons = |judged: &&Judgement| !judged.reasons.is_empty() && judged.verdict != Verdict::Undecided;
        let with_reasons = self.verdicts.claims.iter().filter(has_reasons);
        let reasons: String = with_reasons
            .map(|judged| {
                // The list of cells has the whole text.
                let short = judged.reasons.iter().map(|reason| match reason.find(INVALID) {
                    Some(at) => &reason[..at + INVALID.len()],
                    None => reason.as_str(),
                });
                item(&format!("{}: {}", judged.claim, short.collect::<Vec<_>>().join("; ")))
            })
            .collect();
        if reasons.is_empty() { out } else { out + "\n" + &reasons }
    }

    /// The kind of the intervals, if all claims have the same.
    fn only_kind(&self) -> Option<String> {
        let mut kinds = self.verdicts.claims.iter().filter_map(|judged| judged.interval.as_ref().map(Interval::kind));
        let first = kinds.next()?;
        kinds.all(|kind| kind == first).then_some(first)
    }

    /// The kind and version of each server.
    fn servers_in_markdown(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        for server in self.results.cells.iter().flat_map(|result| &result.servers) {
            let line = format!("- {}\n", text(&[&*server.name, &server.kind, &server.version].join(", ")));
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        if lines.is_empty() { String::new() } else { format!("\n## Servers\n\n{}", lines.concat()) }
    }

    fn cells_in_markdown(&self) -> String {
        let parameters: Vec<&String> = self.experiment.matrix.keys().collect();
        let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let names = parameters.iter().map(|name| text(name)).chain(["outcome".to_owned()]);
        let columns: Vec<String> = names.chain(self.results.figures.iter().map(|name| text(name))).collect();
        let rule = format!("|{}\n", "---|".repeat(columns.len()));
        let combinations = &self.results.combinations;
        let mut out = format!("\n## Cells\n\n[The figures of each repeat]({CELLS}) as CSV.\n\n");
        let has_table = combinations.len() * columns.len() <= TABLE_FIELDS_MAX;
        if has_table {
            out += "Medians of the measured repeats, with the lowest and highest:\n\n";
            out += &(row(columns) + &rule);
        }
        for all in combinations.iter().filter(|_| has_table) {
            let values = parameters.iter().map(|name| all.parameters.get(*name).map_or(NONE, String::as_str));
            let figures = self.results.figures.iter().map(|name| match all.figure(name) {
                Some([low, median, high]) if high > low => {
                    let [low, median, high] = [low, median, high].map(number::text);
                    format!("{median} ({low} to {high})")
                }
                Some([_, median, _]) => number::text(median),
                None => NONE.to_owned(),
            });
            out += &row(values.map(text).chain([text(&all.outcome())]).chain(figures).collect());
        }
        let lines = self.results.combinations.iter().map(|all| (cell_name(&all.parameters), all.reasons()));
        let lines: String = lines
            .filter(|(_, reasons)| !reasons.is_empty())
            .map(|(name, reasons)| item(&format!("{name}: {}", reasons.join("; "))))
            .collect();
        if lines.is_empty() { out } else { out.trim_end().to_owned() + "\n\n" + &lines }
    }
}

/// Text in one line of Markdown, without markup.
fn text(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '\n' | '\r' => out.push(' '),
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' => out.extend(['\\', letter]),
            _ => out.push(letter),
        }
    }
    out
}

/// A block of code. Its fence is longer than any in the text.
fn fenced(code: &str) -> String {
    let mut fence = "```".to_owned();
    while code.contains(&fence) {
        fence.push('`');
    }
    format!("{fence}sh\n{code}\n{fence}\n")
}
