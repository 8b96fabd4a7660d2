//! Nothing: what there is to see stands in `benches`.
