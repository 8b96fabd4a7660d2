//! Reads a run, of `catlab` or of another program.

use super::{Run, folder, import};
use std::path::Path;

impl Run {
    /// Reads a run folder, or the output of kxdpgun `-j` or dnsperf.
    ///
    /// # Errors
    /// If it is none of these, or cannot be read.
    pub fn read(path: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        if path.is_dir() { Ok(folder::read(path)?) } else { import::read(path) }
    }
}
