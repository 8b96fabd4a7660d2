//! A folder to zones that answer.

use super::directory::Directory;
use super::emulator::Emulator;
use crate::limits::EDITED_ZONES_MAX;
use crate::roots::{ROOT_SERVERS, RootServer};
use crate::{Folder, ZoneEntry, read_zone};
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use wire::name::Name;
use zone::file::Loaded;
use zone::record::ZoneId;
use zone::set::{Edit, ImportError, StoreConfig, ZoneSet, ZoneSetConfig};

/// The zones of a hierarchy, and who serves them.
pub struct Emulation {
    zones: ZoneSet,
    directory: Arc<Directory>,
}

impl Emulation {
    /// Reads all zones of a folder. Where it has a root, all addresses that servers of the root have or had are that
    /// root's, besides those that the folder names: whichever of them a resolver knows, it finds the root there.
    ///
    /// # Errors
    /// The folder or a zone cannot be read, or is none: which file, which line, and what is wrong.
    pub fn load(folder: &Path) -> io::Result<Self> {
        let Folder { zones: entries, behaviors, .. } = Folder::read(folder)?;
        // Small pages: most zones are small, and there may be very many.
        let store = StoreConfig { huge_pages: false, ..StoreConfig::default() };
        let mut zones = ZoneSet::new(ZoneSetConfig { store })
            .map_err(|error| io::Error::other(format!("no room for zones: {error}")))?;
        let mut served = Vec::with_capacity(entries.len());
        for some in entries.chunks(EDITED_ZONES_MAX) {
            let mut edit = zones.edit();
            for entry in some {
                let apex = load_zone(&mut edit, folder, entry)?;
                let mut addresses = entry.servers.clone();
                if apex.as_ref().is_root() {
                    addresses.extend(root_addresses());
                }
                served.push((apex, addresses));
            }
            let version = edit.seal();
            zones.publish(version);
            while zones.reclaim() {}
        }
        Ok(Self { zones, directory: Arc::new(Directory::new(served, &behaviors)) })
    }

    /// Answers, for one thread. With `keeps_upstream` it remembers each question.
    #[must_use]
    pub fn emulator(&self, keeps_upstream: bool) -> Emulator {
        Emulator::new(self.zones.reader(), Arc::clone(&self.directory), keeps_upstream)
    }

    /// Which address serves which zones.
    #[must_use]
    pub fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }
}

/// Every address that a server of the root has or had.
fn root_addresses() -> impl Iterator<Item = IpAddr> {
    let of = |server: RootServer| server.addresses.into_iter().chain(server.past.iter().copied());
    ROOT_SERVERS.into_iter().flat_map(of).filter_map(|text| text.parse().ok())
}

/// Puts a zone file into the set; gives its apex in lower case.
fn load_zone(edit: &mut Edit<'_>, folder: &Path, entry: &ZoneEntry) -> io::Result<Name> {
    let path = folder.join(&entry.file);
    let wrong = |what: &dyn Display| io::Error::new(ErrorKind::InvalidData, format!("{}: {what}", path.display()));
    let loaded = read_zone(folder, entry)?;
    let id = ZoneId { view: 0, apex: loaded.apex.as_ref().to_canonical() };
    edit.add_records(&id, loaded.records.iter()).map_err(|error| wrong(&describe(&loaded, error)))?;
    edit.commit_stage(&id).map_err(|error| wrong(&error))?;
    Ok(id.apex)
}

/// A record that cannot be taken, by its line.
fn describe(loaded: &Loaded, error: ImportError) -> String {
    match error {
        ImportError::Record { index, fault } => {
            let line = loaded.places.get(index).map_or(0, |place| place.line);
            format!("line {line}: {}: {fault}", loaded.records.get(index).owner)
        }
        ImportError::Full(_) => error.to_string(),
    }
}
