//! Zones of a server that events remove and add again, or transfer.

use super::process::wait_until;
use super::server::Program;
use std::time::Duration;
use testbed::{ServedZone, Setup, ZoneChange, change_catalog, serves, transfer};

/// Time limit for the last node to show a change.
const SHOWN_MAX: Duration = Duration::from_secs(60);

/// The zones of a server, in the order of its hierarchy.
pub(super) struct Zones {
    setup: Setup,
    /// The zones that can be removed are those from this index on.
    first: usize,
    /// The number of zones that are served now. The last ones are removed first.
    served: usize,
}

impl Zones {
    /// All zones are served. Events change those of its hierarchy, which follow the first `first` ones.
    pub(super) fn new(setup: Setup, first: usize) -> Self {
        let served = setup.zones.len();
        Self { setup, first, served }
    }

    /// Removes the last zones of the hierarchy, or adds zones that were removed. Waits until the last node shows it.
    ///
    /// # Errors
    /// The server has fewer zones, or it did not change them. The text says why.
    pub(super) fn change(
        &mut self,
        program: &Program,
        change: ZoneChange,
        count: usize,
        is_stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), String> {
        let (from, to) = match change {
            ZoneChange::Remove => {
                let can_go = self.served - self.first;
                let from = self.served.checked_sub(count).filter(|from| *from >= self.first);
                let reason = format!("only {can_go} zones of its hierarchy are left, so {count} cannot be removed");
                (from.ok_or(reason)?, self.served)
            }
            ZoneChange::Add => {
                let gone = self.setup.zones.len() - self.served;
                let reason = format!("{gone} zones were removed, so {count} cannot be added again");
                (self.served, Some(self.served + count).filter(|_| count <= gone).ok_or(reason)?)
            }
        };
        if count == 0 {
            return Ok(());
        }
        let zones: Vec<(usize, ServedZone)> =
            (from..to).map(|index| (index, self.setup.zones[index].clone())).collect();
        self.request(program, change, &zones).map_err(|error| error.to_string())?;
        self.served = if change == ZoneChange::Add { to } else { from };
        self.wait_for(program, change, &zones, is_stopped)
    }

    /// Transfers the last zones that are served, from the last node.
    ///
    /// # Errors
    /// The server has fewer zones, or it did not transfer one. The text says why.
    pub(super) fn transfer(
        &self,
        program: &Program,
        count: usize,
        is_stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), String> {
        let zones = &self.setup.zones[..self.served];
        let first = zones.len().checked_sub(count).filter(|first| *first >= self.first);
        let first = first.ok_or_else(|| format!("it serves fewer than {count} zones of its hierarchy"))?;
        // An echo has no zones. It is measured beside the others.
        let Some(address) = program.last_address().filter(|_| count > 0) else { return Ok(()) };
        let key = self.setup.keys.first().ok_or("it has no key")?;
        let records = self.setup.launch.inside(|| transfer(address, key, &zones[first..], is_stopped));
        records.map(drop).map_err(|error| error.to_string())
    }

    fn request(&self, program: &Program, change: ZoneChange, zones: &[(usize, ServedZone)]) -> std::io::Result<()> {
        match (program, &self.setup.catalog, self.setup.keys.first()) {
            (Program::Nodes(nodes), ..) => {
                let zones: Vec<ServedZone> = zones.iter().map(|(_, zone)| zone.clone()).collect();
                nodes.change_zones(&zones, change)
            }
            (Program::Peers(_), Some(catalog), Some(key)) => {
                let primary = self.setup.address;
                self.setup.launch.inside(|| change_catalog(primary, key, catalog, zones, change))
            }
            // An echo has no zones. It is measured beside the others.
            (Program::Echo(_), ..) => Ok(()),
            (Program::Peers(_), ..) => {
                Err(std::io::Error::other("its zones cannot change; add `catalog`, or use catamaran"))
            }
        }
    }

    /// Waits until the last node answers for all of these zones, or for none. A query without a response is repeated.
    fn wait_for(
        &self,
        program: &Program,
        change: ZoneChange,
        zones: &[(usize, ServedZone)],
        is_stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), String> {
        let Some(address) = program.last_address() else { return Ok(()) };
        let wanted = Some(change == ZoneChange::Add);
        let mut waiting = zones;
        let is_over = wait_until(SHOWN_MAX, || {
            let skip_shown = || {
                while let Some(((_, zone), others)) = waiting.split_first() {
                    if serves(address, &zone.apex) != wanted {
                        break;
                    }
                    waiting = others;
                }
                Ok(())
            };
            let _asked = self.setup.launch.inside(skip_shown);
            is_stopped() || waiting.is_empty()
        });
        match waiting.first() {
            Some((_, zone)) if !is_over => {
                let seconds = SHOWN_MAX.as_secs();
                Err(format!(
                    "{address} does not show the change after {seconds} s; the first zone without it is {}",
                    zone.apex
                ))
            }
            _ => Ok(()),
        }
    }
}
