//! CPU time of a thread.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// CPU time of the thread that opened it. The file stays open, because at the end the process may have reached its
/// limit of open files.
#[derive(Debug)]
pub(super) struct ThreadCpu(Option<File>);

impl ThreadCpu {
    /// Measures the calling thread.
    pub(super) fn of_this() -> Self {
        Self(File::open("/proc/thread-self/schedstat").ok())
    }

    /// User and system time so far. Zero if the kernel does not report it.
    pub(super) fn now(&self) -> Duration {
        let mut text = [0; 64];
        let read = self.0.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
        // Nanoseconds on a CPU, nanoseconds waiting for a CPU, and time slices.
        let on_cpu = std::str::from_utf8(&text[..read.unwrap_or(0)]).ok().and_then(|text| text.split(' ').next());
        Duration::from_nanos(on_cpu.and_then(|nanoseconds| nanoseconds.parse().ok()).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn cpu_time_grows_with_work() {
        let cpu = ThreadCpu::of_this();
        if cpu.0.is_none() {
            skip::platform("CPU time of a thread");
            return;
        }
        let mut before = cpu.now();
        for _ in 0..3 {
            let start = Instant::now();
            // A busy machine may give this thread little of that time.
            while cpu.now() < before + Duration::from_millis(5) {
                assert!(start.elapsed() < Duration::from_secs(20), "{:?}", cpu.now());
            }
            before = cpu.now();
        }
    }
}
