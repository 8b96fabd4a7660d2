//! Separate disks for nodes: ext4 in files. They need root, loop devices and e2fsprogs.

use super::cluster::Cluster;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A file system for each node, which can be frozen or filled.
pub(crate) struct Mounts {
    dirs: Vec<PathBuf>,
    images: PathBuf,
}

/// Size of an image file in bytes. The file is sparse.
const IMAGE_BYTES: u64 = 256 << 20;

pub(crate) fn run(program: &str, arguments: &[&Path]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

impl Mounts {
    /// Moves a directory of each node to its own file system. The nodes must not be running.
    pub(crate) fn make(cluster: &Cluster, dir_of: impl Fn(u64) -> PathBuf) -> Result<Self, String> {
        let images = cluster.dir.with_extension("images");
        std::fs::create_dir_all(&images).map_err(|error| error.to_string())?;
        let mut mounts = Self { dirs: Vec::new(), images };
        for id in cluster.ids() {
            let (dir, image) = (dir_of(id), mounts.images.join(format!("{id}")));
            let kept = dir.with_extension("kept");
            std::fs::rename(&dir, &kept).unwrap();
            std::fs::create_dir(&dir).unwrap();
            std::fs::File::create(&image).unwrap().set_len(IMAGE_BYTES).unwrap();
            run("mkfs.ext4", &[Path::new("-q"), &image])?;
            run("mount", &[Path::new("-o"), Path::new("loop"), &image, &dir])?;
            mounts.dirs.push(dir.clone());
            std::fs::remove_dir(dir.join("lost+found")).unwrap();
            run("cp", &[Path::new("-a"), &kept.join("."), &dir])?;
        }
        Ok(mounts)
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        for dir in &self.dirs {
            if let Err(error) = run("umount", &[Path::new("-l"), dir]) {
                eprintln!("{error}");
            }
        }
        let _ = std::fs::remove_dir_all(&self.images);
    }
}
