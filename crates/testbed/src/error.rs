//! Errors of starting a server.

use super::kind::Kind;
use std::path::PathBuf;
use std::{fmt, io};

/// The reason why a server does not run.
#[derive(Debug)]
pub enum PeerError {
    /// The program is not installed.
    Missing(Kind),
    /// A file of its folder could not be written.
    Folder(PathBuf, io::Error),
    /// It does not support this setting.
    Unsupported(Kind, &'static str),
    /// It could not be started.
    Start(Kind, io::Error),
    /// All of its nodes have joined already.
    NoneLeft(Kind),
    /// It exited, or did not answer in time. Includes the end of its output.
    NotReady(Kind, String),
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(kind) => write!(f, "{} is not installed", kind.label()),
            Self::Folder(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Unsupported(kind, setting) => write!(f, "{} does not support the setting {setting}", kind.label()),
            Self::Start(kind, error) => write!(f, "{} did not start: {error}", kind.label()),
            Self::NoneLeft(kind) => write!(f, "{} has no node left that could join", kind.label()),
            Self::NotReady(kind, output) => write!(f, "{} does not answer; its output ends:\n{output}", kind.label()),
        }
    }
}

impl std::error::Error for PeerError {}
