//! A zone's serial never goes back on any member. This also holds across restarts, and when a zone is removed and added
//! again (ARCHITECTURE.md, Invariants). One exception: a member that started without a leader may not know which
//! serials it had published. It reports that it answers with old data. Once a leader confirms its data, its earlier
//! serials count again. `refused_leaves_no_trace` checks that a serial moves once for each effective update.

use replica::io::NodeId;
use std::collections::BTreeMap;
use wire::number::Serial;
use zone::ZoneId;
use zone::set::SetVersion;

/// The last serial that each member served, by zone. A member forgets it in a crash, this map does not.
#[derive(Debug, Default)]
pub(crate) struct SerialsNeverGoBack(BTreeMap<(NodeId, ZoneId), Serial>);

impl SerialsNeverGoBack {
    /// A member answers queries from these zones. `is_behind` is set if it reports that it may have served newer ones.
    pub(crate) fn on_served(&mut self, id: NodeId, is_behind: bool, published: &SetVersion<'_>) -> Result<(), String> {
        for zone in published.zones() {
            if let Some(serial) = zone.serial() {
                self.on_serial(id, is_behind, zone.id(), serial)?;
            }
        }
        Ok(())
    }

    /// The member's disk lost data without a trace, so the member does not know which serials it served.
    pub(crate) fn forget(&mut self, id: NodeId) {
        self.0.retain(|(member, _), _| *member != id);
    }

    /// The newest serial of a zone that any member served.
    pub(crate) fn newest(&self, zone: &ZoneId) -> Option<Serial> {
        let served = self.0.iter().filter(|((_, of), _)| of == zone).map(|(_, serial)| *serial);
        served.reduce(|one, other| if other.is_newer_than(one) { other } else { one })
    }

    fn on_serial(&mut self, id: NodeId, is_behind: bool, zone: ZoneId, serial: Serial) -> Result<(), String> {
        let apex = zone.apex.clone();
        let last = self.0.get(&(id, zone.clone()));
        if is_behind && last.is_some_and(|&last| last.is_newer_than(serial)) {
            return Ok(());
        }
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
            assert!(serials.on_serial(1, false, zone(), Serial(serial)).is_ok(), "{serial}");
        }
        assert!(serials.on_serial(2, false, zone(), Serial(4_294_967_290)).is_ok());
        // A member that reports old data may go back, but must return to its earlier serial.
        for serial in [4_294_967_290, 4_294_967_295] {
            assert!(serials.on_serial(1, true, zone(), Serial(serial)).is_ok());
        }
        assert!(serials.on_serial(1, false, zone(), Serial(4_294_967_295)).is_err());
    }
}
