//! The units of systemd in `deploy/`: systemd reads them without a word.

use crate::support::cluster::{CATAMARAN, Scratch};
use std::path::Path;
use std::process::Command;

/// Where a package puts the program.
const INSTALLED: &str = "/usr/local/bin/catamaran";

/// What systemd says of a unit.
fn said(scratch: &Scratch, name: &str, text: &str) -> String {
    let file = scratch.file(name, text);
    let output = Command::new("systemd-analyze").args(["verify", "--man=no", &file]).output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn systemd_takes_the_units_as_they_are() {
    // Only a machine that runs systemd has it.
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return println!("skipped: systemd-analyze is not there");
    }
    let scratch = Scratch::new("units");
    for (name, command) in [("catamaran.service", "serve"), ("catamaran-ddns.service", "ddns")] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(&format!("ExecStart={INSTALLED} {command} --config ")), "{text}");
        let text = text.replace(INSTALLED, CATAMARAN);
        // Units of the system itself may be lacking on a machine that systemd does not run.
        let of_it = |said: String| said.lines().filter(|line| line.contains(name)).collect::<Vec<_>>().join("\n");
        assert_eq!(of_it(said(&scratch, name, &text)), "");
        let wrong = text.replace("[Service]", "[Service]\nNoSuchKey=yes");
        assert!(of_it(said(&scratch, name, &wrong)).contains("NoSuchKey"), "a wrong key is seen");
        // The program takes the command line.
        let help = Command::new(CATAMARAN).args([command, "--help"]).output().unwrap();
        assert!(String::from_utf8_lossy(&help.stdout).contains("--config"));
    }
}
