//! A hierarchy on disk: a zone file for each zone, and `hierarchy.json` with the servers of each zone.

use crate::limits::{BEHAVIORS_MAX, INDEX_BYTES_MAX, SERVERS_OF_ZONE_MAX, ZONES_MAX};
use crate::{ServerBehavior, refuse_stream};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Version of the format of `hierarchy.json`.
const FORM: u32 = 1;

/// Name of the index in its folder.
const INDEX: &str = "hierarchy.json";

/// Longer file names are cut and get a number.
const FILE_NAME_BYTES_MAX: usize = 200;

/// Contents of `hierarchy.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Folder {
    form: u32,
    /// The zones, in any order, without duplicates.
    pub zones: Vec<ZoneEntry>,
    /// Servers that behave differently from ours, by address. Older files call the field `manners`.
    #[serde(default, alias = "manners", skip_serializing_if = "BTreeMap::is_empty")]
    pub behaviors: BTreeMap<IpAddr, ServerBehavior>,
}

/// One zone of a hierarchy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneEntry {
    /// Its apex in presentation format, absolute and in lower case: `example.com.`, or `.`.
    pub name: String,
    /// Its zone file, relative to the folder.
    pub file: PathBuf,
    /// Addresses of all its servers, IPv4 and IPv6.
    pub servers: Vec<IpAddr>,
}

impl Folder {
    /// A hierarchy of these zones.
    #[must_use]
    pub const fn new(zones: Vec<ZoneEntry>) -> Self {
        Self { form: FORM, zones, behaviors: BTreeMap::new() }
    }

    /// A hierarchy with the behavior of its servers.
    #[must_use]
    pub fn with_behaviors(self, behaviors: BTreeMap<IpAddr, ServerBehavior>) -> Self {
        Self { behaviors, ..self }
    }

    /// Reads the index of a folder.
    ///
    /// # Errors
    ///
    /// The index is missing or malformed, exceeds a limit, has a duplicate zone, or names a file outside the folder.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let path = folder.join(INDEX);
        let with_path = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        refuse_stream(&path)?;
        let file = File::open(&path).map_err(|error| io::Error::new(error.kind(), with_path(&error)))?;
        let read: Self = serde_json::from_reader(BufReader::new(file.take(INDEX_BYTES_MAX)))
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, with_path(&error)))?;
        read.check().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, with_path(&error)))?;
        Ok(read)
    }

    /// Writes the index into a folder, and makes the folder if needed. An existing index is replaced atomically.
    ///
    /// # Errors
    ///
    /// The folder cannot be made or written.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        self.check().map_err(io::Error::other)?;
        fs::create_dir_all(folder)?;
        let unfinished = folder.join(format!("{INDEX}.unfinished"));
        let mut file = BufWriter::new(File::create(&unfinished)?);
        serde_json::to_writer_pretty(&mut file, self)?;
        file.write_all(b"\n")?;
        file.flush()?;
        fs::rename(unfinished, folder.join(INDEX))
    }

    fn check(&self) -> Result<(), String> {
        if self.form != FORM {
            return Err(format!("its format has version {}; this program reads version {FORM}", self.form));
        }
        if self.zones.len() > ZONES_MAX {
            return Err(format!("{} zones; at most {ZONES_MAX} are allowed", self.zones.len()));
        }
        if self.behaviors.len() > BEHAVIORS_MAX {
            return Err(format!("behaviors of {} servers; at most {BEHAVIORS_MAX} are allowed", self.behaviors.len()));
        }
        let mut names: Vec<&str> = self.zones.iter().map(|zone| zone.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("the zone {} is listed twice", twice[0]));
        }
        for zone in &self.zones {
            if !zone.name.ends_with('.') {
                return Err(format!("the zone {} is not absolute: a final dot is missing", zone.name));
            }
            if zone.servers.len() > SERVERS_OF_ZONE_MAX {
                let count = zone.servers.len();
                return Err(format!(
                    "the zone {} has {count} servers; at most {SERVERS_OF_ZONE_MAX} are allowed",
                    zone.name
                ));
            }
            let is_inside = zone.file.components().all(|part| matches!(part, std::path::Component::Normal(_)));
            if !is_inside || zone.file.as_os_str().is_empty() {
                return Err(format!("the file {} of {} is outside the folder", zone.file.display(), zone.name));
            }
        }
        Ok(())
    }
}

/// The file of a zone, relative to the folder, such as `zones/example.com.zone` or `zones/root.zone`. Unsafe characters
/// are written as `%` and two digits. `number` must be unique in the folder: it distinguishes names that are too long
/// for a file name.
#[must_use]
pub fn file_name(zone: &str, number: usize) -> PathBuf {
    let stem = zone.strip_suffix('.').unwrap_or(zone);
    if stem.is_empty() {
        return "zones/root.zone".into();
    }
    let mut name = String::with_capacity(stem.len() + 5);
    for byte in stem.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
            b'.' if !name.is_empty() => name.push('.'),
            _ => name.push_str(&format!("%{byte:02x}")),
        }
    }
    if name == "root" {
        // A top-level domain `root` must not get the file of the root.
        name = "%72oot".to_owned();
    }
    if name.len() > FILE_NAME_BYTES_MAX {
        name.truncate(FILE_NAME_BYTES_MAX);
        name.push_str(&format!("%%{number}"));
    }
    Path::new("zones").join(format!("{name}.zone"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> ZoneEntry {
        ZoneEntry { name: name.to_owned(), file: file_name(name, 0), servers: vec!["192.0.2.1".parse().unwrap()] }
    }

    #[test]
    fn a_written_folder_is_read_back() {
        let dir = std::env::temp_dir().join(format!("catlab-folder-{}", std::process::id()));
        let folder = Folder::new(vec![entry("."), entry("example.com.")]);
        folder.write(&dir).unwrap();
        assert_eq!(Folder::read(&dir).unwrap(), folder);
        fs::write(dir.join(INDEX), "{\"form\":2,\"zones\":[]}").unwrap();
        assert!(
            Folder::read(&dir)
                .unwrap_err()
                .to_string()
                .contains("its format has version 2; this program reads version 1")
        );
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(Folder::read(&dir).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_old_name_of_behaviors_is_read() {
        let text = r#"{"form":1,"zones":[],"manners":{"192.0.2.1":{"ns_in_answers":true}}}"#;
        let folder: Folder = serde_json::from_str(text).unwrap();
        assert!(folder.behaviors[&"192.0.2.1".parse::<IpAddr>().unwrap()].ns_in_answers);
        let json = serde_json::to_string(&folder).unwrap();
        assert!(json.contains(r#""behaviors":{"192.0.2.1":{"ns_in_answers":true}}"#), "{json}");
    }

    #[test]
    fn contradictory_folders_are_rejected() {
        let refused = |zones: Vec<ZoneEntry>| Folder::new(zones).check().unwrap_err();
        assert!(refused(vec![entry("a."), entry("a.")]).contains("twice"));
        assert!(refused(vec![entry("a")]).contains("not absolute"));
        for outside in ["../x", "/etc/passwd", ""] {
            let zone = ZoneEntry { file: outside.into(), ..entry("a.") };
            assert!(refused(vec![zone]).contains("outside"), "{outside}");
        }
        let many = ZoneEntry { servers: vec!["192.0.2.1".parse().unwrap(); SERVERS_OF_ZONE_MAX + 1], ..entry("a.") };
        assert!(refused(vec![many]).contains("servers"));
    }

    #[test]
    fn zone_file_names_are_distinct_and_within_the_folder() {
        let names = [".", "root.", "example.com.", "a\\046b.", "a/b.", "%72oot.", "..", "-.", "\\.x."];
        let mut files: Vec<_> = names.iter().map(|name| file_name(name, 0)).collect();
        for file in &files {
            assert_eq!(file.components().count(), 2, "{}", file.display());
        }
        files.sort();
        files.dedup();
        assert_eq!(files.len(), names.len());
        let long = "a".repeat(60) + "." + &"b.".repeat(90);
        assert_ne!(file_name(&long, 1), file_name(&long, 2));
    }
}
