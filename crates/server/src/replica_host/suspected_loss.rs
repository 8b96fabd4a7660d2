//! The file `data.doubt`: entries that may be missing in the node's log. A leader contradicted the log, or a torn last
//! record was cut off. Until that is resolved, the node votes only for nodes that have the entries. Older builds read
//! the file too, so its name and format stay.
//!
//! The node removes the file once no acknowledged entry is missing. An operator may remove it if a leader lied, or if
//! the nodes that could resolve it are permanently lost.

use config::files::layout::suspected_loss_of;
use config::files::{Readers, read_optional, write_atomic};
use replica::io::SuspectedLoss;
use std::io;
use std::path::Path;

/// Maximum size: a line of numbers, and one or two sentences.
const FILE_BYTES_MAX: u64 = 2_048;
/// Prefix of the line of numbers.
const MAGIC: &str = "doubt";

/// The contents of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrittenLoss {
    pub(crate) loss: SuspectedLoss,
    pub(crate) why: String,
}

/// Writes the file.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn write(dir: &Path, loss: SuspectedLoss, why: &str) -> io::Result<()> {
    let kind = if loss.is_diverged { "diverged" } else { "lost" };
    // Older builds ignore the cause. They wait for a leader to resolve the loss.
    let cause = if loss.is_torn { " cause=torn" } else { "" };
    let text = format!("{MAGIC} term={} index={} kind={kind}{cause}\n{why}\n", loss.term, loss.index);
    write_atomic(&suspected_loss_of(dir), text.as_bytes(), Readers::All)
}

/// Explains why the log may lack entries after its torn last record was cut off.
pub(super) fn torn_record(loss: SuspectedLoss) -> String {
    let entries = match loss.index {
        u64::MAX => "its entries".to_owned(),
        index => format!("entries up to {index}"),
    };
    format!(
        "the last record of the log was incomplete and was cut off. If a crash interrupted the write, nothing is \
         missing. If the disk lost a part of the record later, {entries} may have been acknowledged"
    )
}

/// Reads the file, if it exists.
///
/// [`io::Error`]: the file cannot be read or parsed.
pub(crate) fn read(dir: &Path) -> io::Result<Option<WrittenLoss>> {
    let Some(bytes) = read_optional(&suspected_loss_of(dir), FILE_BYTES_MAX)? else { return Ok(None) };
    let text = String::from_utf8_lossy(&bytes);
    parse(&text).map(Some).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "cannot parse its first line"))
}

fn parse(text: &str) -> Option<WrittenLoss> {
    let (numbers, why) = text.split_once('\n')?;
    let mut words = numbers.split(' ');
    let mut field = |name: &str| words.next()?.strip_prefix(name);
    field(MAGIC).filter(|rest| rest.is_empty())?;
    let term = field("term=")?.parse().ok()?;
    let index = field("index=")?.parse().ok()?;
    let is_diverged = match field("kind=")? {
        "lost" => false,
        "diverged" => true,
        _ => return None,
    };
    let is_torn = match words.next() {
        None => false,
        Some("cause=torn") => true,
        Some(_) => return None,
    };
    Some(WrittenLoss { loss: SuspectedLoss { term, index, is_diverged, is_torn }, why: why.trim_end().to_owned() })
}

/// Removes the file.
///
/// # Errors
/// When the file cannot be removed.
pub(crate) fn clear(dir: &Path) -> io::Result<()> {
    match std::fs::remove_file(suspected_loss_of(dir)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspected_loss_is_read_back_until_it_is_resolved() {
        let dir = process::testing::test_dir("doubt");
        let data = dir.path().join("data");
        assert_eq!(read(&data).unwrap(), None);
        clear(&data).unwrap();
        for (is_diverged, is_torn) in [(false, false), (true, false), (false, true)] {
            let loss = SuspectedLoss { term: 7, index: 1 << 40, is_diverged, is_torn };
            write(&data, loss, "a reason").unwrap();
            assert_eq!(read(&data).unwrap(), Some(WrittenLoss { loss, why: "a reason".into() }));
        }
        clear(&data).unwrap();
        assert_eq!(read(&data).unwrap(), None);
        for text in [
            "",
            "doubt term=1 index=2 kind=lost",
            "doubts term=1 index=2 kind=lost\n",
            "doubt term=-1 index=2 kind=lost\n",
            "doubt term=1 index=2 kind=lost cause=unknown\n",
        ] {
            std::fs::write(suspected_loss_of(&data), text).unwrap();
            assert!(read(&data).is_err(), "{text}");
        }
    }
}
