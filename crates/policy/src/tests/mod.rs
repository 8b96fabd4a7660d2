//! Helpers of the tests.

mod codec;
mod decide;
mod external;
mod model;
mod permit;
mod text;

use super::text::parse_policy;
use super::{Policy, PolicyEvaluator, Requestor, Rules, UpdateGrant};
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

/// Runs `look` on an evaluator of the zone `example.` for a key that sends over UDP.
fn with_evaluator<T>(zone: &Policy, key: &str, look: impl FnOnce(&PolicyEvaluator<'_>) -> T) -> T {
    let (apex, key) = (name("example."), name(key));
    let rules = Rules { apex: apex.as_ref(), zone: Some(zone), all_zones: None, grant: UpdateGrant::None };
    let requestor = Requestor { key: key.as_ref(), source: source("192.0.2.1"), is_connected: false };
    look(&rules.evaluator(requestor))
}
