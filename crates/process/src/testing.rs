//! Directories for tests.

use std::path::{Path, PathBuf};

/// A directory for one test, removed with the returned value.
///
/// # Panics
/// The temporary directory cannot be written.
#[must_use]
pub fn test_dir(name: &str) -> TestDir {
    let dir = std::env::temp_dir().join(format!("catamaran-test-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("the temporary directory can be written");
    TestDir(dir)
}

/// A directory for one test.
#[derive(Debug)]
pub struct TestDir(PathBuf);

impl TestDir {
    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
