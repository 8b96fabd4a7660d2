//! A process with its descendants: CPU, memory, threads, context switches, throttling, sockets.

use super::cgroup::Cgroup;
use super::members::{Members, family};
use super::reading::Reading;
use std::fmt;
use std::fs;
use std::io;

/// A monitored process.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    /// The group with its CPU quota, if any.
    cgroup: Option<Cgroup>,
    /// The group with its memory, if it is not the root group.
    memory_group: Option<Cgroup>,
    members: Members,
}

impl Process {
    /// The process with this ID.
    ///
    /// # Errors
    /// If it does not exist.
    pub(super) fn new(pid: u32) -> io::Result<Self> {
        let process = Self {
            pid,
            cgroup: Cgroup::of_process(pid, "cpu"),
            memory_group: Cgroup::with_memory_of(pid),
            members: Members::default(),
        };
        process.look()?;
        Ok(process)
    }

    pub(super) fn read(&mut self) -> io::Result<Reading> {
        self.look()?;
        let reading = self.members.read(&family(self.pid))?;
        let throttled_seconds = self.cgroup.as_ref().and_then(Cgroup::throttled_seconds);
        let group = self.memory_group.as_ref();
        Ok(Reading {
            throttled_seconds,
            kernel_memory_bytes: group.and_then(Cgroup::kernel_memory_bytes),
            group_memory_bytes: group.and_then(Cgroup::memory_bytes),
            ..reading
        })
    }

    /// Fails if the process does not run. A zombie has no memory.
    fn look(&self) -> io::Result<()> {
        fs::read_to_string(format!("/proc/{}/stat", self.pid)).map(|_| ())
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid {}", self.pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::process::Command;
    use std::time::{Duration, Instant};

    #[test]
    fn this_process_is_sampled() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let clients: Vec<_> = (0..3).map(|_| TcpStream::connect(listener.local_addr().unwrap()).unwrap()).collect();
        let servers: Vec<_> = (0..3).map(|_| listener.accept().unwrap()).collect();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut process = Process::new(std::process::id()).unwrap();
        let before = process.read().unwrap();
        assert!(before.tcp_states.get("ESTABLISHED").is_some_and(|&count| count >= 3), "{before:?}");
        assert!(before.rss_bytes.unwrap() > 1 << 20 && before.threads.unwrap() >= 2, "{before:?}");
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        // Exceeds any default buffer, so the kernel drops the rest.
        for _ in 0..4_000 {
            sender.send_to(&[0; 1_000], socket.local_addr().unwrap()).unwrap();
        }
        let used = |now: &Reading| now.cpu_seconds.unwrap() - before.cpu_seconds.unwrap();
        let start = Instant::now();
        let mut after = process.read().unwrap();
        // A busy machine takes longer.
        while used(&after) < 0.05 && start.elapsed().as_secs() < 10 {
            after = process.read().unwrap();
        }
        assert!(after.udp_drops.unwrap() > before.udp_drops.unwrap() + 1_000, "{after:?}");
        assert!(used(&after) >= 0.05, "{}", used(&after));
        drop((clients, servers));
    }

    #[test]
    fn child_processes_count_even_after_exit() {
        // The shell becomes the second `sleep`. Its child, the first one, works for a while and exits.
        let work = "(n=0; while [ $n -lt 400000 ]; do n=$((n + 1)); done; exec sleep 60) & exec sleep 60";
        let mut child = Command::new("sh").args(["-c", work]).spawn().unwrap();
        let mut process = Process::new(child.id()).unwrap();
        let start = Instant::now();
        let patience = |is_done: bool| {
            assert!(start.elapsed() < Duration::from_secs(60), "it takes too long");
            if !is_done {
                std::thread::sleep(Duration::from_millis(20));
            }
            is_done
        };
        let mut reading = process.read().unwrap();
        while !patience(reading.threads == Some(2) && reading.cpu_seconds.unwrap() >= 0.05) {
            reading = process.read().unwrap();
        }
        let before = reading.cpu_seconds.unwrap();
        let [grandchild] = family(child.id()).into_iter().filter(|&pid| pid != child.id()).collect::<Vec<_>>()[..]
        else {
            panic!("one child");
        };
        assert!(Command::new("kill").arg(grandchild.to_string()).status().unwrap().success());
        // The parent does not wait for its child, so the child becomes a zombie without threads and memory.
        let memory = reading.rss_bytes.unwrap();
        while !patience(reading.rss_bytes.unwrap() < memory) {
            reading = process.read().unwrap();
        }
        assert!(reading.cpu_seconds.unwrap() >= before, "{before} {reading:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(process.read().is_err());
    }
}
