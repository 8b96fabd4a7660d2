//! The commands of `catlab`: a file or a folder for each.

pub(crate) mod agent;
pub(crate) mod capacity;
pub(crate) mod compare;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod echo;
pub(crate) mod experiment;
pub(crate) mod hierarchy;
pub(crate) mod load;
pub(crate) mod merge;
pub(crate) mod net;
pub(crate) mod peers;
pub(crate) mod profile;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod trace;
pub(crate) mod zones;
