//! Recorded traffic: the exact bytes of queries.

mod capture;
mod dnsperf;
mod file;
mod rpl;

pub use capture::read_pcap;
pub use dnsperf::read_dnsperf;
pub use file::{Recorded, TraceError, read_whole};
pub use rpl::read_rpl_raw;

use std::path::Path;

/// Reads every message of a trace. The file name decides the format: `.dnsperf`, `.rpl`, otherwise a capture. Each may
/// be compressed as `.xz`.
///
/// # Errors
/// Those of the format's reader.
pub fn read_any(path: &Path) -> Result<Vec<Recorded>, TraceError> {
    let name = path.to_string_lossy();
    let name = name.trim_end_matches(".xz");
    if name.ends_with(".dnsperf") {
        read_dnsperf(path)
    } else if name.ends_with(".rpl") {
        read_rpl_raw(path)
    } else {
        read_pcap(path)
    }
}
