//! What messages mean: queries are answered on the worker that received them, everything that changes state or must be
//! signed goes to the update threads.

// On packet workers.
pub(crate) mod answer;
mod clock;
pub(crate) mod cookies;
pub(crate) mod counters;
pub(crate) mod fair_quota;
pub(crate) mod limiter;
pub(crate) mod serving;
// On update threads.
pub(crate) mod external;
pub(crate) mod outcome;
mod response;
pub(crate) mod transfer;
pub(crate) mod update_thread;
