//! `catlab hierarchy` and `catlab zones synth`: the servers of generated hierarchies, queried directly and by
//! resolvers.

mod backends;
mod fidelity;
mod namespaces;
mod options;
mod resolvers;
mod servers;
mod size;

use crate::support::Folder;
use crate::support::namespaces::has_namespace;
use crate::support::namespaces::{can_make_namespaces, has_program};
use crate::support::program::{CATLAB, ended, until};
use hierarchy::Folder as Hierarchy;
use hierarchy::synth::SynthPlan;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Time limit on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

fn catlab(arguments: &[&str]) -> Command {
    let mut command = Command::new(CATLAB);
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Generates a hierarchy in a folder.
fn synthesized(folder: &Folder, plan: SynthPlan) -> PathBuf {
    let tree = folder.path().join("tree");
    plan.write(&tree).unwrap();
    tree
}

/// A zone without child zones: its name, its parent, and the address of its `www`.
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
