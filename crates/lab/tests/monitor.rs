//! `catlab load --monitor`: a process, a control group with a quota, and a Prometheus endpoint, on the clock of a run.
#![cfg(target_os = "linux")]

#[path = "support/echo_process.rs"]
mod echo_process;
#[expect(dead_code, reason = "the rest of it is for tests that start servers")]
mod support;

use echo_process::{CATLAB, EchoProcess};
use lab::engine::Transport;
use lab::report::{Run, Sample, page};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::Folder;

/// A control group of this test's own, with a tenth of a core for what is in it.
struct Group {
    name: String,
    folders: Vec<PathBuf>,
}

impl Group {
    /// `None`, said plainly, where none can be made.
    fn new() -> Option<Self> {
        let name = format!("catlab-monitor-{}", std::process::id());
        let root = PathBuf::from("/sys/fs/cgroup");
        let is_v2 = root.join("cgroup.controllers").exists();
        let controllers: &[&str] = if is_v2 { &[""] } else { &["cpu", "cpuacct"] };
        let folders: Vec<_> = controllers.iter().map(|controller| root.join(controller).join(&name)).collect();
        // It goes with this value, however far it has been made.
        let group = Self { name, folders };
        let quota = |folder: &PathBuf| match is_v2 {
            true => std::fs::write(folder.join("cpu.max"), "10000 100000"),
            // The other controller has none.
            false if folder.join("cpuacct.usage").exists() && !folder.join("cpu.shares").exists() => Ok(()),
            false => {
                std::fs::write(folder.join("cpu.cfs_period_us"), "100000")?;
                std::fs::write(folder.join("cpu.cfs_quota_us"), "10000")
            }
        };
        let made = group.folders.iter().try_for_each(|folder| {
            match std::fs::create_dir(folder) {
                // Two controllers in one place.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => made?,
            }
            quota(folder)
        });
        made.inspect_err(|error| println!("skipped: no control group can be made here: {error}")).ok().map(|()| group)
    }

    fn take(&self, pid: u32) {
        for folder in &self.folders {
            std::fs::write(folder.join("cgroup.procs"), pid.to_string()).unwrap();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for folder in &self.folders {
            // One that was not made is not there; one whose last process has just ended is busy for a moment.
            for _ in 0..100 {
                if std::fs::remove_dir(folder).is_ok() || !folder.exists() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// An endpoint whose counter grows by ten each time that it is read.
fn endpoint(stop: &Arc<AtomicBool>) -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let stop = Arc::clone(stop);
    let serve = move || {
        let mut count = 0;
        while !stop.load(Ordering::Relaxed) {
            let Ok((mut stream, _)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            stream.set_nonblocking(false).unwrap();
            count += 10;
            let _request = stream.read(&mut [0; 1_024]);
            let _told = write!(stream, "HTTP/1.0 200 OK\r\n\r\n# TYPE q_total counter\nq_total {count}\ndepth 3\n");
        }
    };
    (format!("http://{address}/metrics"), std::thread::spawn(serve))
}

#[test]
fn a_process_a_control_group_and_metrics_are_watched_while_it_is_measured() {
    let folder = Folder::new("monitor");
    let out = folder.path().join("run");
    let group = Group::new();
    let echo = EchoProcess::start(Transport::Tcp, &folder.path().join("ca.pem"));
    let mut sources = vec![format!("pid:{}", echo.id())];
    if let Some(group) = &group {
        group.take(echo.id());
        sources.push(format!("cgroup:/{}", group.name));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let (url, server) = endpoint(&stop);
    sources.push(url.clone());
    let status = Command::new(CATLAB)
        .args(["load", "--quiet", "--transport", "tcp", "--server", &format!("127.0.0.1:{}", echo.port)])
        .args(["--name", "q{n}.example", "--closed-loop", "--in-flight", "64", "--workers", "1", "--duration", "3s"])
        .args([
            "--monitor",
            &sources.join(","),
            "--monitor-interval",
            "100ms",
            "--force",
            "--out",
            &out.to_string_lossy(),
        ])
        .stdout(Stdio::null())
        .status()
        .unwrap();
    // Whether the tool kept up with a server that is held back is another question.
    assert!(matches!(status.code(), Some(0 | 1)), "{status}");
    stop.store(true, Ordering::Relaxed);
    server.join().unwrap();
    let id = echo.id();
    echo.end();

    let run = Run::read(&out).unwrap();
    let of = |source: &str| -> Vec<&Sample> {
        let samples: Vec<_> = run.recording.samples.iter().filter(|sample| sample.source == source).collect();
        assert!(samples.len() >= 5, "{source}: {samples:?}");
        samples
    };
    let process = of(&format!("pid {id}"));
    processes_are_told(&process);
    // The tool's connections to the echo's port.
    let connected = |one: &&Sample| one.tcp_states.get("ESTABLISHED").is_some_and(|&count| count >= 8);
    assert!(process.iter().any(connected), "{process:?}");
    if let Some(group) = &group {
        let members = of(&format!("cgroup /{}", group.name));
        processes_are_told(&members);
        // A closed loop takes all that a tenth of a core can answer: the quota holds it back, for its group and for it.
        for samples in [&members, &process] {
            let denied: f64 = samples.iter().filter_map(|sample| sample.throttled_seconds).sum();
            assert!(denied > 0.0, "{samples:?}");
        }
    }
    metrics_are_told(&of(&url));
    let html = page(&[run], "watched");
    for picture in ["Server: processor", "Server: TCP sockets", "Server: counters", "Server: metrics"] {
        assert!(html.contains(picture), "{picture}");
    }
}

/// Of an echo that works, as its process and as its control group see it.
fn processes_are_told(samples: &[&Sample]) {
    assert!(samples.iter().all(|one| one.error.is_none()), "{samples:?}");
    let busy = samples.iter().filter_map(|sample| sample.cpu_cores).fold(0.0, f64::max);
    assert!(busy > 0.02, "{busy}");
    assert!(samples.iter().all(|one| one.threads >= Some(2) && one.rss_bytes > Some(1e6)), "{samples:?}");
    assert!(samples.iter().all(|one| one.tcp_states.get("LISTEN") == Some(&1)), "{samples:?}");
    assert!(samples.iter().skip(1).all(|one| one.udp_drops == Some(0)), "{samples:?}");
    let switches =
        |one: &&Sample| one.voluntary_switches.unwrap_or_default() + one.involuntary_switches.unwrap_or_default();
    assert!(samples.iter().map(switches).sum::<u64>() > 0, "{samples:?}");
}

/// A counter that grows from look to look, and a gauge that stands still.
fn metrics_are_told(samples: &[&Sample]) {
    // On a busy machine one may not be answered in time.
    let told: Vec<_> = samples.iter().filter(|sample| sample.error.is_none()).collect();
    let counts: Vec<f64> = told.iter().filter_map(|sample| sample.metrics.get("q_total").copied()).collect();
    assert!(counts.len() > 1 && counts.len() == told.len(), "it differs each time: {counts:?}");
    assert!(counts.windows(2).all(|pair| pair[1] > pair[0]), "{counts:?}");
    let depths = told.iter().filter(|sample| sample.metrics.contains_key("depth")).count();
    assert_eq!(depths, 1, "what stands still is told once");
}
