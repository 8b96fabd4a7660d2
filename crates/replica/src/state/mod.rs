//! Replicated state beside the zones' contents: what every replica that applied the same entries holds alike.

mod hash;
mod history;
mod sessions;
mod settings;

pub(crate) use hash::{Item, item_hash};
pub(crate) use history::{FrozenHistory, History, HistoryLimits};
pub(crate) use sessions::{FrozenSessions, Identity, Known, Sessions};
pub(crate) use settings::{KeyEntry, Settings, ca_context, secret_context};
