//! Flags of the header.

use super::pair::Pair;
use crate::response::flag;
use testbed::Kind;

/// RFC 4035 3.1.6: a server "SHOULD clear the CD bit when composing an authoritative response"; BIND copies it.
pub(super) fn bind_copies_cd(pair: &mut Pair<'_>) -> bool {
    let differs = pair.theirs.flags[flag::CD] && !pair.ours.flags[flag::CD];
    if pair.peer != Kind::Bind || !pair.query.checking_disabled || !differs {
        return false;
    }
    pair.theirs.flags[flag::CD] = false;
    true
}
