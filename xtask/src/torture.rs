//! Builds and runs the tests with real nodes under faults (docs/internals/torture.md).

use crate::command::{cargo, command, has, run as run_command, target};
use crate::previous;
use crate::programs::PROFILE;

/// Programs that every run needs.
const PROGRAMS: &[(&str, &str)] =
    &[("go", "golang-go"), ("ip", "iproute2"), ("nsenter", "util-linux"), ("mkfs.ext4", "e2fsprogs")];

/// Runs the selected rows. Builds the node first, unless `--binary` names one.
///
/// # Errors
/// A program is missing or cannot be built, or a run failed.
pub(crate) fn run(options: &[&str]) -> Result<(), String> {
    cargo(&["build", "--quiet", "--profile", PROFILE, "-p", "catamaran-torture"])?;
    let needs_node =
        !["--help", "-h", "--list", "--doctored", "--binary", "--check"].iter().any(|it| options.contains(it));
    let folder = target().join(PROFILE);
    let program = folder.join("catamaran-torture");
    let mut torture = command(&program.to_string_lossy(), options);
    if needs_node {
        cargo(&["build", "--quiet", "--profile", PROFILE, "-p", "catamaran-server", "--bin", "catamaran"])?;
        torture.arg("--binary").arg(folder.join("catamaran"));
    }
    previous::set_environment(&mut torture);
    run_command(torture)
}

/// Runs every row once, as part of the gate. If that is impossible on this machine, prints why.
///
/// # Errors
/// A run failed.
pub(crate) fn shortly() -> Result<(), String> {
    if let Some(why) = missing() {
        println!("skipped: torture: {why}");
        return Ok(());
    }
    run(&[])
}

/// Returns what this machine lacks.
fn missing() -> Option<String> {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if !is_root {
        return Some("it needs root".into());
    }
    let (program, package) = PROGRAMS.iter().find(|(program, _)| !has(program))?;
    Some(format!("{program} is not installed; apt-get install {package}"))
}
