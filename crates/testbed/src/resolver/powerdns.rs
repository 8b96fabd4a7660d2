//! PowerDNS Recursor.

use super::setup::{ADDRESS, PORT, ResolverSetup, yes_no};
use std::fmt::Write as _;
use wire::number::Rtype;

/// The name of the second configuration file.
pub(super) const LUA: &str = "recursor.lua";

/// The file `recursor.conf`.
pub(super) fn config(setup: &ResolverSetup) -> String {
    let sources = if setup.ipv4_only { "0.0.0.0" } else { "0.0.0.0, ::" };
    let validation = if setup.anchor.is_some() { "validate" } else { "off" };
    let mut text = format!(
        "local-address={ADDRESS}\nlocal-port={PORT}\nallow-from=127.0.0.0/8\ndaemon=no\nsocket-dir={folder}\n\
         query-local-address={sources}\ndont-query=\ndnssec={validation}\nsecurity-poll-suffix=\n\
         lua-config-file={lua}\n",
        folder = setup.folder.display(),
        lua = setup.folder.join(LUA).display(),
    );
    if let Some(hints) = setup.hints_path() {
        let _written = writeln!(text, "hint-file={hints}");
    }
    if let Some(on) = setup.minimisation {
        let _written = writeln!(text, "qname-minimization={}", yes_no(on));
    }
    text
}

/// The file [`LUA`]: the anchor.
pub(super) fn lua(setup: &ResolverSetup) -> String {
    let Some(keys) = &setup.anchor else { return String::new() };
    let mut text = "clearTA('.')\n".to_owned();
    for key in keys.iter().filter(|key| key.rtype == Rtype::DS) {
        let _written = writeln!(text, "addTA('.', \"{}\")", key.words.join(" "));
    }
    text
}
