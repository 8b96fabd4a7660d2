//! Output of secrets to files that only their owner can read.

use config::files::key_file::TsigKey;
use config::files::{Readers, write_atomic};
use process::problem::{Exit, Problem};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use wire::Name;

/// A file that a key is written to, in the form that `nsupdate -k` reads.
pub(super) struct KeyOut<'p> {
    file: &'p Path,
    /// The temporary file, until the cluster has the key.
    new: PathBuf,
}

impl<'p> KeyOut<'p> {
    /// Writes the key to a temporary file beside `file`, before the cluster gets it. A secret that cannot be stored
    /// must not take effect. A file is overwritten only if it contains a key with this name.
    pub(super) fn begin(file: &'p Path, key: &TsigKey) -> Result<Self, Problem> {
        check(file, &key.name)?;
        let mut name = file.file_name().unwrap_or_default().to_owned();
        name.push(".unconfirmed");
        let new = file.with_file_name(name);
        write(&new, &key.to_text())?;
        Ok(Self { file, new })
    }

    /// Renames the temporary file if the cluster has the key, and removes it if the cluster refused the key.
    pub(super) fn end<T>(self, outcome: Result<T, Problem>) -> Result<T, Problem> {
        match outcome {
            Ok(done) => {
                let renamed = std::fs::rename(&self.new, self.file);
                renamed.map_err(|error| {
                    Problem::new(Exit::Failed, "the cluster has the key, but its file cannot be renamed", error)
                        .at(self.new.display())
                })?;
                Ok(done)
            }
            Err(problem) if problem.is_unknown => {
                let new = self.new.display();
                Err(problem.hint(format!("check `catamaran key list`: if the key was changed, its secret is in {new}")))
            }
            Err(problem) => {
                // A file that stays does no harm.
                let _ = std::fs::remove_file(&self.new);
                Err(problem)
            }
        }
    }
}

/// Writes a text with a secret to `file`, which does not exist or contains a key with this name.
pub(super) fn write_for(file: &Path, name: &Name, text: &str) -> Result<(), Problem> {
    check(file, name)?;
    write(file, text)
}

fn write(file: &Path, text: &str) -> Result<(), Problem> {
    write_atomic(file, text.as_bytes(), Readers::Owner).map_err(|error| {
        Problem::new(Exit::Failed, "cannot write the key file", error).at(file.display()).hint("nothing was changed")
    })
}

fn check(file: &Path, name: &Name) -> Result<(), Problem> {
    match file.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(Problem::new(Exit::Failed, "cannot write the key file", error).at(file.display()));
        }
        Ok(_) => {}
    }
    if TsigKey::load(file).is_ok_and(|there| there.name == *name) {
        return Ok(());
    }
    Err(Problem::new(Exit::Refused, "cannot write the key file", format!("it exists, and is not a key file of {name}"))
        .at(file.display())
        .hint("give another file with --out, or remove this one"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use tsig::KeyAlgorithm;

    #[test]
    fn the_key_file_is_written_after_the_cluster_has_the_key() {
        let dir = process::testing::test_dir("key-out");
        let file = dir.path().join("a.key");
        let key = |name: &str| TsigKey::make(name.parse().unwrap(), KeyAlgorithm::HmacSha256).unwrap();
        let (first, second) = (key("a"), key("a"));
        let refused = || Err(Problem::new(Exit::Refused, "the cluster refused", "it is there"));
        assert!(KeyOut::begin(&file, &first).unwrap().end::<()>(refused()).is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        KeyOut::begin(&file, &first).unwrap().end(Ok(())).unwrap();
        assert_eq!(TsigKey::load(&file).unwrap(), first);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        // A rolled key with an unknown outcome: the old file stays, and the new secret is kept.
        let problem =
            KeyOut::begin(&file, &second).unwrap().end::<()>(Err(Problem::unknown("no response"))).unwrap_err();
        assert!(problem.to_string().contains("a.key.unconfirmed"), "{problem}");
        assert_eq!(TsigKey::load(&file).unwrap(), first);
        assert_eq!(TsigKey::load(&dir.path().join("a.key.unconfirmed")).unwrap(), second);
        // Another key is never overwritten.
        assert_eq!(KeyOut::begin(&file, &key("b")).err().unwrap().exit, Exit::Refused);
        std::fs::write(&file, "something else").unwrap();
        assert!(write_for(&file, &"a".parse().unwrap(), "x").is_err());
        assert_eq!(std::fs::read(&file).unwrap(), b"something else");
    }
}
