//! The zone of the bench.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// The updated zone.
pub(crate) const APEX: &str = "write.test.";

/// Writes a zone file with this many names.
pub(crate) fn make_zone(folder: &Path, names: u64) -> Result<PathBuf, String> {
    let file = folder.join("zone");
    let wrong = |error: std::io::Error| format!("{}: {error}", file.display());
    let mut out = BufWriter::new(File::create(&file).map_err(wrong)?);
    let soa = format!("{APEX} 300 IN SOA ns.{APEX} host.{APEX} 1 7200 900 99999 300");
    writeln!(out, "{soa}\n{APEX} 300 IN NS ns.{APEX}\nns.{APEX} 300 IN A 192.0.2.1").map_err(wrong)?;
    for number in 0..names {
        let address = Ipv4Addr::from(0x0A00_0000 | (number as u32 & 0x00FF_FFFF));
        writeln!(out, "q{number}.{APEX} 300 IN A {address}").map_err(wrong)?;
    }
    out.flush().map_err(wrong)?;
    Ok(file)
}
