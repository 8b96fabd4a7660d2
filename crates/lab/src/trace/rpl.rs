//! Raw messages of a replay scenario: hexadecimal lines after `RAW`.

use super::{Recorded, TraceError, Transport, read_whole};
use std::path::Path;

/// Every `RAW` message of the scenario.
///
/// # Errors
/// [`TraceError`] for the file, or a raw line that is no hexadecimal text.
pub fn read_rpl_raw(path: &Path) -> Result<Vec<Recorded>, TraceError> {
    let text = String::from_utf8_lossy(&read_whole(path)?).into_owned();
    let mut messages = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((_, line)) = lines.next() {
        if line.trim() != "RAW" {
            continue;
        }
        let Some((index, hex)) = lines.next() else { break };
        let bytes = data_encoding::HEXLOWER_PERMISSIVE
            .decode(hex.trim().as_bytes())
            .map_err(|error| TraceError::Format("rpl", format!("line {}: {error}", index + 1)))?;
        messages.push(Recorded { transport: Transport::Udp, bytes });
    }
    Ok(messages)
}
