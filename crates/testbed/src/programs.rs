//! Which program runs a kind of server.

use super::kind::Kind;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The environment variables that name programs or a folder of programs.
pub const PROGRAM_VARIABLES: [&str; 3] =
    [super::peer_tree::VARIABLE, super::catamaran::VARIABLE, super::coredns::VARIABLE];

/// The programs of servers: those that were set, otherwise the installed ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Programs(BTreeMap<Kind, PathBuf>);

impl Programs {
    /// Sets the program of a kind, for example another build. A relative path starts at the current folder.
    ///
    /// # Errors
    /// The file does not exist, or this system does not execute it.
    pub fn set(&mut self, kind: Kind, program: &Path) -> io::Result<()> {
        // Servers start in other folders.
        let program = std::path::absolute(program)?;
        let metadata = std::fs::metadata(&program)?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        if metadata.permissions().mode() & 0o111 == 0 {
            return Err(io::Error::other("it is not executable; try chmod +x"));
        }
        self.0.insert(kind, program);
        Ok(())
    }

    /// The program of a kind. `None` if it was not set and is not installed.
    #[must_use]
    pub fn find(&self, kind: Kind) -> Option<PathBuf> {
        self.0.get(&kind).cloned().or_else(|| kind.program())
    }

    /// The programs that were set.
    pub fn overrides(&self) -> impl Iterator<Item = (Kind, &Path)> {
        self.0.iter().map(|(kind, program)| (*kind, program.as_path()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_set_replaces_the_installed_one() {
        let mut programs = Programs::default();
        assert_eq!(programs.find(Kind::Nsd), Kind::Nsd.program());
        programs.set(Kind::Nsd, Path::new("/bin/sh")).unwrap();
        assert_eq!(programs.find(Kind::Nsd), Some("/bin/sh".into()));
        assert_eq!(programs.find(Kind::Bind), Kind::Bind.program());
        assert_eq!(programs.overrides().collect::<Vec<_>>(), [(Kind::Nsd, Path::new("/bin/sh"))]);
    }

    #[test]
    fn files_that_cannot_run_are_refused() {
        let mut programs = Programs::default();
        for (program, expected) in
            [("/missing/named", "No such file"), ("/", "not a file"), ("Cargo.toml", "not executable")]
        {
            let error = programs.set(Kind::Bind, Path::new(program)).unwrap_err().to_string();
            assert!(error.contains(expected), "{program}: {error}");
        }
        assert_eq!(programs, Programs::default());
    }

    #[test]
    fn a_relative_path_becomes_absolute() {
        let mut programs = Programs::default();
        let below = "../".repeat(std::env::current_dir().unwrap().components().count());
        programs.set(Kind::Knot, Path::new(&format!("{below}bin/sh"))).unwrap();
        assert!(programs.find(Kind::Knot).unwrap().is_absolute());
    }
}
