//! A linearizable read sees everything that any member had applied when it was asked for: only what was applied
//! somewhere can have been acknowledged.

use replica::io::NodeId;

/// It needs no memory: the question carries what must be seen.
#[derive(Debug, Default)]
pub(crate) struct ReadsSeeWhatWasAcknowledged;

impl ReadsSeeWhatWasAcknowledged {
    /// A read was confirmed at an index; at least `floor` was applied somewhere when it was asked for.
    pub(crate) fn on_read(&self, id: NodeId, index: u64, floor: u64) -> Result<(), String> {
        if index < floor {
            return Err(format!("{id} confirms a read at {index}, and {floor} was applied before it was asked"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_of_the_past_is_found() {
        assert!(ReadsSeeWhatWasAcknowledged.on_read(1, 7, 7).is_ok());
        assert!(ReadsSeeWhatWasAcknowledged.on_read(1, 6, 7).is_err());
    }
}
