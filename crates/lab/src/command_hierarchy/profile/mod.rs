//! What a resolver needs: its configuration, root hints, and how it is started.

use super::Settings;
use clap::ValueEnum;
use hierarchy::roots::ROOT_SERVERS;
use lab::limits::ANCHOR_BYTES_MAX;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use wire::Name;
use wire::number::Rtype;
use zone::file::{LoadOptions, Slice};
use zone::text::print_rdata;

/// Where the resolver answers.
pub(super) const ADDRESS: &str = "127.0.0.1";
/// And at which port.
pub(super) const PORT: u16 = 53;
/// The file of root hints.
const HINTS: &str = "root.hints";

/// A resolver that is known here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Resolver {
    /// Unbound.
    Unbound,
    /// BIND.
    Bind,
    /// PowerDNS Recursor.
    Pdns,
    /// Knot Resolver.
    Knot,
}

/// What is written for one.
pub(super) struct Profile {
    resolver: Resolver,
    folder: PathBuf,
    anchor: Option<Vec<Key>>,
    expired: bool,
    minimisation: Option<bool>,
    ipv4_only: bool,
    own_hints: bool,
}

/// A DS or DNSKEY record of the root.
struct Key {
    rtype: Rtype,
    /// Its rdata in presentation format, in words.
    words: Vec<String>,
}

impl Profile {
    pub(super) fn new(resolver: Resolver, settings: &Settings, folder: &Path) -> Result<Self, Box<dyn Error>> {
        if settings.expired && !matches!(resolver, Resolver::Unbound | Resolver::Bind) {
            return Err("cannot use --expired: only Unbound and BIND support it".into());
        }
        let anchor = settings.anchor.as_deref().map(read_anchor).transpose()?;
        let folder = std::path::absolute(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let Settings { expired, minimisation, ipv4_only, own_hints, .. } = *settings;
        Ok(Self { resolver, folder, anchor, expired, minimisation, ipv4_only, own_hints })
    }

    /// Writes configuration and root hints.
    pub(super) fn write(&self) -> Result<(), Box<dyn Error>> {
        fs::create_dir_all(&self.folder).map_err(|error| format!("{}: {error}", self.folder.display()))?;
        let text = match self.resolver {
            Resolver::Unbound => self.unbound(),
            Resolver::Bind => self.bind(),
            Resolver::Pdns => self.pdns(),
            Resolver::Knot => self.knot(),
        };
        let put =
            |path: PathBuf, text: &str| fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()));
        put(self.config(), &text)?;
        if self.resolver == Resolver::Pdns {
            put(self.folder.join("recursor.lua"), &self.pdns_lua())?;
        }
        if !self.own_hints {
            put(self.folder.join(HINTS), &hints())?;
        }
        Ok(())
    }

    /// The program and its arguments; it stays in the foreground and logs to standard error.
    pub(super) fn command(&self) -> Vec<String> {
        let (config, folder) = (self.config().display().to_string(), self.folder.display().to_string());
        let config_dir = format!("--config-dir={folder}");
        let words = match self.resolver {
            Resolver::Unbound => vec!["unbound", "-d", "-c", &config],
            Resolver::Bind if self.ipv4_only => vec!["named", "-g", "-4", "-c", &config],
            Resolver::Bind => vec!["named", "-g", "-c", &config],
            Resolver::Pdns => vec!["pdns_recursor", &config_dir],
            Resolver::Knot => vec!["kresd", "-n", "-c", &config, &folder],
        };
        words.into_iter().map(str::to_owned).collect()
    }

    pub(super) fn config(&self) -> PathBuf {
        self.folder.join(match self.resolver {
            Resolver::Unbound => "unbound.conf",
            Resolver::Bind => "named.conf",
            Resolver::Pdns => "recursor.conf",
            Resolver::Knot => "kresd.conf",
        })
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn hints_file(&self) -> Option<String> {
        (!self.own_hints).then(|| self.file(HINTS))
    }

    fn unbound(&self) -> String {
        let modules = if self.anchor.is_some() { "validator iterator" } else { "iterator" };
        let mut text = format!(
            "server:\n  interface: {ADDRESS}\n  port: {PORT}\n  access-control: 127.0.0.0/8 allow\n  \
             do-daemonize: no\n  use-syslog: no\n  logfile: \"\"\n  username: \"\"\n  chroot: \"\"\n  pidfile: \"\"\n  \
             directory: \"{}\"\n  module-config: \"{modules}\"\n",
            self.folder.display()
        );
        let mut line = |words: String| text.push_str(&format!("  {words}\n"));
        if let Some(hints) = self.hints_file() {
            line(format!("root-hints: \"{hints}\""));
        }
        if let Some(on) = self.minimisation {
            line(format!("qname-minimisation: {}", yes_no(on)));
        }
        if self.ipv4_only {
            line("do-ip6: no".to_owned());
        }
        if self.expired {
            // A date of its own for what is validated; this one is none, and all times are right.
            line("val-override-date: -1".to_owned());
        }
        for key in self.anchor.iter().flatten() {
            line(format!("trust-anchor: \". {:?} {}\"", key.rtype, key.words.join(" ")));
        }
        text.push_str("remote-control:\n  control-enable: no\n");
        text
    }

    fn bind(&self) -> String {
        let validation = yes_no(self.anchor.is_some());
        let mut text = format!(
            "options {{\n  directory \"{}\";\n  listen-on {{ {ADDRESS}; }};\n  listen-on-v6 {{ none; }};\n  \
             pid-file none;\n  session-keyfile none;\n  recursion yes;\n  dnssec-validation {validation};\n",
            self.folder.display()
        );
        if let Some(on) = self.minimisation {
            let _written = writeln!(text, "  qname-minimization {};", if on { "relaxed" } else { "off" });
        }
        if self.expired {
            text.push_str("  dnssec-accept-expired yes;\n");
        }
        text.push_str("};\ncontrols { };\n");
        if let Some(hints) = self.hints_file() {
            let _written = writeln!(text, "zone \".\" {{ type hint; file \"{hints}\"; }};");
        }
        if let Some(keys) = &self.anchor {
            text.push_str("trust-anchors {\n");
            for key in keys {
                let (numbers, rest) = key.words.split_at(key.words.len().min(3));
                let kind = if key.rtype == Rtype::DS { "static-ds" } else { "static-key" };
                let _written = writeln!(text, "  . {kind} {} \"{}\";", numbers.join(" "), rest.concat());
            }
            text.push_str("};\n");
        }
        text
    }

    fn pdns(&self) -> String {
        let sources = if self.ipv4_only { "0.0.0.0" } else { "0.0.0.0, ::" };
        let validation = if self.anchor.is_some() { "validate" } else { "off" };
        let mut text = format!(
            "local-address={ADDRESS}\nlocal-port={PORT}\nallow-from=127.0.0.0/8\ndaemon=no\nsocket-dir={folder}\n\
             query-local-address={sources}\ndont-query=\ndnssec={validation}\nsecurity-poll-suffix=\n\
             lua-config-file={lua}\n",
            folder = self.folder.display(),
            lua = self.file("recursor.lua"),
        );
        if let Some(hints) = self.hints_file() {
            let _written = writeln!(text, "hint-file={hints}");
        }
        if let Some(on) = self.minimisation {
            let _written = writeln!(text, "qname-minimization={}", yes_no(on));
        }
        text
    }

    fn pdns_lua(&self) -> String {
        let Some(keys) = &self.anchor else { return String::new() };
        let mut text = "clearTA('.')\n".to_owned();
        for key in keys.iter().filter(|key| key.rtype == Rtype::DS) {
            let _written = writeln!(text, "addTA('.', \"{}\")", key.words.join(" "));
        }
        text
    }

    fn knot(&self) -> String {
        let mut text = format!("net.listen('{ADDRESS}', {PORT}, {{ kind = 'dns' }})\ncache.size = 100 * MB\n");
        if self.ipv4_only {
            text.push_str("net.ipv6 = false\n");
        }
        if let Some(hints) = self.hints_file() {
            let _written = writeln!(text, "modules.load('hints > iterate')\nhints.root_file('{hints}')");
        }
        if self.minimisation == Some(false) {
            text.push_str("policy.add(policy.all(policy.FLAGS('NO_MINIMIZE')))\n");
        }
        // What it brings itself is the anchor of the real root.
        text.push_str("modules.unload('ta_update')\ntrust_anchors.remove('.')\n");
        for key in self.anchor.iter().flatten() {
            let _written = writeln!(text, "trust_anchors.add('. IN {:?} {}')", key.rtype, key.words.join(" "));
        }
        text
    }
}

/// The root hints, of all letters at the addresses of today.
fn hints() -> String {
    let mut text = String::new();
    for server in ROOT_SERVERS {
        let name = server.name();
        let [four, six] = server.addresses;
        let _written = write!(text, ". 3600000 NS {name}\n{name} 3600000 A {four}\n{name} 3600000 AAAA {six}\n");
    }
    text
}

/// The DS and DNSKEY records of a file.
fn read_anchor(path: &Path) -> Result<Vec<Key>, Box<dyn Error>> {
    let said = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let bytes = fs::metadata(path).map_err(|error| said(&error))?.len();
    if bytes > ANCHOR_BYTES_MAX {
        return Err(said(&format_args!("{bytes} bytes; the limit is {ANCHOR_BYTES_MAX}")).into());
    }
    let bytes = fs::read(path).map_err(|error| said(&error))?;
    let options = LoadOptions { ttl: Some(0), ..LoadOptions::default() };
    let loaded = zone::file::load(&mut Slice::new(bytes), Some(&Name::root()), &options);
    let records = loaded.map_err(|errors| said(&errors))?.records;
    let is_key = |rtype| matches!(rtype, Rtype::DS | Rtype::DNSKEY);
    let keys: Vec<Key> = records
        .iter()
        .filter(|record| is_key(record.rtype) && record.owner.is_root())
        .map(|record| {
            let mut text = String::new();
            print_rdata(record.rtype, record.rdata, &mut text);
            Key { rtype: record.rtype, words: text.split_whitespace().map(str::to_owned).collect() }
        })
        .collect();
    if keys.is_empty() {
        return Err(said(&"no DS or DNSKEY record of the root; write `. IN DS 20326 8 2 E06D...`").into());
    }
    Ok(keys)
}

const fn yes_no(on: bool) -> &'static str {
    if on { "yes" } else { "no" }
}

#[cfg(test)]
mod tests;
