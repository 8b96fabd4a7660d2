//! Full disks and slow disks.

use super::Fault;
use super::damage::start_after;
use crate::expectations::Damage;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

fn full(fault: &mut Fault<'_, '_>, slots: &[usize]) -> Result<String, String> {
    fault.note(format!("disks in slots {slots:?} are full"));
    for slot in slots {
        fault.cluster.disk(*slot)?.fill()?;
    }
    let result = fault.hold().and_then(|()| fault.hold());
    let is_full = slots.iter().all(|slot| fault.cluster.disks[slot].is_full());
    for slot in slots {
        fault.cluster.disk(*slot)?.make_room();
    }
    fault.note("there is room again");
    result?;
    if !is_full {
        return Err("the fault did not happen: a disk had room at the end".into());
    }
    for slot in slots {
        if fault.cluster.node(*slot)?.pid().is_none() {
            return Err(format!("the node in slot {slot} exited because its disk was full"));
        }
        start_after(fault, *slot, Damage::Full)?;
    }
    Ok(format!("{} full disks", slots.len()))
}

/// Fills one disk.
pub(crate) fn full_one(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    let slot = fault.pick()?;
    full(fault, &[slot])
}

/// Fills all disks.
pub(crate) fn full_all(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    let slots = fault.some(usize::MAX);
    full(fault, &slots)
}

/// Writes per second that a slow disk allows.
const WRITES_PER_SECOND: u32 = 12;
/// The control group for the throttling of block devices (cgroup v1).
const BLKIO: &str = "/sys/fs/cgroup/blkio";

/// A control group whose processes write slowly to one device. Dropping it removes the group.
struct Throttle(PathBuf);

impl Throttle {
    fn new(device: &str) -> Result<Self, String> {
        let dir = Path::new(BLKIO).join(format!("catamaran-torture-{}", std::process::id()));
        fs::create_dir_all(&dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
        let throttle = Self(dir);
        throttle.write("blkio.throttle.write_iops_device", &format!("{device} {WRITES_PER_SECOND}"))?;
        Ok(throttle)
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.0.join(file);
        fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
    }

    /// Returns the seconds that another process in the group needs for ten direct writes.
    fn measure(&self, file: &Path) -> Result<f64, String> {
        let start = Instant::now();
        let script =
            "echo $$ > \"$1/cgroup.procs\" && exec dd if=/dev/zero of=\"$2\" bs=4096 count=10 oflag=direct,dsync";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(&self.0).arg(file).stdin(Stdio::null()).stderr(Stdio::null());
        let status = command.status().map_err(|error| error.to_string())?;
        let _ = fs::remove_file(file);
        if status.success() { Ok(start.elapsed().as_secs_f64()) } else { Err("dd failed".into()) }
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        // Moves remaining processes back to the root group.
        let pids = fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        for pid in pids.lines() {
            let _ = fs::write(Path::new(BLKIO).join("cgroup.procs"), pid);
        }
        let _ = fs::remove_dir(&self.0);
    }
}

/// Makes the disk of the leader slow.
pub(crate) fn slow(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    let slot = fault.leader()?;
    let device = fault.cluster.disk(slot)?.device()?;
    let throttle = Throttle::new(&device)?;
    let pid = fault.cluster.node(slot)?.pid().ok_or("the leader is not running")?;
    fault.note(format!("the disk in slot {slot} has {WRITES_PER_SECOND} writes/s"));
    throttle.write("cgroup.procs", &pid.to_string())?;
    let took = throttle.measure(&fault.cluster.disks[&slot].path().join("probe"))?;
    fault.hold()?;
    fault.hold()?;
    drop(throttle);
    fault.note("the disk is fast again");
    if took < 0.5 {
        return Err(format!("the fault did not happen: ten writes took {took:.2} s"));
    }
    Ok(format!("ten writes took {took:.1} s"))
}
