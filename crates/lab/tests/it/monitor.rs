//! `catlab load --monitor`: a process, a control group with a quota, and a Prometheus endpoint, on the clock of a run.
#![cfg(target_os = "linux")]

use crate::support::Folder;
use crate::support::echo_process::EchoProcess;
use crate::support::program::CATLAB;
use measure::Transport;
use report::{Run, Sample, page};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A control group for this test, limited to a hundredth of a core.
struct Group {
    name: String,
    folders: Vec<PathBuf>,
}

impl Group {
    /// `None`, and a message, if control groups cannot be created here.
    fn new() -> Option<Self> {
        let name = format!("catlab-monitor-{}", std::process::id());
        let root = PathBuf::from("/sys/fs/cgroup");
        let is_v2 = root.join("cgroup.controllers").exists();
        let controllers: &[&str] = if is_v2 { &[""] } else { &["cpu", "cpuacct"] };
        let folders: Vec<_> = controllers.iter().map(|controller| root.join(controller).join(&name)).collect();
        // Dropping the group removes its folders, even if creating it failed midway.
        let group = Self { name, folders };
        let quota = |folder: &PathBuf| match is_v2 {
            true => std::fs::write(folder.join("cpu.max"), "1000 100000"),
            // The cpuacct controller has no quota.
            false if folder.join("cpuacct.usage").exists() && !folder.join("cpu.shares").exists() => Ok(()),
            false => {
                std::fs::write(folder.join("cpu.cfs_period_us"), "100000")?;
                std::fs::write(folder.join("cpu.cfs_quota_us"), "1000")
            }
        };
        let made = group.folders.iter().try_for_each(|folder| {
            match std::fs::create_dir(folder) {
                // Both controllers can be mounted in the same folder.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => made?,
            }
            quota(folder)
        });
        made.inspect_err(|error| skip::permission(format!("making a control group: {error}"))).ok().map(|()| group)
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
            // A folder may be missing, or busy for a moment after its last process has ended.
            for _ in 0..100 {
                if std::fs::remove_dir(folder).is_ok() || !folder.exists() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// An endpoint whose counter grows by ten each time it is read.
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
fn a_process_a_control_group_and_metrics_are_sampled_during_a_run() {
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
    // The throttled server may make the run invalid; this test does not check that.
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
    check_processes(&process);
    // The tool's connections to the echo server.
    let connected = |one: &&Sample| one.tcp_states.get("ESTABLISHED").is_some_and(|&count| count >= 8);
    assert!(process.iter().any(connected), "{process:?}");
    if let Some(group) = &group {
        let members = of(&format!("cgroup /{}", group.name));
        check_processes(&members);
        // Even on a busy machine, a closed loop uses a whole hundredth of a core, so the quota throttles the group.
        for samples in [&members, &process] {
            let denied: f64 = samples.iter().filter_map(|sample| sample.throttled_seconds).sum();
            assert!(denied > 0.0, "{samples:?}");
        }
    }
    check_metrics(&of(&url));
    check_summary(&run, id, 1 + usize::from(group.is_some()));
    let html = page(&[run], "watched");
    for picture in [
        "Server: processor",
        "Server: memory of the kernel",
        "Server: TCP sockets",
        "Server: counters",
        "Server: metrics",
    ] {
        assert!(html.contains(picture), "{picture}");
    }
}

/// Checks the samples of a working echo server, from its process or from its control group.
fn check_processes(samples: &[&Sample]) {
    assert!(samples.iter().all(|one| one.error.is_none()), "{samples:?}");
    let busy = samples.iter().filter_map(|sample| sample.cpu_cores).fold(0.0, f64::max);
    assert!(busy > 0.002, "{busy}");
    assert!(samples.iter().all(|one| one.threads >= Some(2) && one.rss_bytes > Some(1e6)), "{samples:?}");
    assert!(samples.iter().all(|one| one.tcp_states.get("LISTEN") == Some(&1)), "{samples:?}");
    assert!(samples.iter().skip(1).all(|one| one.udp_drops == Some(0)), "{samples:?}");
    let switches =
        |one: &&Sample| one.voluntary_switches.unwrap_or_default() + one.involuntary_switches.unwrap_or_default();
    assert!(samples.iter().map(switches).sum::<u64>() > 0, "{samples:?}");
}

/// Checks what the summary has of the process, and that it has this number of sources. An endpoint has no memory.
fn check_summary(run: &Run, pid: u32, count: usize) {
    let monitor = &run.summary.as_ref().unwrap().monitor;
    assert_eq!(monitor.len(), count, "{monitor:?}");
    let figures = &monitor[&1];
    assert_eq!(figures.source, format!("pid {pid}"));
    assert!(figures.established.is_some_and(|count| count.max >= 8.0) && figures.time_wait.is_some(), "{figures:?}");
    let memory = figures.rss_bytes.unwrap();
    // A busy machine takes fewer samples than planned. A trend needs at least ten.
    assert!(memory.min > 1e6 && (figures.rss_trend.is_some() || memory.n < 10), "{figures:?}");
    assert!(figures.tcp_memory_bytes.is_some() && figures.udp_memory_bytes.is_some(), "{figures:?}");
}

/// Checks a counter that grows between samples, and a constant gauge.
fn check_metrics(samples: &[&Sample]) {
    // A busy machine may fail to answer some samples in time.
    let read_samples: Vec<_> = samples.iter().filter(|sample| sample.error.is_none()).collect();
    let counts: Vec<f64> = read_samples.iter().filter_map(|sample| sample.metrics.get("q_total").copied()).collect();
    assert!(counts.len() > 1 && counts.len() == read_samples.len(), "a counter is in every sample: {counts:?}");
    assert!(counts.windows(2).all(|pair| pair[1] > pair[0]), "{counts:?}");
    let depths = read_samples.iter().filter(|sample| sample.metrics.contains_key("depth")).count();
    assert_eq!(depths, 1, "a constant gauge is recorded once");
}
