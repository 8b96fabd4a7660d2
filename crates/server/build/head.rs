//! Reads the current commit of a git checkout from its files. Needs no git, and does not fail in a source archive.

use std::fs;
use std::path::{Path, PathBuf};

/// Number of characters of a commit hash that are shown.
const SHOWN: usize = 12;

/// The current commit of a checkout.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The start of the commit's hash.
    pub(crate) commit: String,
    /// Files that change when another commit is checked out or made.
    pub(crate) files: Vec<PathBuf>,
}

/// Reads the current commit of the checkout in `root`. `None` if `root` is not a checkout, or has another format.
pub(crate) fn read(root: &Path) -> Option<Head> {
    let dir = git_dir(root)?;
    // A worktree has a HEAD of its own; branches are in the directory that all worktrees share.
    let common = fs::read_to_string(dir.join("commondir")).map_or_else(|_| dir.clone(), |path| dir.join(path.trim()));
    let head = fs::read_to_string(dir.join("HEAD")).ok()?;
    let mut files = vec![dir.join("HEAD")];
    let commit = match head.trim().strip_prefix("ref: ") {
        None => head.trim().to_owned(),
        Some(branch) => {
            let (loose, packed) = (common.join(branch), common.join("packed-refs"));
            // Each move of HEAD adds a line to its log, even while the branch is only in `packed-refs`.
            let log = dir.join("logs/HEAD");
            files.extend(log.is_file().then_some(log));
            if let Ok(commit) = fs::read_to_string(&loose) {
                files.push(loose);
                commit.trim().to_owned()
            } else {
                let all = fs::read_to_string(&packed).ok()?;
                files.push(packed);
                let of_branch = |line: &str| Some(line.strip_suffix(branch)?.strip_suffix(' ')?.to_owned());
                all.lines().find_map(of_branch)?
            }
        }
    };
    let is_hash = matches!(commit.len(), 40 | 64) && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| Head { commit: commit[..SHOWN].to_owned(), files })
}

/// The directory of git's files. In a worktree, `.git` is a file that contains its path.
fn git_dir(root: &Path) -> Option<PathBuf> {
    let git = root.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    let text = fs::read_to_string(git).ok()?;
    Some(root.join(text.strip_prefix("gitdir: ")?.trim()))
}
