//! Real nodes under faults (docs/torture.md): builds the programs and runs them.

use crate::command::{cargo, command, has, run as run_command, target};
use crate::previous;
use crate::test::PROFILE;

/// Programs without which no run is possible.
const PROGRAMS: &[(&str, &str)] =
    &[("go", "golang-go"), ("ip", "iproute2"), ("nsenter", "util-linux"), ("mkfs.ext4", "e2fsprogs")];

/// Builds the node, unless `--binary` names one, and runs the rows that the options name.
///
/// # Errors
/// When something is missing or cannot be built, or a run failed.
pub(crate) fn run(options: &[&str]) -> Result<(), String> {
    cargo(&["build", "--quiet", "--profile", PROFILE, "-p", "catamaran-torture"])?;
    let needs_node =
        !["--help", "-h", "--list", "--doctored", "--binary", "--judge"].iter().any(|it| options.contains(it));
    let folder = target().join(PROFILE);
    let program = folder.join("catamaran-torture");
    let mut torture = command(&program.to_string_lossy(), options);
    if needs_node {
        cargo(&["build", "--quiet", "--profile", PROFILE, "-p", "catamaran-server", "--bin", "catamaran"])?;
        torture.arg("--binary").arg(folder.join("catamaran"));
    }
    previous::tell(&mut torture);
    run_command(torture)
}

/// Every row once, as a part of the gate. Prints why if it cannot run.
///
/// # Errors
/// When a run failed.
pub(crate) fn shortly() -> Result<(), String> {
    if let Some(why) = missing() {
        println!("skipped: torture: {why}");
        return Ok(());
    }
    run(&[])
}

/// What this machine lacks.
fn missing() -> Option<String> {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if !is_root {
        return Some("it needs root".into());
    }
    let (program, package) = PROGRAMS.iter().find(|(program, _)| !has(program))?;
    Some(format!("{program} is not installed; apt-get install {package}"))
}
