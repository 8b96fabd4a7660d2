//! Compares two runs of one experiment: other builds, machines or days.
//!
//! ```text
//!   folder A, folder B --> measured: definition, cells, machines, times
//!                             |--> definitions: what differs in what was measured
//!                             +--> pair: values of both by repeat, their ratio --> text
//! ```
//! A value differs by more than the spread if its intervals in A and B do not overlap. This needs no pairs, so the
//! order of the runs does not matter.

// The two runs.
mod definitions;
mod measured;
// Their values.
mod pair;
mod text;

#[cfg(test)]
mod tests;

pub use measured::MeasuredRun;
pub use pair::{Difference, Estimate, Pair};

use crate::claim::{Judgement, Verdict, cell_name, each_repeat, judge};
use crate::definition::Claim;
use crate::page::results::{Combination, FIGURES};
use serde::Serialize;
use std::collections::BTreeMap;

/// Two runs, compared.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The title of the experiment.
    pub experiment: String,
    /// The first run.
    pub a: RunSummary,
    /// The second run.
    pub b: RunSummary,
    /// What differs in the definitions, one text for each key.
    pub definition_differences: Vec<String>,
    /// Whether both runs were measured in turns, at least as many as one has repeats. If not, differences include drift
    /// of the machine. `None` if a run folder has no times.
    pub is_interleaved: Option<bool>,
    /// The versions of all servers.
    pub servers: Vec<ComparedServer>,
    /// The claims of A, then those that only B has.
    pub claims: Vec<ComparedClaim>,
    /// The main figures of each combination of parameters.
    pub cells: Vec<ComparedCell>,
}

/// Where and when a run was measured.
#[derive(Clone, Debug, Serialize)]
pub struct RunSummary {
    /// Its folder, as the user named it.
    pub folder: String,
    /// The machines that ran its loads.
    pub machines: Vec<String>,
    /// When its first and last load started, in seconds since 1970.
    pub started: Option<[f64; 2]>,
}

/// The versions of a server in both runs. Empty if the run did not start it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ComparedServer {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// Its versions in A.
    pub a: Vec<String>,
    /// Its versions in B.
    pub b: Vec<String>,
}

/// A claim in both runs.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedClaim {
    /// The claim, in words.
    pub claim: String,
    /// The unit of its value.
    pub unit: String,
    /// Its value.
    #[serde(flatten)]
    pub pair: Pair,
    /// The verdict in A. `None` if A has no such claim.
    pub verdict_a: Option<Verdict>,
    /// The verdict in B.
    pub verdict_b: Option<Verdict>,
}

/// A combination of parameters in both runs.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedCell {
    /// The parameters.
    pub parameters: BTreeMap<String, String>,
    /// The number of repeats of A with each outcome, for example `2 measured, 1 INVALID`. Empty if A has none.
    pub outcome_a: String,
    /// The same of B.
    pub outcome_b: String,
    /// Whether both runs measured all of its repeats.
    pub is_complete: bool,
    /// Its main figures.
    pub figures: Vec<ComparedFigure>,
}

/// A figure in both runs.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedFigure {
    /// Its name.
    pub figure: String,
    /// Its value.
    #[serde(flatten)]
    pub pair: Pair,
}

impl Comparison {
    /// Compares two runs.
    ///
    /// # Errors
    /// They are runs of different experiments, or a claim cannot be judged.
    pub fn new(a: &MeasuredRun, b: &MeasuredRun) -> Result<Self, String> {
        let [title_a, title_b] = [a, b].map(|run| run.experiment.title.clone());
        if title_a != title_b {
            return Err(format!(
                "cannot compare {} and {}: they are different experiments, \"{title_a}\" and \"{title_b}\"",
                a.name, b.name
            ));
        }
        Ok(Self {
            experiment: title_a,
            definition_differences: definitions::differences(&a.experiment, &b.experiment)?,
            is_interleaved: is_interleaved(a, b),
            servers: servers(a, b),
            claims: claims(a, b)?,
            cells: cells(a, b),
            a: a.summary(),
            b: b.summary(),
        })
    }
}

fn is_interleaved(a: &MeasuredRun, b: &MeasuredRun) -> Option<bool> {
    if a.starts.is_empty() || b.starts.is_empty() {
        return None;
    }
    let mut starts: Vec<(f64, bool)> = a.starts.iter().map(|&start| (start, true)).collect();
    starts.extend(b.starts.iter().map(|&start| (start, false)));
    starts.sort_by(|one, other| one.0.total_cmp(&other.0));
    let turns = starts.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
    Some(turns >= a.experiment.repeats.min(b.experiment.repeats).max(2) as usize)
}

fn servers(a: &MeasuredRun, b: &MeasuredRun) -> Vec<ComparedServer> {
    let mut servers: Vec<ComparedServer> = Vec::new();
    for (run, is_a) in [(a, true), (b, false)] {
        for server in run.results.cells.iter().flat_map(|cell| &cell.servers) {
            let is_same = |known: &ComparedServer| (&known.name, &known.kind) == (&server.name, &server.kind);
            let place = servers.iter().position(is_same).unwrap_or_else(|| {
                let (name, kind) = (server.name.clone(), server.kind.clone());
                servers.push(ComparedServer { name, kind, ..ComparedServer::default() });
                servers.len() - 1
            });
            let versions = if is_a { &mut servers[place].a } else { &mut servers[place].b };
            if !versions.contains(&server.version) {
                versions.push(server.version.clone());
            }
        }
    }
    servers
}

/// A claim of one run with its value in each repeat.
struct ClaimInRun {
    judged: Judgement,
    values: Vec<Option<f64>>,
}

impl ClaimInRun {
    fn new(run: &MeasuredRun, claim: &Claim) -> Result<Self, String> {
        let judged = judge(claim, &run.experiment, &run.results.cells)?;
        let values = match judged.here {
            Some(_) => each_repeat(claim, &run.experiment, &run.results.cells)?,
            // Values of some repeats only would favor the better ones.
            None => Vec::new(),
        };
        Ok(Self { judged, values })
    }
}

fn claims(a: &MeasuredRun, b: &MeasuredRun) -> Result<Vec<ComparedClaim>, String> {
    let of = |run: &MeasuredRun, text: &str| {
        let claim = run.experiment.claims.iter().find(|claim| claim.text == text);
        claim.map(|claim| ClaimInRun::new(run, claim)).transpose()
    };
    let mut texts: Vec<&String> = Vec::new();
    for claim in a.experiment.claims.iter().chain(&b.experiment.claims) {
        if !texts.contains(&&claim.text) {
            texts.push(&claim.text);
        }
    }
    let each = texts.into_iter().map(|text| {
        let (of_a, of_b) = (of(a, text)?, of(b, text)?);
        let values = |of: &Option<ClaimInRun>| of.as_ref().map_or_else(Vec::new, |of| of.values.clone());
        Ok(ComparedClaim {
            claim: text.clone(),
            unit: of_a.as_ref().or(of_b.as_ref()).map_or_else(String::new, |of| of.judged.unit.clone()),
            pair: Pair::of(&values(&of_a), &values(&of_b)),
            verdict_a: of_a.map(|of| of.judged.verdict),
            verdict_b: of_b.map(|of| of.judged.verdict),
        })
    });
    each.collect()
}

fn cells(a: &MeasuredRun, b: &MeasuredRun) -> Vec<ComparedCell> {
    let mut figures: Vec<String> = Vec::new();
    for load in a.experiment.loads.iter().chain(&b.experiment.loads) {
        let prefix = if load.name.is_empty() { String::new() } else { format!("{}.", load.name) };
        for figure in FIGURES.map(|figure| format!("{prefix}{figure}")) {
            if !figures.contains(&figure) {
                figures.push(figure);
            }
        }
    }
    let mut combinations: Vec<&BTreeMap<String, String>> = Vec::new();
    for combination in a.results.combinations.iter().chain(&b.results.combinations) {
        if !combinations.contains(&&combination.parameters) {
            combinations.push(&combination.parameters);
        }
    }
    let each = combinations.into_iter().map(|parameters| {
        let [of_a, of_b] = [a, b].map(|run| run.results.combinations.iter().find(|one| one.parameters == *parameters));
        let outcome = |of: Option<&Combination>| of.map_or_else(String::new, Combination::outcome);
        let values = |of: Option<&Combination>, figure: &str| of.map_or_else(Vec::new, |of| of.each_repeat(figure));
        let compared = figures.iter().map(|figure| ComparedFigure {
            figure: figure.clone(),
            pair: Pair::of(&values(of_a, figure), &values(of_b, figure)),
        });
        ComparedCell {
            parameters: parameters.clone(),
            outcome_a: outcome(of_a),
            outcome_b: outcome(of_b),
            is_complete: [of_a, of_b].iter().all(|of| of.is_some_and(Combination::is_complete)),
            figures: compared.filter(|compared| compared.pair.a.is_some() || compared.pair.b.is_some()).collect(),
        }
    });
    each.collect()
}

impl ComparedCell {
    /// The parameters as text.
    fn name(&self) -> String {
        let name = cell_name(&self.parameters);
        if name.is_empty() { "all cells".into() } else { name }
    }
}
