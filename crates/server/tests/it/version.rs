//! `catamaran --version` names the commit of its build.

#[path = "../../build/head.rs"]
mod head;

use crate::support::cluster::{CATAMARAN, Scratch};
use std::path::Path;
use std::process::Command;

#[test]
fn the_version_has_the_commit_of_the_checkout() {
    let output = Command::new(CATAMARAN).arg("--version").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let given = option_env!("CATAMARAN_COMMIT").filter(|commit| !commit.is_empty()).map(str::to_owned);
    match given.or(head::read(&root).map(|head| head.commit)) {
        Some(commit) => assert_eq!(text, format!("catamaran {version} ({commit})\n")),
        None => assert_eq!(text, format!("catamaran {version}\n")),
    }
}

#[test]
fn the_commit_is_found_in_every_form_of_checkout_and_in_none_without() {
    let scratch = Scratch::new("version");
    let [first, second] = ["0123456789abcdef0123456789abcdef01234567", "fedcba9876543210fedcba9876543210fedcba98"];
    let write = |file: &str, text: &str| {
        let path = scratch.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let commit = |dir: &str| head::read(&scratch.path().join(dir)).map(|head| head.commit);
    // A source archive, a git directory without HEAD, a branch without a commit, and a damaged HEAD.
    write("archive/Cargo.toml", "");
    write("empty/.git/config", "");
    write("other/.git/HEAD", "ref: refs/heads/.invalid\n");
    write("damaged/.git/HEAD", "no hash at all");
    assert_eq!(["archive", "empty", "other", "damaged"].map(commit), [const { None }; 4]);
    // A detached head.
    write("detached/.git/HEAD", &format!("{first}\n"));
    assert_eq!(commit("detached").as_deref(), Some(&first[..12]));
    // A packed branch, next to one with a longer name that ends the same; then the branch as a file.
    write("main/.git/HEAD", "ref: refs/heads/main\n");
    write("main/.git/logs/HEAD", "");
    write(
        "main/.git/packed-refs",
        &format!("# pack-refs\n{second} refs/heads/x/refs/heads/main\n{first} refs/heads/main\n"),
    );
    let packed = head::read(&scratch.path().join("main")).unwrap();
    assert_eq!((&packed.commit[..], packed.files.len()), (&first[..12], 3));
    write("main/.git/refs/heads/main", &format!("{second}\n"));
    assert_eq!(commit("main").as_deref(), Some(&second[..12]));
    // A worktree has its own HEAD and shares the branches.
    write("main/.git/worktrees/side/HEAD", "ref: refs/heads/side\n");
    write("main/.git/worktrees/side/commondir", "../..\n");
    write("main/.git/refs/heads/side", &format!("{first}\n"));
    write("side/.git", "gitdir: ../main/.git/worktrees/side\n");
    assert_eq!(commit("side").as_deref(), Some(&first[..12]));
    // All watched files exist: a missing file would make cargo rebuild each time.
    for dir in ["main", "side", "detached"] {
        assert!(head::read(&scratch.path().join(dir)).unwrap().files.iter().all(|file| file.is_file()), "{dir}");
    }
}
