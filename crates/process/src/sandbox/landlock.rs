//! Landlock: the kernel checks each opened file against these rules, for every user.
//!
//! Connecting to the sockets of `external` rules is not a file access, and is not restricted. Programs cannot be
//! executed: no directory has that right.

use super::files::Files;
use super::state::Enforced;
use landlock::{
    ABI, Access, AccessFs, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, make_bitflags,
};
use std::path::Path;

/// The newest set of rights to request. An older kernel enforces what it knows.
const RIGHTS: ABI = ABI::V6;

/// Restricts this thread, and the threads that it starts, to these files. They may only send signals within the
/// process.
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

/// Rights for files, directories and sockets, but not for devices or links.
fn written() -> BitFlags<AccessFs> {
    make_bitflags!(AccessFs::{
        ReadFile | ReadDir | WriteFile | Truncate | RemoveFile | RemoveDir | MakeReg | MakeDir | MakeSock | Refer
    })
}

/// A missing path cannot have a rule, and needs none.
fn allow(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated, RulesetError> {
    let Ok(fd) = PathFd::new(path) else { return Ok(rules) };
    // Directory rights do not apply to files.
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(RIGHTS) };
    rules.add_rule(PathBeneath::new(fd, access))
}
