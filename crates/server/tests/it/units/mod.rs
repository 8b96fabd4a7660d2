//! The shipped units: `systemd-analyze verify` reports nothing, their exposure is low, they run under systemd, and the
//! documentation shows their text.

mod started;

use crate::support::cluster::{CATAMARAN, Scratch};
use crate::support::tools::has;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each unit with the page that shows it.
const UNITS: [(&str, &str); 2] =
    [("catamaran.service", "docs/install.md"), ("catamaran-ddns.service", "docs/how-to/ddns-client.md")];
/// The path of the program in the units.
const INSTALLED: &str = "/usr/local/bin/catamaran";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn unit(name: &str) -> String {
    std::fs::read_to_string(root().join("deploy").join(name)).unwrap()
}

/// The output of systemd about a unit that runs the program under test. It is empty if all is well.
fn verify(scratch: &Scratch, name: &str, text: &str) -> String {
    let text = text.replace(INSTALLED, CATAMARAN);
    assert!(text.contains(&format!("ExecStart={CATAMARAN} ")), "{name}");
    let file = scratch.file(name, &text);
    let output = Command::new("systemd-analyze").args(["verify", "--man=no", &file]).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    // systemd also reads the units of the machine.
    let mut lines: Vec<&str> = printed.lines().filter(|line| line.contains(name)).collect();
    if !output.status.success() && lines.is_empty() {
        lines = printed.lines().collect();
    }
    lines.join("\n")
}

#[test]
fn systemd_takes_the_units_as_they_are() {
    if !has("systemd-analyze") {
        return;
    }
    let scratch = Scratch::new("units");
    for (name, _) in UNITS {
        assert_eq!(verify(&scratch, name, &unit(name)), "");
        // An unknown setting is reported.
        let wrong = unit(name).replace("NoNewPrivileges=yes", "NoNewPrivilege=yes");
        assert!(verify(&scratch, name, &wrong).contains("NoNewPrivilege"), "{name}");
    }
}

/// The exposure of a service of this unit, as systemd computes it: 0.0 to 10.0.
fn exposure(scratch: &Scratch, name: &str, text: &str) -> f64 {
    let file = scratch.file(name, &text.replace(INSTALLED, CATAMARAN));
    let output = Command::new("systemd-analyze").args(["security", "--offline=yes", &file]).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let level = printed.split_once("Overall exposure level for ").and_then(|(_, rest)| rest.split(' ').nth(1));
    level.and_then(|level| level.parse().ok()).unwrap_or_else(|| panic!("{name}: {printed}"))
}

#[test]
fn services_of_the_units_are_hardly_exposed() {
    const EXPOSURE_MAX: f64 = 2.0;
    if !has("systemd-analyze") {
        return;
    }
    let scratch = Scratch::new("units-exposure");
    for (name, _) in UNITS {
        let text = unit(name);
        let level = exposure(&scratch, name, &text);
        assert!(level <= EXPOSURE_MAX, "{name}: {level}");
        // A unit with fewer restrictions has a higher exposure.
        assert!(exposure(&scratch, name, &text.replace("SystemCallFilter=", "#")) > EXPOSURE_MAX, "{name}");
    }
}

#[test]
fn pages_show_the_units_and_the_program_takes_what_these_give_it() {
    for (name, page) in UNITS {
        let unit = unit(name);
        assert!(std::fs::read_to_string(root().join(page)).unwrap().contains(&format!("```ini\n{unit}```")), "{name}");
        let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        let words: Vec<&str> = start.strip_prefix(INSTALLED).unwrap().split_whitespace().collect();
        let [command, "--config", file] = words[..] else { panic!("{start}") };
        // The configuration does not exist: `ddns` exits with 3 and `serve` with 1. An unknown argument would give 2.
        let output = Command::new(CATAMARAN).args([command, "--config", file]).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_ne!(output.status.code(), Some(2), "{printed}");
        assert!(!output.status.success() && printed.contains(file), "{printed}");
    }
}
