//! Support for the tests.

pub(crate) mod closed_loop;
pub(crate) mod cluster;
pub(crate) mod dns;
pub(crate) mod encrypted;
pub(crate) mod frames;
pub(crate) mod hostile_peer;
pub(crate) mod http;
pub(crate) mod legitimate;
pub(crate) mod message;
pub(crate) mod mounts;
pub(crate) mod netns;
pub(crate) mod nodes;
pub(crate) mod open_files;
pub(crate) mod peers;
pub(crate) mod pipeline;
pub(crate) mod ports;
pub(crate) mod priority;
pub(crate) mod relay;
pub(crate) mod restored;
pub(crate) mod rss;
pub(crate) mod strangers;
pub(crate) mod systemd;
pub(crate) mod tools;
pub(crate) mod unruly;
