//! Figures beside their budgets.

use std::fmt::{self, Write};

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

/// Budgets that do not hold.
pub(crate) struct Budgets {
    missed: usize,
    /// They may hold, but this run does not say so.
    unmeasured: usize,
}

impl Budgets {
    pub(crate) fn of(rows: &[Row]) -> Self {
        let count = |is: fn(&Row) -> bool| rows.iter().filter(|row| is(row)).count();
        Self {
            missed: count(|row| matches!(row.verdict, Verdict::Missed | Verdict::Undecided)),
            // What is missing and has no budget only informs.
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
