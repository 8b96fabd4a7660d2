//! A process: CPU, memory, threads, switches, its control group's throttling, its sockets.

use super::Reading;
use super::cgroup::Cgroup;
use super::sockets::Sockets;
use std::fmt;
use std::fs;
use std::io;

/// Clock ticks of a second in the figures of `/proc`: 100 on every Linux (proc_pid_stat(5), `USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// A process that is watched.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    /// The group whose quota holds it back; `None` where there is none.
    cgroup: Option<Cgroup>,
    sockets: Sockets,
}

impl Process {
    /// The process with this id.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn new(pid: u32) -> io::Result<Self> {
        let process = Self { pid, cgroup: Cgroup::of_process(pid), sockets: Sockets::new(pid) };
        process.stat()?;
        Ok(process)
    }

    pub(super) fn read(&mut self) -> io::Result<Reading> {
        let mut reading = Reading::default();
        let stat = self.stat()?;
        // Fields 14, 15 and 20 of proc_pid_stat(5); the second is a name in brackets that may hold anything.
        let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<u64>().ok());
        reading.cpu_seconds = field(14).zip(field(15)).map(|(user, system)| (user + system) as f64 / TICKS_PER_SECOND);
        reading.threads = field(20);
        let status = fs::read_to_string(self.path("status"))?;
        reading.rss_bytes = line(&status, "VmRSS:").map(|kibibytes| kibibytes * 1_024);
        let mut voluntary = 0;
        let mut involuntary = 0;
        for task in fs::read_dir(self.path("task"))? {
            // A thread may end between the two calls.
            let Ok(status) = fs::read_to_string(task?.path().join("status")) else { continue };
            voluntary += line(&status, "voluntary_ctxt_switches:").unwrap_or_default();
            involuntary += line(&status, "nonvoluntary_ctxt_switches:").unwrap_or_default();
        }
        reading.voluntary_switches = Some(voluntary);
        reading.involuntary_switches = Some(involuntary);
        reading.throttled_seconds = self.cgroup.as_ref().and_then(Cgroup::throttled_seconds);
        self.sockets.read(&mut reading)?;
        Ok(reading)
    }

    fn path(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.pid)
    }

    fn stat(&self) -> io::Result<String> {
        fs::read_to_string(self.path("stat"))
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid {}", self.pid)
    }
}

fn line(status: &str, label: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix(label)?.split_ascii_whitespace().next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn this_process_is_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let clients: Vec<_> = (0..3).map(|_| TcpStream::connect(listener.local_addr().unwrap()).unwrap()).collect();
        let servers: Vec<_> = (0..3).map(|_| listener.accept().unwrap()).collect();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut process = Process::new(std::process::id()).unwrap();
        let before = process.read().unwrap();
        assert!(before.tcp_states.get("ESTABLISHED").is_some_and(|&count| count >= 3), "{before:?}");
        assert!(before.rss_bytes.unwrap() > 1 << 20 && before.threads.unwrap() >= 2, "{before:?}");
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        // More than any default buffer holds: the kernel throws the rest away.
        for _ in 0..4_000 {
            sender.send_to(&[0; 1_000], socket.local_addr().unwrap()).unwrap();
        }
        let used = |now: &Reading| now.cpu_seconds.unwrap() - before.cpu_seconds.unwrap();
        let start = std::time::Instant::now();
        let mut after = process.read().unwrap();
        // On a machine that does other things too it takes longer.
        while used(&after) < 0.05 && start.elapsed().as_secs() < 10 {
            after = process.read().unwrap();
        }
        assert!(after.udp_drops.unwrap() > before.udp_drops.unwrap() + 1_000, "{after:?}");
        assert!(used(&after) >= 0.05, "{}", used(&after));
        drop((clients, servers));
    }
}
