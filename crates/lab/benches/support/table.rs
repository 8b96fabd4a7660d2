//! Tables of figures with their budgets.

use std::fmt::{self, Write};

/// One figure.
pub(crate) struct Row {
    /// What was measured.
    pub(crate) what: String,
    /// The measured value.
    pub(crate) figure: String,
    /// The budget. Empty if the figure is informational.
    pub(crate) budget: String,
    /// How the figure compares with its budget.
    pub(crate) verdict: Verdict,
    /// How it was measured.
    pub(crate) note: String,
}

/// How a figure compares with its budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// No budget.
    Informs,
    /// Met.
    Met,
    /// Missed.
    Missed,
    /// The interval has values on both sides of the budget.
    Undecided,
    /// Not measured here.
    Absent,
}

impl Verdict {
    pub(crate) const fn of(is_met: bool) -> Self {
        if is_met { Self::Met } else { Self::Missed }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Informs => "",
            Self::Met => "met",
            Self::Missed => "**missed**",
            Self::Undecided => "**undecided**",
            Self::Absent => "not measured",
        }
    }
}

/// Summary of the budgets that are not met.
pub(crate) struct Budgets {
    missed: usize,
    /// Budgets that this run did not measure.
    unmeasured: usize,
}

impl Budgets {
    pub(crate) fn of(rows: &[Row]) -> Self {
        let count = |is: fn(&Row) -> bool| rows.iter().filter(|row| is(row)).count();
        Self {
            missed: count(|row| matches!(row.verdict, Verdict::Missed | Verdict::Undecided)),
            // A missing figure without a budget is informational.
            unmeasured: count(|row| row.verdict == Verdict::Absent && !row.budget.is_empty()),
        }
    }

    pub(crate) const fn are_met(&self) -> bool {
        self.missed + self.unmeasured == 0
    }
}

impl fmt::Display for Budgets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} budgets not met, {} not measured", self.missed, self.unmeasured)
    }
}

/// The rows as a Markdown table.
pub(crate) fn markdown(rows: &[Row]) -> String {
    let mut out = String::from("| what | figure | budget | | evidence |\n|---|---|---|---|---|\n");
    for Row { what, figure, budget, verdict, note } in rows {
        // Writing into a string cannot fail.
        let _written = writeln!(out, "| {what} | {figure} | {budget} | {} | {note} |", verdict.label());
    }
    out
}

/// Median, minimum and maximum.
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
