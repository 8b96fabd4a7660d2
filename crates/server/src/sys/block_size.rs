//! The physical block size of the disk below a directory. A loss of power during a write can spoil a whole block.

use replica::log::limits::{BLOCK_BYTES_MAX, SECTOR_BYTES};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where the kernel lists block devices by number.
const DEVICES: &str = "/sys/dev/block";

/// Bytes of a physical block of the disk below a directory. If the disk does not report its size, the largest is
/// assumed.
pub(crate) fn of_directory(dir: &Path) -> u64 {
    let device = std::fs::metadata(dir).map(|metadata| (libc::major(metadata.dev()), libc::minor(metadata.dev())));
    let bytes = device.ok().and_then(|device| of_device(Path::new(DEVICES), device));
    bytes.map_or(BLOCK_BYTES_MAX, usable)
}

/// The size that a device reports, or the disk that contains the partition.
fn of_device(devices: &Path, (major, minor): (u32, u32)) -> Option<u64> {
    let device: PathBuf = std::fs::canonicalize(devices.join(format!("{major}:{minor}"))).ok()?;
    let text = [Some(device.as_path()), device.parent()]
        .into_iter()
        .flatten()
        .find_map(|device| std::fs::read_to_string(device.join("queue/physical_block_size")).ok())?;
    text.trim().parse().ok()
}

/// Limits the size to the largest that the log can align to. Disks with larger blocks do not write them in place.
fn usable(bytes: u64) -> u64 {
    let is_usable = bytes.is_power_of_two() && (SECTOR_BYTES as u64..=BLOCK_BYTES_MAX).contains(&bytes);
    if is_usable { bytes } else { BLOCK_BYTES_MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_has_the_blocks_of_its_disk() {
        let dir = process::testing::test_dir("block-size");
        let disk = dir.path().join("disk");
        std::fs::create_dir_all(disk.join("queue")).unwrap();
        std::fs::create_dir_all(disk.join("part1")).unwrap();
        std::fs::write(disk.join("queue/physical_block_size"), "512\n").unwrap();
        let devices = dir.path().join("devices");
        std::fs::create_dir(&devices).unwrap();
        for (number, target) in [("8:0", "../disk"), ("8:1", "../disk/part1"), ("0:40", "..")] {
            std::os::unix::fs::symlink(target, devices.join(number)).unwrap();
        }
        assert_eq!(of_device(&devices, (8, 0)), Some(512));
        assert_eq!(of_device(&devices, (8, 1)), Some(512));
        assert_eq!(of_device(&devices, (0, 40)), None);
        assert_eq!(of_device(&devices, (9, 9)), None);
        assert_eq!([0, 100, 512, 4096, 16_384].map(usable), [4096, 4096, 512, 4096, 4096]);
        assert_eq!(of_directory(Path::new("/proc")), 4096);
    }
}
