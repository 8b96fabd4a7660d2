//! Raw messages of a replay scenario: hexadecimal lines after `RAW`.

use super::file::{Recorded, TraceError, read_whole};
use std::path::Path;
use trace::Transport;

/// Reads every `RAW` message of a scenario.
///
/// # Errors
/// [`TraceError`] if the file cannot be read, or if a raw line is not hexadecimal.
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
