//! Replicated state except the zones' contents: equal on every replica that applied the same entries.

mod hash;
mod history;
mod sessions;
mod settings;

pub(crate) use hash::{Item, item_hash};
pub(crate) use history::{FrozenHistory, History, HistoryLimits};
pub(crate) use sessions::{FrozenSessions, Identity, Known, Sessions};
pub use settings::JoinTokenStatus;
pub(crate) use settings::{KeyEntry, Settings, ca_context, secret_context};
