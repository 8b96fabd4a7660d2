//! Scripts that run unpacked programs with their own libraries.

use super::error::TreeError;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Bits of a mode that change the user or group of a program.
const SET_ID_BITS: u32 = 0o6000;

/// Writes `DIR/bin/NAME`.
pub(super) fn write(folder: &Path, name: &'static str) -> Result<(), TreeError> {
    let root = folder.join("root");
    let found =
        ["usr/sbin", "usr/bin"].map(|place| root.join(place).join(name)).into_iter().find(|path| path.is_file());
    let program = found.ok_or(TreeError::Program(name))?;
    let libraries = libraries(&root).ok_or(TreeError::Program("ld.so"))?;
    let loader = loader(&libraries).ok_or(TreeError::Program("ld.so"))?;
    let text = format!(
        "#!/bin/sh\nexec {} --library-path {} --argv0 {name} {} \"$@\"\n",
        quoted(&loader),
        quoted(&libraries),
        quoted(&program)
    );
    let path = folder.join("bin").join(name);
    let written = || -> io::Result<()> {
        fs::create_dir_all(folder.join("bin"))?;
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
    };
    written().map_err(|error| TreeError::Folder(path.clone(), error))
}

/// The folder of the libraries: that of the C library, such as `usr/lib/x86_64-linux-gnu`.
pub(crate) fn libraries(root: &Path) -> Option<PathBuf> {
    let folders = fs::read_dir(root.join("usr/lib")).ok()?.flatten().map(|entry| entry.path());
    folders.into_iter().find(|folder| folder.join("libc.so.6").exists())
}

/// The program that loads the libraries of another program.
fn loader(libraries: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(libraries).ok()?.flatten();
    files
        .map(|entry| entry.path())
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-linux")))
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// As root, `dpkg-deb` unpacks programs that run as root for every user. None of them is needed.
pub(super) fn clear_set_id_bits(folder: &Path) -> Result<(), TreeError> {
    let at = |error| TreeError::Folder(folder.to_owned(), error);
    for entry in fs::read_dir(folder).map_err(at)? {
        let entry = entry.map_err(at)?;
        // Not of the target of a link.
        let metadata = entry.metadata().map_err(at)?;
        let mode = metadata.permissions().mode();
        if metadata.is_dir() {
            clear_set_id_bits(&entry.path())?;
        } else if metadata.is_file() && mode & SET_ID_BITS != 0 {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode & !SET_ID_BITS)).map_err(at)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// An empty folder.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("testbed-{name}-{}", std::process::id()));
        let _removed = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_script_runs_the_loader_with_the_libraries() {
        let folder = folder("it's a script");
        let (libraries, programs) = (folder.join("root/usr/lib/x86_64-linux-gnu"), folder.join("root/usr/sbin"));
        fs::create_dir_all(&libraries).unwrap();
        fs::create_dir_all(&programs).unwrap();
        fs::write(libraries.join("libc.so.6"), "").unwrap();
        // In place of a loader, it prints its arguments.
        let loader = libraries.join("ld-linux-x86-64.so.2");
        fs::write(&loader, "#!/bin/sh\nprintf '%s\\n' \"$@\"\n").unwrap();
        fs::set_permissions(&loader, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(programs.join("knotd"), "").unwrap();
        write(&folder, "knotd").unwrap();
        let output = Command::new(folder.join("bin/knotd")).args(["-c", "a b"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let [libraries, program] = [&libraries, &programs.join("knotd")].map(|path| path.display().to_string());
        let expected = ["--library-path", &libraries, "--argv0", "knotd", &program, "-c", "a b"];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
        assert!(matches!(write(&folder, "nsd"), Err(TreeError::Program("nsd"))));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn no_program_changes_the_user() {
        let folder = folder("set-id");
        fs::create_dir(folder.join("bin")).unwrap();
        let program = folder.join("bin/su");
        fs::write(&program, "").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
        clear_set_id_bits(&folder).unwrap();
        assert_eq!(fs::metadata(&program).unwrap().permissions().mode() & 0o7777, 0o755);
        fs::remove_dir_all(&folder).unwrap();
    }
}
