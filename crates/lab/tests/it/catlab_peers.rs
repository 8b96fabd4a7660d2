//! `catlab peers` as a program: the list, and the folder with the newest servers.

use crate::support::Folder;
use crate::support::program::{CATLAB, ended};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

fn peers(newest: &Path, arguments: &[&str]) -> (i32, String, String) {
    ended(&Command::new(CATLAB).arg("peers").args(arguments).env("CATAMARAN_PEERS", newest).output().unwrap())
}

#[test]
fn the_programs_of_the_folder_are_preferred() {
    let folder = Folder::new("peers-list");
    let program = folder.path().join("bin/knotd");
    fs::create_dir(folder.path().join("bin")).unwrap();
    fs::write(&program, "#!/bin/sh\necho knotd, version 99\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let (code, out, error) = peers(folder.path(), &["list"]);
    assert_eq!(code, 0, "{error}");
    let expected = format!("knot           knotd, version 99\n               {}\n", program.display());
    assert!(out.contains(&expected), "{out}");
    // Others are found elsewhere, or not at all.
    assert!(out.contains("\nhaproxy        ") && !out.contains("bin/haproxy 99"), "{out}");
}

#[test]
fn a_folder_that_is_in_use_stays_as_it_is() {
    let folder = Folder::new("peers-install");
    let dir = folder.path().join("newest");
    let path = dir.to_str().unwrap();
    let (code, _, error) = peers(folder.path(), &["install", path, "--suite", "sid main"]);
    assert_eq!(code, 2, "{error}");
    // Debian's keys may be missing.
    assert!(error.contains("`sid main` is not a mirror or suite") || error.contains("apt install"), "{error}");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    fs::write(dir.join("mine"), "").unwrap();
    let (code, _, error) = peers(folder.path(), &["install", path]);
    assert_eq!(code, 2);
    assert!(error.contains("the folder is not empty"), "{error}");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
}

#[test]
fn the_newest_servers_run() {
    if !skip::is_full_run() {
        return skip::full("the newest servers");
    }
    let folder = Folder::new("peers-newest");
    let dir = folder.path().join("newest");
    let (code, out, error) = peers(&dir, &["install", dir.to_str().unwrap(), "--accept-expired"]);
    assert_eq!(code, 0, "{error}");
    assert!(out.contains("knot 3.") && out.contains("CATAMARAN_PEERS="), "{out}");
    let (_, list, _) = peers(&dir, &["list"]);
    for name in ["knotd", "nsd", "named", "pdns_server", "unbound", "dnsdist", "haproxy"] {
        let output = Command::new(dir.join("bin").join(name)).arg("--help").output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        assert!(!String::from_utf8_lossy(&text).contains("error while loading"), "{name}");
        assert!(list.contains(&format!("{}/bin/{name}\n", dir.display())), "{list}");
    }
}
