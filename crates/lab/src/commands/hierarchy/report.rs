//! The report of a run: queries by server and zone, as text and as files.

use super::ask::QuestionTotals;
use super::compare;
use crate::out_folder::write_file;
use hierarchy::construct::Fidelity;
use hierarchy::serve::{Directory, Tally, TallyReport, Transport, Upstream};
use serde::Serialize;
use std::error::Error;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

/// Zones and unknown addresses printed as text.
const SHOWN_MAX: usize = 10;

/// The report as JSON.
#[derive(Serialize)]
pub(super) struct Report {
    zone_count: usize,
    address_count: usize,
    load_s: f64,
    /// Queries to servers.
    upstream: TallyReport,
    /// Questions to the resolver.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "asked")]
    questions: Option<QuestionTotals>,
    /// The comparison of its answers with a trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    compared: Option<Fidelity>,
}

impl Report {
    pub(super) fn new(
        directory: &Directory,
        load_s: f64,
        tally: &Tally,
        questions: Option<QuestionTotals>,
        compared: Option<Fidelity>,
    ) -> Self {
        let (zone_count, address_count) = (directory.zone_count(), directory.server_count());
        Self { zone_count, address_count, load_s, upstream: TallyReport::new(tally, directory), questions, compared }
    }

    /// The report as text.
    pub(super) fn text(&self) -> String {
        let upstream = &self.upstream;
        let kinds: Vec<String> = upstream.answers.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let mut text = format!(
            "{} queries to servers, {} of them over TCP, {} truncated: {}\n",
            upstream.queries,
            upstream.over_tcp,
            upstream.truncated,
            if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") }
        );
        let mut line = |words: std::fmt::Arguments<'_>| {
            let _written = writeln!(text, "{words}");
        };
        for zone in upstream.zones.iter().take(SHOWN_MAX) {
            line(format_args!("  {:>8}  {}", zone.queries, zone.zone));
        }
        if upstream.zones.len() > SHOWN_MAX {
            line(format_args!("  and {} more zones", upstream.zones.len() - SHOWN_MAX));
        }
        if upstream.unanswered_by_backend > 0 {
            line(format_args!("{} not answered by the servers under test", upstream.unanswered_by_backend));
        }
        if upstream.names_elsewhere > 0 {
            line(format_args!("{} REFUSED: the server has no zone for the name", upstream.names_elsewhere));
        }
        if upstream.to_unnamed_addresses > 0 {
            line(format_args!("{} REFUSED: no zone has a server at the address", upstream.to_unnamed_addresses));
        }
        for unnamed in upstream.unnamed_addresses.iter().take(SHOWN_MAX) {
            let (count, address, name, rtype) = (unnamed.queries, unnamed.address, &unnamed.name, &unnamed.rtype);
            line(format_args!("  {count:>8}  {address}, first for {name} {rtype}"));
        }
        if upstream.unnamed_addresses.len() > SHOWN_MAX {
            line(format_args!("  and {} more addresses", upstream.unnamed_addresses.len() - SHOWN_MAX));
        }
        if let Some(questions) = &self.questions {
            line(format_args!(
                "{} questions to the resolver, {} unanswered, {} SERVFAIL: {:.1} upstream queries per question, \
                 {:.1} per zone cut",
                questions.questions,
                questions.unanswered,
                questions.servfail,
                questions.upstream_per_question,
                questions.upstream_per_cut
            ));
            if let Some(later) = questions.upstream_per_later_question {
                line(format_args!("{later:.1} per question without the first"));
            }
        }
        if let Some(fidelity) = &self.compared {
            text.push_str(&compare::text(fidelity));
        }
        text
    }

    /// Writes JSON if requested, and each query to a folder.
    pub(super) fn write(
        &self,
        json: Option<&Path>,
        out: Option<&Path>,
        tally: &Tally,
        directory: &Directory,
    ) -> Result<(), Box<dyn Error>> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        let put = |path: &Path| write_file(path, text.as_bytes());
        match json {
            Some(path) if path.as_os_str() == "-" => print!("{text}"),
            Some(path) => put(path)?,
            None => {}
        }
        if let Some(folder) = out {
            put(&folder.join("report.json"))?;
            let path = folder.join("upstream.txt");
            write_upstream(&path, tally, directory).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }
}

/// Writes one line per query, with fields separated by tabs.
fn write_upstream(path: &Path, tally: &Tally, directory: &Directory) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    writeln!(file, "seconds\tserver\ttransport\tname\ttype\tzone\tanswer")?;
    for upstream in &tally.upstream {
        let Upstream { at_ns, server, transport, name, rtype, zone, kind } = upstream;
        let transport = match transport {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
        };
        let zone = zone.map_or_else(|| "-".to_owned(), |zone| directory.apex(zone).to_string());
        let (seconds, kind) = (*at_ns as f64 / 1e9, kind.label());
        let mut rtype_text = String::new();
        zone::text::print_rtype(*rtype, &mut rtype_text);
        writeln!(file, "{seconds:.6}\t{server}\t{transport}\t{name}\t{rtype_text}\t{zone}\t{kind}")?;
    }
    if tally.upstream_beyond_count > 0 {
        writeln!(file, "# {} queries more", tally.upstream_beyond_count)?;
    }
    file.flush()
}
