//! Errors of unpacking packages.

use std::path::PathBuf;
use std::{fmt, io};

/// The reason why packages are not unpacked.
#[derive(Debug)]
pub enum TreeError {
    /// The folder has files.
    NotEmpty(PathBuf),
    /// A file or folder cannot be read or written.
    Folder(PathBuf, io::Error),
    /// The list of packages of the mirror is too old.
    Expired,
    /// A tool of Debian is missing, or its keys.
    Missing(&'static str),
    /// The mirror or the suite is not a name.
    Source(String),
    /// A tool failed. Includes the end of its output.
    Tool(&'static str, String),
    /// The packages do not have this program.
    Program(&'static str),
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotEmpty(path) => write!(f, "{}: the folder is not empty; remove it first", path.display()),
            Self::Folder(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Missing(package) => write!(f, "the package {package} is not installed; apt install {package}"),
            Self::Expired => f.write_str("the mirror's list of packages is expired; use another mirror, or accept it"),
            Self::Source(text) => write!(f, "`{text}` is not a mirror or suite; write for example sid"),
            Self::Tool(tool, output) => write!(f, "{tool} failed; its output ends:\n{output}"),
            Self::Program(name) => write!(f, "the packages do not have the program {name}"),
        }
    }
}

impl std::error::Error for TreeError {}
