//! Knot Resolver.

use super::setup::{ADDRESS, PORT, ResolverSetup};
use std::fmt::Write as _;

/// The file `kresd.conf`.
pub(super) fn config(setup: &ResolverSetup) -> String {
    let mut text = format!("net.listen('{ADDRESS}', {PORT}, {{ kind = 'dns' }})\ncache.size = 100 * MB\n");
    if setup.ipv4_only {
        text.push_str("net.ipv6 = false\n");
    }
    if let Some(hints) = setup.hints_path() {
        let _written = writeln!(text, "modules.load('hints > iterate')\nhints.root_file('{hints}')");
    }
    if setup.minimisation == Some(false) {
        text.push_str("policy.add(policy.all(policy.FLAGS('NO_MINIMIZE')))\n");
    }
    // The built-in anchor is that of the real root.
    text.push_str("modules.unload('ta_update')\ntrust_anchors.remove('.')\n");
    for key in setup.keys() {
        let _written = writeln!(text, "trust_anchors.add('. IN {:?} {}')", key.rtype, key.words.join(" "));
    }
    text
}
