//! `catlab hierarchy` and `catlab zones synth`: the servers of made-up hierarchies, asked by us and by real resolvers.

mod backends;
mod fidelity;
#[path = "../support/namespaces.rs"]
mod machine;
mod namespaces;
mod options;
mod resolvers;
mod servers;
mod size;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "it is shared with tests that use more of it")]
mod support;

use hierarchy::Folder as Hierarchy;
use hierarchy::synth::SynthPlan;
use machine::{can_make_namespaces, has_program};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::Folder;

const CATLAB: &str = env!("CARGO_BIN_EXE_catlab");
/// What a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(60);

fn catlab(arguments: &[&str]) -> Command {
    let mut command = Command::new(CATLAB);
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Exit code, standard output and standard error.
fn ended(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// A hierarchy in a folder.
fn synthesized(folder: &Folder, plan: SynthPlan) -> PathBuf {
    let tree = folder.path().join("tree");
    plan.write(&tree).unwrap();
    tree
}

/// A zone that has nothing below it, its parent, and the address `www` has in it.
fn leaf(tree: &Path) -> (String, String, String) {
    let queries = std::fs::read_to_string(tree.join(hierarchy::synth::QUERIES)).unwrap();
    let first = queries.lines().next().unwrap();
    let name = first.strip_prefix("www.").unwrap().strip_suffix(" A").unwrap().to_owned();
    let parent = name.split_once('.').unwrap().1.to_owned();
    let entry = Hierarchy::read(tree).unwrap().zones.into_iter().find(|zone| zone.name == name).unwrap();
    let zone = std::fs::read_to_string(tree.join(entry.file)).unwrap();
    let address = zone.lines().find_map(|line| line.strip_prefix("www A ")).unwrap().to_owned();
    (name, parent, address)
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn has_namespace(name: &str) -> bool {
    Path::new("/var/run/netns").join(name).exists()
}
