//! Loads the zones of a folder.

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

/// The zones and servers of a hierarchy.
pub struct Emulation {
    zones: ZoneSet,
    directory: Arc<Directory>,
}

impl Emulation {
    /// Reads all zones of a folder. If there is a root, it also answers at all current and former addresses of the root
    /// servers, so that any root hints work.
    ///
    /// # Errors
    ///
    /// The folder or a zone cannot be read or is malformed. The error names file, line and reason.
    pub fn load(folder: &Path) -> io::Result<Self> {
        let Folder { zones: entries, behaviors, .. } = Folder::read(folder)?;
        // Small pages, because there may be many small zones.
        let store = StoreConfig { huge_pages: false, ..StoreConfig::default() };
        let mut zones = ZoneSet::new(ZoneSetConfig { store })
            .map_err(|error| io::Error::other(format!("no room for zones: {error}")))?;
        let mut served = Vec::with_capacity(entries.len());
        for batch in entries.chunks(EDITED_ZONES_MAX) {
            let mut edit = zones.edit();
            for entry in batch {
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

    /// An emulator for one thread. With `keeps_upstream` it records each query.
    #[must_use]
    pub fn emulator(&self, keeps_upstream: bool) -> Emulator {
        Emulator::new(self.zones.reader(), Arc::clone(&self.directory), keeps_upstream)
    }

    /// Maps addresses to zones.
    #[must_use]
    pub fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }
}

/// All current and former addresses of the root servers.
fn root_addresses() -> impl Iterator<Item = IpAddr> {
    let of = |server: RootServer| server.addresses.into_iter().chain(server.past.iter().copied());
    ROOT_SERVERS.into_iter().flat_map(of).filter_map(|text| text.parse().ok())
}

/// Loads a zone file. Returns the apex in lower case.
fn load_zone(edit: &mut Edit<'_>, folder: &Path, entry: &ZoneEntry) -> io::Result<Name> {
    let path = folder.join(&entry.file);
    let file_error = |what: &dyn Display| io::Error::new(ErrorKind::InvalidData, format!("{}: {what}", path.display()));
    let loaded = read_zone(folder, entry)?;
    let id = ZoneId { view: 0, apex: loaded.apex.as_ref().to_canonical() };
    edit.add_records(&id, loaded.records.iter()).map_err(|error| file_error(&describe(&loaded, error)))?;
    edit.commit_stage(&id).map_err(|error| file_error(&error))?;
    Ok(id.apex)
}

/// The error for a record that cannot be imported, with its line.
fn describe(loaded: &Loaded, error: ImportError) -> String {
    match error {
        ImportError::Record { index, fault } => {
            let line = loaded.locations.get(index).map_or(0, |location| location.line);
            format!("line {line}: {}: {fault}", loaded.records.get(index).owner)
        }
        ImportError::Full(_) => error.to_string(),
    }
}
