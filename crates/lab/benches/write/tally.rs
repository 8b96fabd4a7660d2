//! Summaries of the faults by kind: rows and plots.

use super::fault::{BEFORE, DURING, Fault, Outcome, Role, STEP, STEPS, STEPS_BEFORE, millis};
use super::net::Cut;
use super::table::{Row, Verdict, thousands};
use report::pictures::{Curve, FaultCurve, HorizontalAxis, cumulative, write_fault_chart};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Budgets in milliseconds for the time to the first acknowledgement, median and p99, after a kill and after a cut of
/// the leader (docs/history/budgets.md).
const KILLED_MS: [f64; 2] = [150.0, 600.0];
const CUT_MS: [f64; 2] = [600.0, 1_200.0];
/// The lines of a plot, in the order of the shares in an outcome. The last line covers the others.
const LINES: [&str; 4] =
    ["queries, that node", "queries, nodes that stay", "updates, that node", "updates, nodes that stay"];

/// Outcomes by kind.
#[derive(Default)]
pub(crate) struct Tallies(BTreeMap<(Fault, Role), Vec<Outcome>>);

impl Tallies {
    pub(crate) fn add(&mut self, kind: (Fault, Role), outcome: Outcome) {
        self.0.entry(kind).or_default().push(outcome);
    }

    /// The number of all faults.
    pub(crate) fn count(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    pub(crate) fn rows(&self) -> Vec<Row> {
        self.0.iter().flat_map(|(&(fault, role), outcomes)| rows(fault, role, outcomes)).collect()
    }

    /// Draws a timeline of each kind, and the gaps in updates.
    pub(crate) fn draw(&self, folder: &Path) -> Result<(), String> {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for (&(fault, role), outcomes) in &self.0 {
            let line = |(index, name): (usize, &&'static str)| FaultCurve {
                name: (*name).to_owned(),
                shares: (0..STEPS).map(|step| of_step(outcomes, index, step)).collect(),
            };
            let lines: Vec<FaultCurve> = LINES.iter().enumerate().map(line).collect();
            let label = fault.label(role);
            let title = format!("{label}, {} times: answers of each 100 ms, median and nine in ten", outcomes.len());
            let path = folder.join(format!("{}.svg", fault.file(role)));
            let marks = [(0.0, label.as_str()), (DURING.as_secs_f64(), "as before again")];
            write_fault_chart(&path, &title, (STEP.as_secs_f64(), BEFORE.as_secs_f64()), &lines, &marks)?;
        }
        [Role::Leader, Role::Follower].into_iter().try_for_each(|role| self.draw_times(folder, role))
    }

    /// Draws the gaps in updates of all kinds.
    fn draw_times(&self, folder: &Path, wanted: Role) -> Result<(), String> {
        let of = |(&(fault, role), outcomes): (&(Fault, Role), &Vec<Outcome>)| Curve {
            name: fault.label(role),
            values: outcomes.iter().map(|outcome| outcome.resumed.as_secs_f64()).collect(),
            is_behind: false,
        };
        let lines: Vec<Curve> = self.0.iter().filter(|((_, role), _)| *role == wanted).map(of).collect();
        // Each part of the bench only writes its own plot.
        let is_one_way = self.0.keys().all(|(fault, _)| matches!(fault, Fault::Cut(Cut::Mute | Cut::Deaf)));
        let part = if is_one_way { "-one-way" } else { "" };
        let path = folder.join(format!("failover-{}-times{part}.svg", wanted.label()));
        let title = "From the fault to the first acknowledged update";
        cumulative(&path, title, HorizontalAxis::Times("time"), "faults", &lines, &[])
    }
}

/// The 10th, 50th and 90th percentile of a share in a step.
fn of_step(outcomes: &[Outcome], line: usize, step: usize) -> [f64; 3] {
    let mut shares: Vec<f64> = outcomes.iter().map(|outcome| outcome.shares[line][step]).collect();
    shares.sort_by(f64::total_cmp);
    [0.05, 0.5, 0.95].map(|quantile| at(&shares, quantile))
}

/// A quantile of sorted values: the smallest value with at least this share of all values at or below it.
fn at(sorted: &[f64], quantile: f64) -> f64 {
    let rank = (sorted.len() as f64 * quantile).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}

fn rows(fault: Fault, role: Role, outcomes: &[Outcome]) -> Vec<Row> {
    let sorted = |of: fn(&Outcome) -> Duration| {
        let mut all: Vec<f64> = outcomes.iter().map(|outcome| millis(of(outcome))).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let (resumed, writes, reads, back) =
        (sorted(|one| one.resumed), sorted(|one| one.writes_gap), sorted(|one| one.reads_gap), sorted(|one| one.back));
    let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    let (lost, terms, refused) = (sum(|one| one.lost), sum(|one| one.terms), sum(|one| one.refused));
    let refused_and_done = sum(|one| one.refused_and_done);
    let budget = match (fault, role) {
        (Fault::Kill, Role::Leader) => Some(KILLED_MS),
        (Fault::Cut(Cut::Both), Role::Leader) => Some(CUT_MS),
        _ => None,
    };
    let verdict = match budget {
        // Updates wait through an election, so none may be refused, and refused updates must not be applied.
        _ if lost + refused + refused_and_done > 0 => Verdict::Missed,
        Some([median, slow]) => Verdict::of(at(&resumed, 0.5) <= median && at(&resumed, 0.99) <= slow),
        None => Verdict::Informs,
    };
    let label = fault.label(role);
    let figure =
        |all: &[f64]| format!("p50 {:.0}, p99 {:.0}, worst {:.0} ms", at(all, 0.5), at(all, 0.99), at(all, 1.0));
    let informs = |what: String, figure: String, note: String| Row {
        what,
        figure,
        budget: String::new(),
        verdict: Verdict::Informs,
        note,
    };
    let mut election = informs(
        format!("{label}: terms that began"),
        format!("{terms} in {} faults", outcomes.len()),
        format!("the node had caught up after {}", figure(&back)),
    );
    if role == Role::Follower {
        // A returning node must join the cluster without an election.
        (election.budget, election.verdict) = ("0".to_owned(), Verdict::of(terms == 0));
    }
    vec![
        Row {
            what: format!("{label}: first update acknowledged"),
            figure: figure(&resumed),
            budget: budget
                .map_or_else(String::new, |[median, slow]| format!("p50 <= {median:.0}, p99 <= {slow:.0} ms")),
            verdict,
            note: format!(
                "{} faults; {} acknowledged, {lost} lost; refused: {refused} by nodes that stay, {} by that \
                 node, {refused_and_done} of them done",
                outcomes.len(),
                thousands(sum(|one| one.acknowledged) as f64),
                sum(|one| one.refused_there)
            ),
        },
        informs(
            format!("{label}: longest time without an answer to a query, at nodes that stay"),
            figure(&reads),
            format!("without an acknowledged update: {}", figure(&writes)),
        ),
        election,
    ]
}

const _: () = assert!(STEPS_BEFORE as u128 * STEP.as_millis() == BEFORE.as_millis());
