//! The figures of a run folder.

use measure::Quantiles;
use report::Run;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// The results of `catlab hierarchy run`.
const HIERARCHY_REPORT: &str = "report.json";

/// The figures of a run by name, and the reasons of its verdict.
pub(super) struct Figures {
    pub(super) values: BTreeMap<String, f64>,
    pub(super) reasons: Vec<String>,
}

/// Reads a run folder.
///
/// # Errors
/// It has no results.
pub(super) fn read(folder: &Path) -> Result<Figures, String> {
    let mut values = BTreeMap::new();
    let report = folder.join(HIERARCHY_REPORT);
    if report.exists() {
        flatten("", &json(&report)?, &mut values);
        return Ok(Figures { values, reasons: Vec::new() });
    }
    let run = report::folder::read(folder).map_err(|error| error.to_string())?;
    flatten("", &json(&folder.join("summary.json"))?, &mut values);
    values.extend(main_figures(&run));
    values.extend(super::phases::figures(&run.recording));
    Ok(Figures { values, reasons: run.reasons_invalid().to_vec() })
}

fn json(path: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// The figures that claims use most often.
fn main_figures(run: &Run) -> Vec<(String, f64)> {
    let (row, latency) = (&run.total, &run.total.latency);
    let quantiles = Quantiles::from(latency);
    // Nanoseconds to microseconds.
    let (mean_us, p95_us) = (latency.mean_and_deviation().0 / 1e3, latency.quantile(0.95) as f64 / 1e3);
    let figures = [
        ("rate", run.achieved_rate()),
        ("sent", row.sent as f64),
        ("answered", row.answered as f64),
        ("lost", (row.timed_out + row.connection_lost) as f64),
        ("mean_us", mean_us),
        ("p50_us", quantiles.p50),
        ("p95_us", p95_us),
        ("p99_us", quantiles.p99),
        ("p99_9_us", quantiles.p99_9),
    ];
    figures.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Adds all numbers of a JSON value by their path.
fn flatten(path: &str, value: &Value, values: &mut BTreeMap<String, f64>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Number(number) => {
            values.extend(number.as_f64().map(|number| (path.to_owned(), number)));
        }
        Value::Object(members) => members.iter().for_each(|(name, member)| flatten(&below(name), member, values)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_path() {
        let value =
            serde_json::json!({"sent": 3, "latency_us": {"p50": 1.5}, "hosts": ["a"], "validity": {"valid": true}});
        let mut values = BTreeMap::new();
        flatten("", &value, &mut values);
        assert_eq!(values, BTreeMap::from([("sent".to_owned(), 3.0), ("latency_us.p50".to_owned(), 1.5)]));
    }
}
