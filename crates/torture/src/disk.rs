//! The disk of one node: an ext4 file system on a loop device.

use crate::limits::DISK_BYTES;
use crate::system;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A mounted image. Dropping it unmounts and removes the image.
#[derive(Debug)]
pub(crate) struct Disk {
    image: PathBuf,
    at: PathBuf,
    is_mounted: bool,
}

/// Runs a program. A failure of the program is an error.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run {program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}

impl Disk {
    /// Creates and mounts an image.
    pub(crate) fn make(image: PathBuf, at: PathBuf) -> Result<Self, String> {
        let text = |error: io::Error| format!("cannot make the disk {}: {error}", image.display());
        fs::create_dir_all(&at).map_err(text)?;
        File::create(&image).and_then(|file| file.set_len(DISK_BYTES)).map_err(text)?;
        let name = image.to_string_lossy().into_owned();
        run("mkfs.ext4", &["-q", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1", &name])?;
        let mut disk = Self { image, at, is_mounted: false };
        disk.mount()?;
        Ok(disk)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.at
    }

    pub(crate) fn mount(&mut self) -> Result<(), String> {
        run("mount", &["-o", "loop", &self.image.to_string_lossy(), &self.at.to_string_lossy()])?;
        self.is_mounted = true;
        Ok(())
    }

    pub(crate) fn unmount(&mut self) -> Result<(), String> {
        let mut result = Ok(());
        // A process that was just killed may still be closing its files.
        for _ in 0..100 {
            result = run("umount", &[&self.at.to_string_lossy()]).map(drop);
            if result.is_ok() {
                self.is_mounted = false;
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        result
    }

    /// Cuts the power. One file is left unsynced as evidence, see [`Disk::has_lost_unsynced`].
    pub(crate) fn cut_power(&self) -> Result<(), String> {
        let unsynced = OpenOptions::new().create(true).append(true).open(self.evidence());
        unsynced.and_then(|mut file| file.write_all(&[b'x'; 8192])).map_err(|error| error.to_string())?;
        system::cut_power(&self.at).map_err(|error| format!("EXT4_IOC_SHUTDOWN {}: {error}", self.at.display()))
    }

    /// Whether unsynced data was lost in the power cut, as it must be.
    pub(crate) fn has_lost_unsynced(&self) -> bool {
        let is_lost = fs::metadata(self.evidence()).map_or(true, |file| file.len() == 0);
        let _ = fs::remove_file(self.evidence());
        is_lost
    }

    fn evidence(&self) -> PathBuf {
        self.at.join("unsynced")
    }

    /// Fills the disk completely.
    pub(crate) fn fill(&self) -> Result<(), String> {
        let text = |error: io::Error| format!("cannot fill {}: {error}", self.at.display());
        let mut file = OpenOptions::new().create(true).append(true).open(self.filler()).map_err(text)?;
        let (mut piece, zeros) = (1 << 20, vec![1; 1 << 20]);
        while piece >= 512 {
            match file.write(&zeros[..piece]) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => piece /= 2,
                Err(error) => return Err(text(error)),
            }
        }
        Ok(())
    }

    /// Whether a new file of 64 KiB does not fit.
    pub(crate) fn is_full(&self) -> bool {
        let probe = self.at.join("probe");
        let result = fs::write(&probe, vec![1; 65_536]);
        let _ = fs::remove_file(&probe);
        result.is_err_and(|error| error.kind() == ErrorKind::StorageFull)
    }

    pub(crate) fn make_room(&self) {
        let _ = fs::remove_file(self.filler());
    }

    fn filler(&self) -> PathBuf {
        self.at.join("filler")
    }

    pub(crate) fn freeze(&self, is_frozen: bool) -> io::Result<()> {
        system::freeze(&self.at, is_frozen)
    }

    /// Major and minor number of the loop device.
    pub(crate) fn device(&self) -> Result<String, String> {
        let line = run("findmnt", &["-n", "-o", "MAJ:MIN", &self.at.to_string_lossy()])?;
        Ok(line.trim().to_owned())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.is_mounted {
            let _ = self.freeze(false);
            if self.unmount().is_err() {
                let _ = run("umount", &["-l", &self.at.to_string_lossy()]);
            }
        }
        let _ = fs::remove_file(&self.image);
        let _ = fs::remove_dir(&self.at);
    }
}
