//! The files of a resolver: its configuration, and root hints.

use super::options::{ResolverArgument, Settings};
use hierarchy::roots::ROOT_SERVERS;
use lab::limits::ANCHOR_BYTES_MAX;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use testbed::resolver::{Resolver, ResolverSetup, RootKey};
use wire::Name;
use wire::number::Rtype;
use zone::file::{LoadOptions, Slice};
use zone::text::print_rdata;

/// The file of root hints.
const HINTS: &str = "root.hints";

/// The files and settings of a resolver.
pub(super) struct Profile {
    resolver: Resolver,
    setup: ResolverSetup,
}

impl Profile {
    pub(super) fn new(argument: ResolverArgument, settings: &Settings, folder: &Path) -> Result<Self, Box<dyn Error>> {
        let resolver = argument.resolver();
        if settings.expired && !matches!(resolver, Resolver::Unbound | Resolver::Bind) {
            return Err("cannot use --expired: only Unbound and BIND support it".into());
        }
        let anchor = settings.anchor.as_deref().map(read_anchor).transpose()?;
        let folder = std::path::absolute(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let setup = ResolverSetup {
            hints: (!settings.own_hints).then(|| folder.join(HINTS)),
            folder,
            anchor,
            accepts_expired: settings.expired,
            minimisation: settings.minimisation,
            ipv4_only: settings.ipv4_only,
        };
        Ok(Self { resolver, setup })
    }

    /// Writes configuration and root hints.
    pub(super) fn write(&self) -> Result<(), Box<dyn Error>> {
        let folder = &self.setup.folder;
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let put =
            |path: &Path, text: &str| fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()));
        for (name, text) in self.resolver.files(&self.setup) {
            put(&folder.join(name), &text)?;
        }
        if let Some(path) = &self.setup.hints {
            put(path, &hints())?;
        }
        Ok(())
    }

    /// The program and its arguments. It runs in the foreground and logs to standard error.
    pub(super) fn command(&self) -> Vec<String> {
        self.resolver.command(&self.setup)
    }

    pub(super) fn config(&self) -> PathBuf {
        self.setup.folder.join(self.resolver.config_name())
    }
}

/// The root hints: all root servers at their current addresses.
fn hints() -> String {
    let mut text = String::new();
    for server in ROOT_SERVERS {
        let name = server.name();
        let [four, six] = server.addresses;
        let _written = write!(text, ". 3600000 NS {name}\n{name} 3600000 A {four}\n{name} 3600000 AAAA {six}\n");
    }
    text
}

/// Reads DS and DNSKEY records from a file.
fn read_anchor(path: &Path) -> Result<Vec<RootKey>, Box<dyn Error>> {
    let with_path = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let bytes = fs::metadata(path).map_err(|error| with_path(&error))?.len();
    if bytes > ANCHOR_BYTES_MAX {
        return Err(with_path(&format_args!("{bytes} bytes; the limit is {ANCHOR_BYTES_MAX}")).into());
    }
    let bytes = fs::read(path).map_err(|error| with_path(&error))?;
    let options = LoadOptions { ttl: Some(0), ..LoadOptions::default() };
    let loaded = zone::file::load(&mut Slice::new(bytes), Some(&Name::root()), &options);
    let records = loaded.map_err(|errors| with_path(&errors))?.records;
    let is_key = |rtype| matches!(rtype, Rtype::DS | Rtype::DNSKEY);
    let keys: Vec<RootKey> = records
        .iter()
        .filter(|record| is_key(record.rtype) && record.owner.is_root())
        .map(|record| {
            let mut text = String::new();
            print_rdata(record.rtype, record.rdata, &mut text);
            RootKey { rtype: record.rtype, words: text.split_whitespace().map(str::to_owned).collect() }
        })
        .collect();
    if keys.is_empty() {
        return Err(with_path(&"no DS or DNSKEY record of the root; write `. IN DS 20326 8 2 E06D...`").into());
    }
    Ok(keys)
}

#[cfg(test)]
mod tests;
