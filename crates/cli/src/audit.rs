//! `audit`: verifies audit logs.

use super::output::print;
use clap::{Args, Subcommand};
use config::files::audit_log::{Broken, Verified, files_of, verify};
use config::files::layout::audit_of;
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use process::problem::{Exit, Problem};
use std::path::PathBuf;

/// Examples of `audit`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  catamaran audit verify /var/lib/catamaran/node-1/data.audit
  catamaran audit verify --noted 4b5f... data.audit    also check that the line with this digest is there
  catamaran audit verify data.audit.2 data.audit.1     only these files, oldest first

The digest of the last line is printed as `last:`. Keep it: with --noted, a later run detects lines that were removed
from the end of the log.";

/// Arguments of `audit`.
#[derive(Subcommand, Debug)]
pub(crate) enum AuditCommand {
    /// Check that no line of an audit log was edited or removed. Exits with 5 if one was.
    Verify(VerifyArgs),
}

/// Arguments of `audit verify`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VerifyArgs {
    /// The newest file: rotated files are found beside it. Or several files, oldest first.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Digest of a line that must be in the log, as printed by an earlier run.
    #[arg(long, value_name = "DIGEST")]
    noted: Option<String>,
}

pub(crate) fn run(command: &AuditCommand) -> Result<(), Problem> {
    let AuditCommand::Verify(VerifyArgs { files, noted }) = command;
    let files = match &files[..] {
        [file] if file.is_dir() => files_of(&audit_of(&file.join("data"))),
        [file] if file.exists() => files_of_newest(file),
        _ => files.clone(),
    };
    let noted = noted.as_deref().map(digest_in).transpose()?;
    let found = verify(&files, noted).map_err(broken)?;
    if noted.is_some() && !found.has_noted {
        let why = "no line has the noted digest: lines were removed from the end, or the line is in older files";
        return Err(Problem::new(Exit::Refused, "the audit log was modified", why));
    }
    print(&summary(&files, &found))
}

/// The file and its rotated files. A rotated file is verified alone.
fn files_of_newest(file: &std::path::Path) -> Vec<PathBuf> {
    let is_rotated = file.extension().is_some_and(|end| end.as_encoded_bytes().iter().all(u8::is_ascii_digit));
    if is_rotated { vec![file.to_owned()] } else { files_of(file) }
}

fn digest_in(text: &str) -> Result<[u8; 32], Problem> {
    let digest = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok().and_then(|digest| digest.try_into().ok());
    digest.ok_or_else(|| Problem::new(Exit::Input, "`--noted` is not a digest", "a digest has 64 hexadecimal digits"))
}

fn broken(Broken { file, line, why }: Broken) -> Problem {
    if line == 0 {
        return Problem::new(Exit::Input, "cannot read the audit log", why).at(file.display());
    }
    Problem::new(Exit::Refused, "the audit log was modified", why)
        .at(format!("{}:{line}", file.display()))
        .hint("compare it with the audit logs of the other nodes: except for `prev`, they have the same lines")
}

fn summary(files: &[PathBuf], found: &Verified) -> String {
    let mut text = format!("verified: {} lines in {} files", found.lines, files.len());
    text.push_str(if found.has_begin { ", from the first that was written" } else { "; earlier lines are gone" });
    if found.unbound > 0 {
        text.push_str(&format!(
            "; {} lines before them were written by older software, and are not verified",
            found.unbound
        ));
    }
    if found.is_cut {
        text.push_str("; the last line is incomplete");
    }
    if let Some(last) = &found.last {
        text.push_str(&format!("\nlast:  {}", HEXLOWER.encode(last)));
    }
    text
}
