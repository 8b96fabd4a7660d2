//! What tests of the policy share.

mod codec;
mod decide;
mod external;
mod model;
mod permit;
mod text;

use super::text::parse_policy;
use super::{Judge, Policy, Requestor, Rules, UpdateGrant};
use wire::name::Name;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn policy(text: &str) -> Policy {
    parse_policy(text).unwrap()
}

fn source(text: &str) -> core::net::IpAddr {
    text.parse().unwrap()
}

/// Runs `look` on a judge of the zone `example.` for a key that asks over UDP.
fn judged<T>(zone: &Policy, key: &str, look: impl FnOnce(&Judge<'_>) -> T) -> T {
    let (apex, key) = (name("example."), name(key));
    let rules = Rules { apex: apex.as_ref(), zone: Some(zone), all_zones: None, grant: UpdateGrant::None };
    let requestor = Requestor { key: key.as_ref(), source: source("192.0.2.1"), is_connected: false };
    look(&rules.judge(requestor))
}
