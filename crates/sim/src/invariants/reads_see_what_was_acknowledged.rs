//! A linearizable read sees everything that any member had applied at the time of the request. Only applied entries
//! can have been acknowledged.

use replica::io::NodeId;

/// It has no state: the request carries the index that the read must see.
#[derive(Debug, Default)]
pub(crate) struct ReadsSeeWhatWasAcknowledged;

impl ReadsSeeWhatWasAcknowledged {
    /// A read was confirmed at an index. When it was requested, some member had applied at least `floor`.
    pub(crate) fn on_read(&self, id: NodeId, index: u64, floor: u64) -> Result<(), String> {
        if index < floor {
            return Err(format!("{id} confirms a read at {index}, and {floor} was applied before it was requested"));
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
