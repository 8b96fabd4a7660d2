//! Figures beside their budgets.

use std::fmt::Write;

/// One figure.
pub(crate) struct Row {
    /// What was measured.
    pub(crate) what: String,
    /// What came out.
    pub(crate) figure: String,
    /// What was wanted; empty when the figure only informs.
    pub(crate) budget: String,
    /// Whether it was reached.
    pub(crate) verdict: Verdict,
    /// What it rests on.
    pub(crate) note: String,
}

/// How a figure stands to its budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It has none.
    Informs,
    /// Reached.
    Met,
    /// Not reached.
    Missed,
    /// The interval holds values on both sides.
    Undecided,
    /// Could not be measured here.
    Absent,
}

impl Verdict {
    pub(crate) const fn of(is_met: bool) -> Self {
        if is_met { Self::Met } else { Self::Missed }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Informs => "",
            Self::Met => "met",
            Self::Missed => "**missed**",
            Self::Undecided => "**undecided**",
            Self::Absent => "not measured",
        }
    }
}

/// The rows as a Markdown table.
pub(crate) fn markdown(rows: &[Row]) -> String {
    let mut out = String::from("| what | figure | budget | | evidence |\n|---|---|---|---|---|\n");
    for Row { what, figure, budget, verdict, note } in rows {
        // Writing into a string cannot fail.
        let _written = writeln!(out, "| {what} | {figure} | {budget} | {} | {note} |", verdict.word());
    }
    out
}

/// The middle value, the smallest and the largest.
pub(crate) fn spread(values: &[f64]) -> (f64, f64, f64) {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let median = match values.len() {
        0 => f64::NAN,
        count if count % 2 == 0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    };
    (median, values.first().copied().unwrap_or(f64::NAN), values.last().copied().unwrap_or(f64::NAN))
}

/// `123,456`.
pub(crate) fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
