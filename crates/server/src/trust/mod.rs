//! Certificates, CAs and data keys: tasks that follow the state of the cluster and report the progress of this node.

pub(crate) mod cert_manager;
pub(crate) mod data_keys;
