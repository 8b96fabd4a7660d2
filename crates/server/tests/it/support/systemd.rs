//! systemd itself, in its own namespaces. It runs a unit as shipped, with the user, the mounts, the capabilities and
//! the filters of the unit. It needs root and a writable control group.

use super::cluster::{CATAMARAN, Scratch};
use super::tools::{forbidden, has};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = "/usr/lib/systemd/systemd";
/// The user of the shipped unit, which may not exist on this machine.
pub(crate) const USER: u32 = 64_990;

/// The targets that the units depend on, without anything of the machine.
const TARGETS: [&str; 7] = ["sysinit", "basic", "shutdown", "network", "network-online", "multi-user", "umount"];

/// Makes the namespaces: the machine's files, with the test's own `/etc`, `/var/lib`, and program.
const ENTER: &str = r#"
set -e
echo $$ > "$GROUP/cgroup.procs"
exec unshare --mount --pid --fork --cgroup --uts --ipc --kill-child sh -c "$INSIDE"
"#;

const INSIDE: &str = r#"
set -e
mount --make-rprivate /
mount --make-rshared /
mount -t proc proc /proc
umount -R /sys/fs/cgroup || true
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs tmpfs /run
mkdir /run/etc
cp -a /etc/. "$ROOT/etc/." /run/etc
echo "catamaran:x:$USER_ID:$USER_ID::/:/bin/false" >> /run/etc/passwd
echo "catamaran:x:$USER_ID:" >> /run/etc/group
mount --bind /run/etc /etc
mount --bind "$ROOT/lib" /var/lib
mount -t tmpfs tmpfs /usr/local/bin
touch /usr/local/bin/catamaran
mount --bind "$CATAMARAN" /usr/local/bin/catamaran
exec env -i container=catamaran-test PATH=/usr/bin:/bin:/usr/sbin:/sbin SYSTEMD_UNIT_PATH="$ROOT/units" \
    "$SYSTEMD" --system --unit="$UNIT" --log-target=console --show-status=no
"#;

/// A systemd that runs one unit. When it is dropped, it ends with everything that it started.
pub(crate) struct Systemd {
    child: Child,
    group: PathBuf,
    unit: String,
    log: PathBuf,
}

impl Systemd {
    /// The directory that services see over the machine's `/etc`, or as `/var/lib`.
    pub(crate) fn dir(scratch: &Scratch, which: &str) -> PathBuf {
        let dir = scratch.path().join(which);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    /// Starts the unit `name` with this text. `None`, with a message, if that is not possible.
    pub(crate) fn start(scratch: &Scratch, name: &str, text: &str) -> Option<Self> {
        if !has("systemd-analyze") || !Path::new(PROGRAM).exists() {
            return None;
        }
        let Some(group) = make_group(name) else {
            forbidden("making a control group");
            return None;
        };
        let (root, units) = (scratch.path(), Self::dir(scratch, "units"));
        for which in ["etc", "lib"] {
            Self::dir(scratch, which);
        }
        // Services that do not run as root must pass through this directory.
        std::fs::set_permissions(root, PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::write(units.join(name), text).unwrap();
        for target in TARGETS {
            std::fs::write(units.join(format!("{target}.target")), "[Unit]\nDefaultDependencies=no\n").unwrap();
        }
        // No journal runs here, so the service's output goes to a file.
        let (more, log) = (units.join(format!("{name}.d")), root.join("log"));
        std::fs::create_dir_all(&more).unwrap();
        let drop_in = format!("[Service]\nStandardOutput=append:{0}\nStandardError=append:{0}\n", log.display());
        std::fs::write(more.join("log.conf"), drop_in).unwrap();
        let child = Command::new("sh")
            .args(["-c", ENTER])
            .env("GROUP", &group)
            .env("INSIDE", INSIDE)
            .env("ROOT", root)
            .env("CATAMARAN", CATAMARAN)
            .env("SYSTEMD", PROGRAM)
            .env("UNIT", name)
            .env("USER_ID", USER.to_string())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Some(Self { child, group, unit: name.to_owned(), log })
    }

    /// The process of the service, once there is one.
    pub(crate) fn service(&self) -> Option<u32> {
        let file = self.group.join("system.slice").join(&self.unit).join("cgroup.procs");
        std::fs::read_to_string(file).ok()?.lines().next()?.parse().ok()
    }

    /// The service's output.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- what {} said\n{}", self.unit, self.log());
        }
        // The end of `unshare` ends its child, which is the first process of its namespace. That ends all others.
        let _ = self.child.kill();
        let _ = self.child.wait();
        remove_groups(&self.group);
    }
}

/// A control group below the one of this process, in the hierarchy of version 2.
fn make_group(name: &str) -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
    let mount = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (path, kind) = (words.next()?, words.next()?);
        (kind == "cgroup2").then(|| path.to_owned())
    })?;
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?.to_owned();
    let group = Path::new(&mount).join(own).join(format!("catamaran-it-{name}-{}", std::process::id()));
    std::fs::create_dir(&group).ok()?;
    Some(group)
}

/// Removes inner groups first. A group whose last process has just ended may be busy for a moment.
fn remove_groups(group: &Path) {
    let below = std::fs::read_dir(group).into_iter().flatten().flatten().map(|entry| entry.path());
    below.filter(|path| path.is_dir()).for_each(|path| remove_groups(&path));
    for _ in 0..100 {
        if std::fs::remove_dir(group).is_ok() || !group.exists() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
