//! `index.html`: one file without scripts.

use super::Page;
use super::results::{Combination, outcome};
use super::verdicts::here;
use crate::claim::{Judgement, cell_name, number};
use crate::limits::CONFIGURATIONS_SHOWN_MAX;
use crate::results::{CellResult, Outcome};
use report::escape;
use report::pictures::ImageFormat;

/// The page loads no other file.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";
const NONE: &str = "–";

impl Page<'_> {
    pub(super) fn html(&self) -> Result<String, String> {
        let title = escape(&self.experiment.title);
        let version = env!("CARGO_PKG_VERSION");
        Ok([
            format!(
                "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
                 <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
                 <meta name=\"viewport\" content=\"width=device-width\">\n\
                 <meta name=\"generator\" content=\"catlab {version}\">\n<title>{title}</title>\n<style>\n"
            ),
            report::PAGE_STYLE.to_owned(),
            include_str!("style.css").to_owned(),
            format!("</style>\n</head>\n<body>\n<header><h1>{title}</h1>\n"),
            format!("<p>{}</p>\n", escape(&self.experiment.question)),
            format!("<p>Source: {}</p>\n{}</header>\n<main>\n", escape(&self.experiment.source), self.warning()),
            self.claims(),
            self.drawn()?,
            self.cells(),
            self.servers(),
            self.commands(),
            self.limits(),
            self.machine(),
            format!("</main>\n<footer>Written by catlab {version}.</footer>\n</body>\n</html>\n"),
        ]
        .concat())
    }

    /// The number of incomplete combinations.
    fn warning(&self) -> String {
        let all = self.results.combinations.iter().filter(|combination| combination.is_planned);
        let incomplete = all.clone().filter(|combination| !combination.is_complete()).count();
        if incomplete == 0 {
            return String::new();
        }
        format!(
            "<p class=\"warning\"><b>Incomplete.</b> {incomplete} of {} combinations of parameters have repeats \
             without a valid result. <a href=\"#cells\">The table of cells</a> has the reasons.</p>\n",
            all.count()
        )
    }

    fn claims(&self) -> String {
        if self.verdicts.claims.is_empty() {
            return String::new();
        }
        let rows: String = self.verdicts.claims.iter().map(claim_row).collect();
        format!(
            "<h2 id=\"claims\">Claims</h2>\n<p>{}. A value is the median over the repeats. The verdict follows from \
             its interval.</p>\n{}{rows}{END}",
            escape(&self.verdicts.counts()),
            head("claims", &["claim", "wanted", "source", "here", "verdict"].map(str::to_owned)),
        )
    }

    fn drawn(&self) -> Result<String, String> {
        let mut html = String::new();
        for picture in &self.pictures {
            let svg = picture.chart.draw(ImageFormat::Svg)?;
            let svg = String::from_utf8(svg).map_err(|error| format!("cannot draw {}: {error}", picture.file_stem))?;
            let (title, caption) = (escape(&picture.title), escape(&picture.chart.caption()));
            html += &format!(
                "<figure><div class=\"wide chart\" role=\"img\" aria-label=\"{title}\">\n{svg}</div>\n\
                 <figcaption>{caption}</figcaption></figure>\n"
            );
        }
        Ok(if html.is_empty() { html } else { format!("<h2 id=\"pictures\">Pictures</h2>\n{html}") })
    }

    fn cells(&self) -> String {
        let names: Vec<&String> = self.experiment.matrix.keys().collect();
        let columns = |extra: &[&str]| -> Vec<String> {
            let parameters = names.iter().map(|name| (*name).clone());
            let extra = extra.iter().map(|name| (*name).to_owned());
            parameters.chain(extra).chain(self.results.figures.iter().cloned()).chain(["reasons".to_owned()]).collect()
        };
        let parameters = |combination: &Combination| -> String {
            let value = |name: &&String| combination.parameters.get(*name).map_or(NONE, String::as_str);
            names.iter().map(|name| cell(&escape(value(name)))).collect()
        };
        let rows: String = self
            .results
            .combinations
            .iter()
            .map(|all| {
                let class = if all.is_complete() { "outcome" } else { "outcome bad" };
                let figures: String = self.results.figures.iter().map(|name| figure_cell(all.figure(name))).collect();
                let outcome = escape(&all.outcome());
                let reasons = reasons(&all.reasons());
                format!("<tr>{}<td class=\"{class}\">{outcome}</td>{figures}{reasons}</tr>\n", parameters(all))
            })
            .collect();
        let each = self.results.combinations.iter().flat_map(|all| all.cells.iter().map(move |one| (all, one)));
        let each: String = each
            .map(|(all, result)| {
                let figures: String = self.results.figures.iter().map(|name| one_figure(result, name)).collect();
                format!("<tr>{}{}{figures}{}</tr>\n", parameters(all), repeat(result), own_reasons(result))
            })
            .collect();
        format!(
            "<h2 id=\"cells\">Cells</h2>\n<p>Medians of the measured repeats, with the lowest and highest.</p>\n\
             {}{rows}{END}<details><summary>Each repeat</summary>\n{}{each}{END}</details>\n",
            head("cells", &columns(&["outcome"])),
            head("cells", &columns(&["repeat", "outcome"])),
        )
    }

    /// Each server once, with all its configurations.
    fn servers(&self) -> String {
        let mut servers: Vec<ShownServer<'_>> = Vec::new();
        for result in &self.results.cells {
            for server in &result.servers {
                let key = [server.name.as_str(), &server.kind, &server.version];
                let place = servers.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
                    servers.push((key, Vec::new()));
                    servers.len() - 1
                });
                let configurations = &mut servers[place].1;
                if !configurations.iter().any(|(known, _)| *known == server.configuration) {
                    configurations.push((&server.configuration, cell_name(&result.cell.parameters)));
                }
            }
        }
        let each: String = servers
            .iter()
            .map(|([name, kind, version], configurations)| {
                let shown = configurations.iter().take(CONFIGURATIONS_SHOWN_MAX);
                let shown: String =
                    shown.map(|(text, cell)| format!("<p>{}</p><pre>{}</pre>\n", escape(cell), escape(text))).collect();
                let more = configurations.len().saturating_sub(CONFIGURATIONS_SHOWN_MAX);
                let more =
                    if more > 0 { format!("<p>{more} more are in the files cell.json.</p>\n") } else { String::new() };
                let title = [*name, kind, version].map(escape).join(", ");
                format!("<details><summary>{title}</summary>\n{shown}{more}</details>\n")
            })
            .collect();
        if each.is_empty() { each } else { format!("<h2 id=\"servers\">Servers</h2>\n{each}") }
    }

    /// The commands of the first repeat of each combination.
    fn commands(&self) -> String {
        let with = self.results.combinations.iter().filter_map(|all| {
            let first = all.cells.iter().find(|result| !result.commands.is_empty())?;
            let commands = escape(&first.commands.join("\n"));
            let name = cell_name(&all.parameters);
            let name = if name.is_empty() { "all cells".to_owned() } else { escape(&name) };
            Some(format!("<details><summary>{name}</summary>\n<pre>{commands}</pre></details>\n"))
        });
        let each: String = with.collect();
        if each.is_empty() {
            return each;
        }
        let how = "The commands of each cell, for a shell in the folder of these results. Cores, limits of CPU and \
                   memory, links and events are not part of them.";
        format!("<h2 id=\"commands\">Commands</h2>\n<p>{how}</p>\n{each}")
    }

    fn limits(&self) -> String {
        let limits: String = self.experiment.limits.iter().map(|text| format!("<li>{}</li>\n", escape(text))).collect();
        if limits.is_empty() {
            return limits;
        }
        format!("<h2 id=\"limits\">What it does not show</h2>\n<ul>\n{limits}</ul>\n")
    }

    fn machine(&self) -> String {
        let machines: String = self.machines.iter().map(|machine| format!("<p>{}</p>\n", escape(machine))).collect();
        format!("<h2 id=\"machine\">Machine</h2>\n{machines}")
    }
}

/// Name, kind and version of a server, and its configurations with the first cell of each.
type ShownServer<'r> = ([&'r str; 3], Vec<(&'r str, String)>);

const END: &str = "</tbody></table></div>\n";

fn head(class: &str, columns: &[String]) -> String {
    let cells: String = columns.iter().map(|name| format!("<th scope=\"col\">{}</th>", escape(name))).collect();
    format!("<div class=\"wide\"><table class=\"{class}\">\n<thead><tr>{cells}</tr></thead>\n<tbody>\n")
}

fn cell(html: &str) -> String {
    format!("<td>{html}</td>")
}

fn claim_row(judged: &Judgement) -> String {
    let here = here(judged).map_or_else(
        || NONE.to_owned(),
        |(here, interval)| format!("{}<small>{}</small>", escape(&here), escape(&interval)),
    );
    let paper = judged.paper.map_or_else(|| NONE.to_owned(), number::text);
    let reasons: String = judged.reasons.iter().map(|reason| format!("<li>{}</li>", escape(reason))).collect();
    let reasons = if reasons.is_empty() { reasons } else { format!("<ul>{reasons}</ul>") };
    let verdict = judged.verdict.text();
    format!(
        "<tr><td>{}{reasons}</td><td class=\"number\" data-name=\"wanted\">{}</td>\
         <td class=\"number\" data-name=\"source\">{paper}</td><td class=\"number\" data-name=\"here\">{here}</td>\
         <td><span class=\"verdict {}\">{verdict}</span></td></tr>\n",
        escape(&judged.claim),
        escape(&judged.want),
        verdict.replace(' ', "-"),
    )
}

fn figure_cell(figure: Option<[f64; 3]>) -> String {
    let text = figure.map_or_else(
        || NONE.to_owned(),
        |[low, median, high]| {
            let range = if high > low {
                format!("<small>{} to {}</small>", number::text(low), number::text(high))
            } else {
                String::new()
            };
            number::text(median) + &range
        },
    );
    format!("<td class=\"number\">{text}</td>")
}

/// A figure of one repeat. It is shown even if the result is INVALID.
fn one_figure(result: &CellResult, figure: &str) -> String {
    let text = result.figures.get(figure).map_or_else(|| NONE.to_owned(), |value| number::text(*value));
    format!("<td class=\"number\">{text}</td>")
}

fn repeat(result: &CellResult) -> String {
    let class = if result.outcome == Outcome::Measured { "outcome" } else { "outcome bad" };
    format!("<td>{}</td><td class=\"{class}\">{}</td>", result.cell.repeat + 1, outcome(&result.outcome).0)
}

fn own_reasons(result: &CellResult) -> String {
    reasons(outcome(&result.outcome).1)
}

fn reasons(reasons: &[String]) -> String {
    let text = reasons.iter().map(|reason| escape(reason)).collect::<Vec<_>>().join("<br>");
    let class = if text.is_empty() { "" } else { " class=\"reasons\"" };
    format!("<td{class}>{text}</td>")
}
