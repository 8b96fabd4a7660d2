//! Handles messages: the receiving worker answers queries, and the update threads handle updates and signed messages.

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
