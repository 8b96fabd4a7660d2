//! Experiments: servers, loads, faults and parameters become one page with claims.
//!
//! ```text
//!   definition (TOML) --> plan: cells and their order --> run: one cell after the other --> cell.json, run folders
//!                                                                                                 |
//!                          page: index.html, README.md, claims.json <-- claim: values per repeat <+
//! ```
//! An experiment runs `catlab` command lines. It has no syntax of its own for loads, so every command on the page can
//! be pasted into a shell.
#![forbid(unsafe_code)]

pub mod limits;
// The expressions of claims, and their wanted ranges.
mod expression;
mod want;
// What to measure, and where.
pub mod definition;
mod hierarchy_programs;
pub mod plan;
pub mod user_servers;
// What was measured.
pub mod results;
pub mod run;
// What the results show.
pub mod claim;
pub mod compare;
pub mod page;
