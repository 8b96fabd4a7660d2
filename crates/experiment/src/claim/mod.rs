//! Judges claims: the value of an expression over the figures of cells, its interval, and a verdict.
//!
//! ```text
//!   value = "rate[cpu=1] / rate[cpu=0.5]"  --> expression --> selection: one cell per selector and repeat
//!                                                                  |
//!   want = ">= 1.9" --> want --+                    one value per repeat, so ratios are paired
//!                              v                                   |
//!              verdict <-- interval <-- median and interval <------+
//! ```
//! - The expression is arithmetic: numbers, `+ - * /`, parentheses and selectors `FIGURE[PARAMETER=VALUE, ...]`.
//! - A selector selects one cell per repeat. A parameter that it does not name must have only one value.
//! - The value is the median over the repeats. With six or more repeats the interval is the shortest pair of order
//!   statistics around the median that the sign test accepts at 95 %. It needs no assumption about the distribution.
//!   With fewer repeats no such pair exists, so the interval is the range of all repeats.
//! - If one repeat is missing, failed or INVALID, the claim is "not measured". Ignoring that repeat would favor the
//!   better results.

// One value per repeat.
mod selection;
// The verdict.
mod interval;
mod judge;
// Numbers and cells as text.
pub(crate) mod number;

#[cfg(test)]
mod tests;

pub use interval::Interval;
pub(crate) use judge::each_repeat;
pub use judge::{Judgement, UsedFigure, Verdict, judge};
pub(crate) use selection::{NOT_IN_RUN, NOT_RUN, cell_name};
