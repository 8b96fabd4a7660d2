//! Landlock: the kernel checks each file that is opened against what is allowed here, for every user.
//!
//! Connecting to the sockets of `external` rules is no access to a file, and sockets have rules of their own; neither
//! is restricted. Programs cannot be executed: no directory has that right.

use super::Enforced;
use super::files::Files;
use landlock::{
    ABI, Access, AccessFs, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, make_bitflags,
};
use std::path::Path;

/// The newest set of rights that is asked for; an older kernel grants what it knows.
const RIGHTS: ABI = ABI::V6;

/// Restricts this thread, and all that it starts, to these files. It may send signals to itself only.
pub(super) fn restrict(files: &Files) -> Result<Enforced, RulesetError> {
    let mut rules = Ruleset::default().handle_access(AccessFs::from_all(RIGHTS))?.scope(Scope::Signal)?.create()?;
    for path in &files.read {
        rules = allow(rules, path, AccessFs::ReadFile | AccessFs::ReadDir)?;
    }
    for path in &files.written {
        rules = allow(rules, path, written())?;
    }
    Ok(match rules.restrict_self()?.ruleset {
        RulesetStatus::FullyEnforced => Enforced::Fully,
        RulesetStatus::PartiallyEnforced => Enforced::Partly,
        RulesetStatus::NotEnforced => Enforced::No,
    })
}

/// Files, directories and sockets; no devices, no links to elsewhere.
fn written() -> BitFlags<AccessFs> {
    make_bitflags!(AccessFs::{
        ReadFile | ReadDir | WriteFile | Truncate | RemoveFile | RemoveDir | MakeReg | MakeDir | MakeSock | Refer
    })
}

/// What is not there cannot be allowed, and is not needed.
fn allow(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated, RulesetError> {
    let Ok(fd) = PathFd::new(path) else { return Ok(rules) };
    // A file has no rights of directories.
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(RIGHTS) };
    rules.add_rule(PathBeneath::new(fd, access))
}
