//! The mark of a node whose cluster was replaced by another one.

use config::files::layout::superseded_of;
use config::files::read_optional;
use config::limits::SMALL_FILE_BYTES_MAX;
use process::problem::{Exit, Problem};
use std::io;
use std::path::Path;

/// Why a node with this data must not start, if its cluster is superseded.
///
/// # Errors
/// [`io::Error`]: the file exists but cannot be read.
pub(crate) fn found_mark(node: u32, data: &Path) -> io::Result<Option<Problem>> {
    let why = read_optional(&superseded_of(data), SMALL_FILE_BYTES_MAX)?;
    Ok(why.map(|why| superseded(node, data, String::from_utf8_lossy(&why).trim())))
}

/// Says that the cluster of a node is superseded.
pub(crate) fn superseded(node: u32, data: &Path, why: &str) -> Problem {
    Problem::new(Exit::Removed, format!("the cluster of node {node} is superseded"), why).at(data.display()).hint(
        format!(
            "to add this machine to the new cluster, run `catamaran join` with a new directory. To give up the new \
             cluster, stop its node, remove {}, and start this node again",
            superseded_of(data).display()
        ),
    )
}
