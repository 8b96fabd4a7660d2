//! Reading for `catlab trace`, with progress.

use indicatif::{ProgressBar, ProgressStyle};
use std::error::Error;
use std::path::Path;
use std::time::Duration;
use trace::{Group, Message, Reader, Tally};
/// Passes each message to `each`, until it returns false. Returns false after reporting a damaged trace.
pub(crate) fn read(
    path: &Path,
    reader: &mut Reader,
    mut each: impl FnMut(&Message<'_>) -> Result<bool, Box<dyn Error>>,
) -> Result<bool, Box<dyn Error>> {
    let bar = ProgressBar::new_spinner()
        .with_style(ProgressStyle::with_template("{spinner} {human_pos} messages").expect("a template"));
    bar.enable_steady_tick(Duration::from_millis(200));
    let mut count = 0_u64;
    let is_whole = loop {
        match reader.next() {
            Ok(Some(message)) => {
                if !each(&message)? {
                    break true;
                }
                count += 1;
                if count.is_multiple_of(4_096) {
                    bar.set_position(count);
                }
            }
            Ok(None) => break true,
            Err(error) => {
                bar.finish_and_clear();
                eprintln!("{}: {error}; the {count} messages before that are kept", path.display());
                break false;
            }
        }
    };
    bar.finish_and_clear();
    Ok(is_whole)
}

/// Prints what could not be read and what was not selected.
pub(crate) fn print_lost(path: &Path, reader: &Reader) {
    let path = path.display();
    for (reason, count) in reader.tally().all_unread().filter(|(reason, _)| reason.group() != Group::NoMessage) {
        eprintln!("{path}: {}", reason.line(count));
    }
    if let Some(text) = stream_bytes(reader.tally()) {
        eprintln!("{path}: {text}");
    }
}

/// Describes missing and skipped data of TCP streams.
pub(super) fn stream_bytes(tally: &Tally) -> Option<String> {
    let (skipped, missing) = (tally.bytes_skipped, tally.bytes_missing);
    (skipped + missing > 0).then(|| {
        format!("TCP streams: {missing} bytes are missing, {skipped} bytes were skipped to find the next message")
    })
}
