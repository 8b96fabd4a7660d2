//! A zone's serial never goes back on any member, across restarts too, nor when a zone is removed and added again
//! (ARCHITECTURE.md, Invariants). That it moves once for each effective update is in `refused_leaves_no_trace`.

use replica::io::NodeId;
use std::collections::BTreeMap;
use wire::number::Serial;
use zone::ZoneId;
use zone::set::SetVersion;

/// The serial that each member served last, by zone. Members forget on a crash; this does not.
#[derive(Debug, Default)]
pub(crate) struct SerialsNeverGoBack(BTreeMap<(NodeId, ZoneId), Serial>);

impl SerialsNeverGoBack {
    /// A member answers queries from these zones.
    pub(crate) fn on_served(&mut self, id: NodeId, published: &SetVersion<'_>) -> Result<(), String> {
        for zone in published.zones() {
            if let Some(serial) = zone.serial() {
                self.on_serial(id, zone.id(), serial)?;
            }
        }
        Ok(())
    }

    fn on_serial(&mut self, id: NodeId, zone: ZoneId, serial: Serial) -> Result<(), String> {
        let apex = zone.apex.clone();
        match self.0.insert((id, zone), serial) {
            Some(last) if last != serial && !serial.is_newer_than(last) => {
                Err(format!("{id} serves {apex} at {} after {}", serial.0, last.0))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_serial_that_goes_back_is_found() {
        let mut serials = SerialsNeverGoBack::default();
        let zone = || ZoneId { view: 0, apex: "example.test.".parse().unwrap() };
        for serial in [4_294_967_290, 4_294_967_290, 4_294_967_295, 1] {
            assert!(serials.on_serial(1, zone(), Serial(serial)).is_ok(), "{serial}");
        }
        assert!(serials.on_serial(2, zone(), Serial(4_294_967_290)).is_ok());
        assert!(serials.on_serial(1, zone(), Serial(4_294_967_290)).is_err());
    }
}
