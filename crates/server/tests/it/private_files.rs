//! What other users of a machine can read of a node: its files and its memory. Also keys that are never printed on a
//! terminal.

use super::support::cluster::{CATAMARAN, Cluster, KillOnDrop, Scratch, kill, wait_for};
use super::support::tools;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Files that every user may read.
const CERTIFICATES: [&str; 3] = ["ca.pem", "node.pem", "dns.pem"];

/// A user without files or processes.
const OTHER_USER: u32 = 65_534;

/// Everything below a directory, and the directory itself.
fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut all = vec![dir.to_owned()];
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() { all.extend(walk(&entry.path())) } else { all.push(entry.path()) }
    }
    all
}

fn check_modes(dir: &Path) {
    let mut kinds = [0; 3];
    for path in walk(dir) {
        // A node may remove files meanwhile.
        let Ok(found) = path.symlink_metadata() else { continue };
        let name = path.file_name().unwrap().to_str().unwrap();
        let (kind, wanted) = match CERTIFICATES.contains(&name) {
            _ if found.is_dir() => (0, 0o700),
            true => (1, 0o644),
            false => (2, 0o600),
        };
        kinds[kind] += 1;
        assert_eq!(found.mode() & 0o777, wanted, "{}", path.display());
    }
    assert!(kinds[0] >= 5 && kinds[1] >= 5 && kinds[2] >= 20, "{kinds:?}");
}

/// Sets the mode of a file.
fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn files_are_for_their_owner_only_with_any_umask() {
    let scratch = Scratch::new("modes");
    let program = scratch.file("program", &format!("#!/bin/sh\numask 000\nexec {CATAMARAN} \"$@\"\n"));
    set_mode(Path::new(&program), 0o755);
    let mut cluster = Cluster::start_program("modes", 2, Path::new(&program));
    assert_eq!(cluster.end("TERM"), Some(0));
    cluster.configure(1, "[peer]\n", "[log]\ncheckpoint_bytes = 65536\n\n[peer]\n");
    cluster.resume_encrypted();
    let records: String = (0..5_000).map(|number| format!("a{number} 60 A 192.0.2.1\n")).collect();
    let zone = scratch.file("zone", &format!("$ORIGIN big.test.\n@ 60 SOA a b 1 2 3 4 5\n@ 60 NS a0\n{records}"));
    assert!(cluster.run(&["zone", "add", &zone]).status.success());
    let backup = cluster.dir.join("backup");
    let run = |arguments: &[&str]| {
        let done =
            Command::new(&program).args(arguments).args(["--dir", cluster.dir.to_str().unwrap()]).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    run(&["cluster", "backup", backup.to_str().unwrap()]);
    run(&["key", "add", "k", "--update"]);
    wait_for("a checkpoint", || {
        let files = walk(&cluster.dir.join("node-1/data"));
        files.iter().any(|file| file.to_str().unwrap().contains("checkpoint")).then_some(())
    });
    check_modes(&cluster.dir);

    // The modes that an older build left.
    assert_eq!(cluster.end("TERM"), Some(0));
    for path in walk(&cluster.dir) {
        let secret = ["ca.key", "api.token", "data.key", "wrapping.key", "node.key", "dns.key", "update.key", "backup"];
        let is_secret = secret.contains(&path.file_name().unwrap().to_str().unwrap());
        if !is_secret {
            set_mode(&path, if path.is_dir() { 0o755 } else { 0o644 });
        }
    }
    cluster.resume_encrypted();
    check_modes(&cluster.dir);
    let log = std::fs::read_to_string(cluster.dir.join("node-1/node.log")).unwrap();
    assert!(log.contains("to their owner") && log.contains("to 0700"), "{log}");
}

#[test]
fn a_made_key_goes_into_a_file_that_nsupdate_reads() {
    let cluster = Cluster::start("key-out", 1, &[]);
    let scratch = Scratch::new("key-out");
    let file = scratch.path().join("dhcp.key");
    let path = file.to_str().unwrap();
    let added = cluster.run(&["key", "add", "dhcp", "--update", "--zone", "example.test", "--out", path]);
    assert!(added.status.success(), "{added:?}");
    let text = std::fs::read_to_string(&file).unwrap();
    let secret = text.split('"').nth(3).unwrap().to_owned();
    let printed = |done: &std::process::Output| {
        String::from_utf8_lossy(&[done.stdout.clone(), done.stderr.clone()].concat()).into_owned()
    };
    assert!(!printed(&added).contains(&secret) && printed(&added).contains(path), "{added:?}");
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    if tools::has("nsupdate") {
        tools::nsupdate(cluster.dns(1), &file, "update add made.example.test. 60 A 192.0.2.7").unwrap();
    }
    // A key file is never overwritten by another key. A refused command leaves no file.
    let other = cluster.run(&["key", "add", "other", "--update", "--out", path]);
    assert!(!other.status.success() && printed(&other).contains("not a key file of other."), "{other:?}");
    let fresh = scratch.path().join("fresh.key");
    let again = cluster.run(&["key", "add", "dhcp", "--update", "--out", fresh.to_str().unwrap()]);
    assert!(!again.status.success() && !fresh.exists(), "{again:?}");
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 1);
    // A new secret replaces the old one.
    assert!(cluster.run(&["key", "roll", "dhcp", "--out", path]).status.success());
    let rolled = std::fs::read_to_string(&file).unwrap();
    assert!(rolled != text && rolled.starts_with("key \"dhcp\""), "{rolled}");
    let shown = scratch.path().join("shown.key");
    assert!(cluster.run(&["key", "show", "dhcp", "--secret", "--out", shown.to_str().unwrap()]).status.success());
    let shown = std::fs::read_to_string(shown).unwrap();
    assert!(shown.starts_with(&rolled) && shown.contains(&format!("# \tsecret \"{secret}\"")), "{shown}");
}

/// A node that runs as another user, with core dumps enabled. `None` if this needs root and the test does not run as
/// root.
fn node_of_another_user(scratch: &Scratch, port: u16, environment: &[(&str, &str)]) -> Option<KillOnDrop> {
    let dir = scratch.path().join(format!("of-{port}"));
    std::fs::create_dir(&dir).unwrap();
    chown(&dir, Some(OTHER_USER), Some(OTHER_USER)).ok()?;
    // The other user can read the program here, wherever it was built.
    let program = scratch.path().join("catamaran");
    if !program.exists() {
        std::fs::copy(CATAMARAN, &program).unwrap();
        set_mode(&program, 0o755);
        set_mode(scratch.path(), 0o755);
    }
    let address = |offset: u16| format!("127.0.0.1:{}", port + offset);
    let made = Command::new(&program)
        .args(["init", "--dir", dir.join("c").to_str().unwrap(), "--dns", &address(0)])
        .args(["--peer", &address(1), "--api", &address(2)])
        .uid(OTHER_USER)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let script = format!(
        "ulimit -c unlimited; cd {}; exec {} serve --config c/node-1/catamaran.toml",
        dir.display(),
        program.display()
    );
    let child = Command::new("sh")
        .args(["-c", &script])
        .envs(environment.iter().copied())
        .uid(OTHER_USER)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let node = KillOnDrop(child);
    let api = address(2);
    wait_for("the node", || std::net::TcpStream::connect(&api).ok());
    Some(node)
}

#[test]
fn the_memory_of_a_node_is_not_dumped_and_not_read() {
    let scratch = Scratch::new("cores");
    let port = super::support::ports::free_ports(10);
    let Some(mut hidden) = node_of_another_user(&scratch, port, &[]) else {
        skip::permission("running nodes as another user (root)");
        return;
    };
    // proc(5): the files of a process that cannot be dumped belong to root.
    let owner = |node: &KillOnDrop| std::fs::metadata(format!("/proc/{}/environ", node.0.id())).unwrap().uid();
    assert_eq!(owner(&hidden), 0);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", hidden.0.id())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_ascii_whitespace().collect::<Vec<_>>()[4..6], ["0", "0"], "{core}");
    kill("ABRT", hidden.0.id());
    assert!(!hidden.0.wait().unwrap().core_dumped(), "a core dump holds every key");
    let open = node_of_another_user(&scratch, port + 4, &[("CATAMARAN_ALLOW_CORE_DUMPS", "1")]).unwrap();
    assert_eq!(owner(&open), OTHER_USER, "CATAMARAN_ALLOW_CORE_DUMPS leaves the process readable for its user");
}
