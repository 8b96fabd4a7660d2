//! Empty; see `benches`.
