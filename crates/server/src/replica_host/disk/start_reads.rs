//! The reads at start, before there is a writer.

use super::file::{path, read_at};
use replica::disk::{DiskError, DiskRead};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The reads at start.
pub(crate) struct StartReads {
    dir: PathBuf,
}

impl StartReads {
    pub(crate) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }
}

impl DiskRead for StartReads {
    fn list(&self) -> Result<Vec<(String, u64)>, DiskError> {
        let failed =
            |error: io::Error| DiskError::Failed { file: self.dir.display().to_string(), reason: error.to_string() };
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let metadata = entry.metadata().map_err(failed)?;
            if let (true, Ok(name)) = (metadata.is_file(), entry.file_name().into_string()) {
                files.push((name, metadata.len()));
            }
        }
        Ok(files)
    }

    fn read(&self, file: &str, offset: u64, len: usize) -> Result<Vec<u8>, DiskError> {
        let result = path(&self.dir, file).and_then(File::open).and_then(|file| read_at(&file, offset, len));
        result.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => DiskError::Missing { file: file.to_owned() },
            _ => DiskError::Failed { file: file.to_owned(), reason: error.to_string() },
        })
    }
}
