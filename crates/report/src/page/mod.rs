//! The report: a self-contained HTML file.
//!
//! ```text
//!    Run... -> intervals -> figures (JSON of plotly.js) --+
//!           -> tables ------------------------------------+-> page.html: style sheet, script of plotly.js, page.js
//! ```

// A chart.
mod figure;
// Intervals on a time axis.
mod intervals;
// The charts.
mod clients;
mod freshness;
mod latency;
mod metrics;
mod outcomes;
mod series;
mod server;
// Figures, verdicts, provenance.
mod client_latency;
mod table;
mod transports;
mod wrong;

use super::Run;
use figure::Figure;
pub use figure::escape;
use intervals::Interval;
use serde_json::json;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The page may not send any requests, not even by plotly.js.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:";

/// The style sheet of pages, light and dark.
pub const PAGE_STYLE: &str = include_str!("page.css");

/// The page. The script that draws it takes about 5 MB.
#[must_use]
pub fn page(runs: &[Run], title: &str) -> String {
    let intervals: Vec<Vec<Interval>> = runs.iter().map(intervals::of).collect();
    let figures = figures(runs, &intervals);
    let mut nav = String::new();
    let mut plots = String::new();
    for Figure { id, name, caption, .. } in &figures {
        let [name, caption] = [name, caption].map(|text| escape(text));
        // Charts of each run are listed once. Writing into a string cannot fail.
        if !id.ends_with(|letter: char| letter.is_ascii_digit() && letter != '0') {
            let short = name.split(": ").next().filter(|_| id.ends_with("-0")).unwrap_or(&name);
            let _written = writeln!(nav, "<a href=\"#at-{id}\">{short}</a>");
        }
        let _written = writeln!(
            plots,
            "<figure id=\"at-{id}\"><div class=\"plot\" id=\"{id}\" role=\"img\" aria-label=\"{name}\"></div>\
             <figcaption>{caption}</figcaption></figure>"
        );
    }
    let data: Vec<_> = figures
        .into_iter()
        .map(|figure| {
            json!({
                "id": figure.id, "title": figure.title, "traces": figure.traces, "layout": figure.layout,
                "is_timed": figure.is_timed,
            })
        })
        .collect();
    // These letters end a script anywhere in it, so they are escaped.
    let data = serde_json::Value::from(data).to_string().replace("</", "<\\/");
    let title = escape(title);
    let version = env!("CARGO_PKG_VERSION");
    let origins: BTreeSet<_> = runs.iter().map(|run| escape(&run.origin)).collect();
    let origins = origins.into_iter().collect::<Vec<_>>().join(", ");
    [
        &format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n\
             <meta name=\"generator\" content=\"catlab {version}\">\n\
             <title>{title}</title>\n<style>\n"
        ),
        PAGE_STYLE,
        &format!("</style>\n</head>\n<body>\n<header><h1>{title}</h1>\n<p>Measured by {origins}</p>\n"),
        &table::warnings(runs),
        &format!("<nav>\n<a href=\"#figures-of-runs\">Figures</a>\n{nav}<a href=\"#runs\">Runs</a>\n</nav></header>\n"),
        "<main>\n",
        "<h2 id=\"figures-of-runs\">Figures</h2>\n",
        &table::figures(runs),
        &table::times(runs),
        &transports::tables(runs),
        &client_latency::table(runs),
        &table::notable_intervals(runs, &intervals),
        &wrong::answers(runs),
        &table::events(runs),
        "<h2 id=\"pictures\">Pictures</h2>\n",
        "<noscript><p>The pictures need JavaScript. The script is in this file.</p></noscript>\n",
        &plots,
        &table::provenance(runs),
        &format!(
            "</main>\n<footer>Drawn by catlab {version} with plotly.js. Drag to look closer, double-click to go back, \
             click the legend to hide and show.</footer>\n\
             <script id=\"figures\" type=\"application/json\">{data}</script>\n"
        ),
        &script(),
        "<script>\n",
        include_str!("page.js"),
        "</script>\n</body>\n</html>\n",
    ]
    .concat()
}

fn figures(runs: &[Run], intervals: &[Vec<Interval>]) -> Vec<Figure> {
    let is_alone = runs.len() == 1;
    let each = || runs.iter().zip(intervals).enumerate();
    let mut figures = vec![latency::percentiles(runs), latency::cumulative(runs), latency::over_time(runs, intervals)];
    figures
        .extend(each().filter_map(|(index, (run, run_intervals))| latency::heat(index, run, run_intervals, is_alone)));
    figures
        .extend(each().filter_map(|(index, (run, run_intervals))| latency::boxes(index, run, run_intervals, is_alone)));
    figures.push(latency::rates(runs, intervals));
    figures.extend(
        each().filter_map(|(index, (run, run_intervals))| outcomes::answers(index, run, run_intervals, is_alone)),
    );
    figures.push(outcomes::losses(runs, intervals));
    figures.extend(outcomes::connections(runs));
    figures.push(latency::send_lag(runs, intervals));
    figures.extend(freshness::all(runs));
    figures.extend(server::all(runs));
    figures.extend(clients::all(runs));
    if !is_alone {
        figure::align(&mut figures);
    }
    figures
}

/// Only plotly.js: its crate also adds MathJax, which no chart needs.
fn script() -> String {
    const END: &str = "</script>";
    let both = plotly::Plot::offline_js_sources();
    match both.find(END) {
        Some(end) => both[..end + END.len()].to_owned() + "\n",
        None => both,
    }
}

#[cfg(test)]
mod tests;
