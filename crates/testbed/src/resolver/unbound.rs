//! Unbound as a resolver.

use super::setup::{ADDRESS, PORT, ResolverSetup, yes_no};

/// The file `unbound.conf`.
pub(super) fn config(setup: &ResolverSetup) -> String {
    let modules = if setup.anchor.is_some() { "validator iterator" } else { "iterator" };
    let mut text = format!(
        "server:\n  interface: {ADDRESS}\n  port: {PORT}\n  access-control: 127.0.0.0/8 allow\n  \
         do-daemonize: no\n  use-syslog: no\n  logfile: \"\"\n  username: \"\"\n  chroot: \"\"\n  pidfile: \"\"\n  \
         directory: \"{}\"\n  module-config: \"{modules}\"\n",
        setup.folder.display()
    );
    let mut line = |words: String| text.push_str(&format!("  {words}\n"));
    if let Some(hints) = setup.hints_path() {
        line(format!("root-hints: \"{hints}\""));
    }
    if let Some(on) = setup.minimisation {
        line(format!("qname-minimisation: {}", yes_no(on)));
    }
    if setup.ipv4_only {
        line("do-ip6: no".to_owned());
    }
    if setup.accepts_expired {
        // -1 accepts signatures regardless of their validity period.
        line("val-override-date: -1".to_owned());
    }
    for key in setup.keys() {
        line(format!("trust-anchor: \". {:?} {}\"", key.rtype, key.words.join(" ")));
    }
    text.push_str("remote-control:\n  control-enable: no\n");
    text
}
