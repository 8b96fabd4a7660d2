//! Whole files.
