//! BIND as a resolver.

use super::setup::{ADDRESS, ResolverSetup, yes_no};
use std::fmt::Write as _;
use wire::number::Rtype;

/// The file `named.conf`.
pub(super) fn config(setup: &ResolverSetup) -> String {
    let validation = yes_no(setup.anchor.is_some());
    let mut text = format!(
        "options {{\n  directory \"{}\";\n  listen-on {{ {ADDRESS}; }};\n  listen-on-v6 {{ none; }};\n  \
         pid-file none;\n  session-keyfile none;\n  recursion yes;\n  dnssec-validation {validation};\n",
        setup.folder.display()
    );
    if let Some(on) = setup.minimisation {
        let _written = writeln!(text, "  qname-minimization {};", if on { "relaxed" } else { "off" });
    }
    if setup.accepts_expired {
        text.push_str("  dnssec-accept-expired yes;\n");
    }
    text.push_str("};\ncontrols { };\n");
    if let Some(hints) = setup.hints_path() {
        let _written = writeln!(text, "zone \".\" {{ type hint; file \"{hints}\"; }};");
    }
    if let Some(keys) = &setup.anchor {
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
