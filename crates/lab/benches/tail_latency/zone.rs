//! The zone of the bench.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// The zone's apex.
pub(crate) const APEX: &str = "example.";

/// Writes a zone file with this many names. Returns its path.
pub(crate) fn make_zone(folder: &Path, names: u64) -> Result<PathBuf, String> {
    let file = folder.join("zone");
    let wrong = |error: std::io::Error| format!("{}: {error}", file.display());
    let mut out = BufWriter::new(File::create(&file).map_err(wrong)?);
    // Names are relative, so that the file also fits another zone.
    out.write_all(b"$TTL 300\n@ SOA ns host 1 7200 900 99999 300\n@ NS ns\nns A 192.0.2.1\n").map_err(wrong)?;
    for number in 0..names {
        let address = Ipv4Addr::from(0x0A00_0000 | (number as u32 & 0x00FF_FFFF));
        writeln!(out, "q{number} A {address}").map_err(wrong)?;
    }
    out.flush().map_err(wrong)?;
    Ok(file)
}
