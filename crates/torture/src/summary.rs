//! The table at the end, as text and as JSON.

use crate::run::RunResult;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Totals of one row.
#[derive(Default, Clone, Debug)]
struct Totals {
    runs: u64,
    passed: u64,
    happened: u64,
    acknowledged: usize,
    unknown: usize,
    operations: u64,
    lost: usize,
    ghosts: usize,
    violations: usize,
    seconds: f64,
}

/// All rows in the order of their first runs.
#[derive(Default, Debug)]
pub(crate) struct Summary {
    order: Vec<String>,
    rows: BTreeMap<String, Totals>,
    failures: Vec<Value>,
    skipped: Vec<String>,
}

impl Summary {
    pub(crate) fn add(&mut self, row: &str, nodes: usize, seed: u64, result: &RunResult) {
        let name = format!("{row}/{nodes}");
        if !self.rows.contains_key(&name) {
            self.order.push(name.clone());
        }
        let totals = self.rows.entry(name.clone()).or_default();
        let verdict = &result.verdict;
        totals.runs += 1;
        totals.passed += u64::from(result.has_passed());
        totals.happened += u64::from(result.evidence.is_some());
        totals.acknowledged += verdict.acknowledged;
        totals.unknown += verdict.unknown;
        totals.operations += result.operations;
        totals.lost += verdict.lost;
        totals.ghosts += verdict.ghosts;
        totals.violations += verdict.violations;
        totals.seconds += result.seconds;
        if !result.has_passed() {
            let why = result.failure.clone().unwrap_or_default();
            self.failures.push(json!({"row": name, "seed": seed, "failure": why, "findings": verdict.findings}));
        }
    }

    /// Records a row that cannot run here.
    pub(crate) fn skip(&mut self, row: &str, why: &str) {
        println!("skipped: {row}: {why}");
        self.skipped.push(format!("{row}: {why}"));
    }

    pub(crate) fn failed(&self) -> u64 {
        self.rows.values().map(|totals| totals.runs - totals.passed).sum()
    }

    pub(crate) fn runs(&self) -> u64 {
        self.rows.values().map(|totals| totals.runs).sum()
    }

    fn total(&self) -> Totals {
        self.rows.values().fold(Totals::default(), |sum, row| Totals {
            runs: sum.runs + row.runs,
            passed: sum.passed + row.passed,
            happened: sum.happened + row.happened,
            acknowledged: sum.acknowledged + row.acknowledged,
            unknown: sum.unknown + row.unknown,
            operations: sum.operations + row.operations,
            lost: sum.lost + row.lost,
            ghosts: sum.ghosts + row.ghosts,
            violations: sum.violations + row.violations,
            seconds: sum.seconds + row.seconds,
        })
    }

    /// Prints the table. The counts of lost records, ghosts and violations have their totals next to them.
    pub(crate) fn print(&self) {
        println!(
            "\n{:<20} {:>5} {:>9} {:>7} {:>13} {:>8} {:>18} {:>18} {:>22} {:>8}",
            "row/nodes",
            "runs",
            "happened",
            "passed",
            "acknowledged",
            "unknown",
            "lost of records",
            "ghosts of records",
            "violations of checks",
            "seconds"
        );
        for name in &self.order {
            print_row(name, &self.rows[name]);
        }
        print_row("all", &self.total());
        for skipped in &self.skipped {
            println!("skipped: {skipped}");
        }
    }

    /// Returns the table as JSON.
    pub(crate) fn json(&self) -> Value {
        let rows: Vec<Value> = self.order.iter().map(|name| row_json(name, &self.rows[name])).collect();
        let total = row_json("all", &self.total());
        json!({"rows": rows, "total": total, "failures": self.failures, "skipped": self.skipped})
    }
}

fn print_row(name: &str, row: &Totals) {
    let of = |count: usize, all: u64| format!("{count} of {all}");
    let acknowledged = row.acknowledged as u64;
    println!(
        "{name:<20} {:>5} {:>9} {:>7} {:>13} {:>8} {:>18} {:>18} {:>22} {:>8.0}",
        row.runs,
        row.happened,
        row.passed,
        row.acknowledged,
        row.unknown,
        of(row.lost, acknowledged),
        of(row.ghosts, acknowledged),
        of(row.violations, row.operations),
        row.seconds
    );
}

fn row_json(name: &str, row: &Totals) -> Value {
    json!({
        "row": name, "runs": row.runs, "faults_happened": row.happened, "passed": row.passed,
        "acknowledged": row.acknowledged, "unknown": row.unknown, "operations_checked": row.operations,
        "lost": row.lost, "ghosts": row.ghosts, "violations": row.violations, "seconds": row.seconds,
    })
}
