//! An UPDATE, from its bytes to its effect on every member.

use super::world::{APEX, KEYS, TIME_MS, assert_no_alarm, machine, name};
use crate::entry::{Body, Entry, UpdateEntry, ZoneChange};
use crate::limits::ENTRY_BYTES_MAX;
use crate::machine::{Applied, Machine, Prepared, apply_work, zone_work};
use crate::update::{Parsed as Update, evaluate_within, prescan};
use core::net::{IpAddr, Ipv4Addr};
use policy::Requestor;
use tsig::client::UpdateBuilder;
use wire::number::{Rcode, Rtype};
use wire::parse::{Parsed, parse_request};
use zone::ZoneId;

const SOURCE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// Parsing, prescan, policy, evaluation and the entry must succeed, and a leader and a follower must reach the same
/// state.
///
/// # Panics
/// If an invariant is violated.
pub fn update(bytes: &[u8]) {
    let Parsed::Request(request) = parse_request(bytes) else { return };
    let Ok(parsed) = prescan(&request) else { return };
    let (mut leader, mut follower) = (machine(), machine());
    for (number, key) in (1..).zip(KEYS) {
        let Some(body) = evaluated(&leader, &parsed, bytes.len(), key, number) else { continue };
        let written = body.encode(0, TIME_MS);
        if written.len() > ENTRY_BYTES_MAX {
            continue;
        }
        let entry = Entry::decode(&written).expect("an entry that a leader wrote");
        assert_eq!(entry.body, body, "the entry changed in its encoding");
        // The leader applies it before it proposes it, the follower when it is committed.
        let version = zone_work(&body, &leader.stages).map(|work| {
            apply_work(&mut leader.zones, work).expect("what was evaluated fits the zone that it was evaluated on")
        });
        let prepared = Prepared { version, zones_hash: leader.zones.head().state_hash() };
        let index = leader.applied.0 + 1;
        let applied = leader.apply(index, 1, &entry, Some(prepared));
        assert!(matches!(applied, Applied::Update { .. }), "{applied:?}");
        assert_eq!(follower.apply(index, 1, &entry, None), applied);
        assert_eq!(leader.state_hash(), follower.state_hash());
        leader.publish();
        follower.publish();
        assert_no_alarm(&leader);
        assert_no_alarm(&follower);
    }
}

fn evaluated(machine: &Machine, parsed: &Update, bytes: usize, key: &str, number: u8) -> Option<Body> {
    let zone_id = ZoneId { view: 0, apex: parsed.apex.as_ref().to_canonical() };
    let options = machine.settings.zones().get(&zone_id)?;
    let zone = machine.zones.head().zone(&zone_id)?;
    let key_name = name(key);
    let requestor = Requestor { key: key_name.as_ref(), source: IpAddr::V4(SOURCE), is_connected: number > 1 };
    let permit = machine
        .settings
        .rules(&key_name, &zone_id)
        .evaluator(requestor)
        .permit(&parsed.steps, bytes, Some(&zone))
        .ok()?;
    let outcome = evaluate_within(&permit, &zone, parsed, options.serial_policy, TIME_MS / 1_000);
    assert!(outcome.changeset.is_none() || outcome.rcode == Rcode::NOERROR, "a refused update leaves no trace");
    if let Some(changeset) = &outcome.changeset {
        assert_eq!(changeset.serial_from, zone.serial());
        assert!(
            changeset.serial_from.is_none_or(|from| changeset.serial_to.is_newer_than(from)),
            "the serial must increase"
        );
    }
    let base_hash = zone.hash();
    let change = outcome.changeset.map(|changeset| ZoneChange { zone: zone_id, base_hash, changeset });
    Some(Body::Update(UpdateEntry {
        identity: [number; 16],
        key_generation: machine.settings.keys().get(&key_name)?.generation,
        key_name,
        policy_epoch: machine.settings.epoch(),
        source: SOURCE.to_ipv6_mapped().octets(),
        time_signed: TIME_MS / 1_000,
        rcode: outcome.rcode,
        change,
    }))
}

/// Updates of all forms.
pub(super) fn messages() -> Vec<Vec<u8>> {
    let apex = name(APEX);
    let new = || UpdateBuilder::new(7, apex.as_ref());
    let [www, other, deep, alias] =
        ["www.example.test.", "new.example.test.", "a.b.new.example.test.", "alias.example.test."].map(name);
    let soa = super::world::records().remove(0).rdata;
    let text = [&[200][..], &[b'x'; 200]].concat();
    vec![
        new().add(other.as_ref(), 60, Rtype::A, &[192, 0, 2, 9]).finish(),
        new()
            .add(other.as_ref(), 60, Rtype::A, &[192, 0, 2, 9])
            .add(other.as_ref(), 90, Rtype::A, &[192, 0, 2, 10])
            .add(deep.as_ref(), 60, Rtype::TXT, &text)
            .finish(),
        new().delete_rrset(www.as_ref(), Rtype::A).add(www.as_ref(), 60, Rtype::AAAA, &[7; 16]).finish(),
        new().delete_name(www.as_ref()).delete_record(alias.as_ref(), Rtype::CNAME, www.as_bytes()).finish(),
        new().delete_record(www.as_ref(), Rtype::A, &[192, 0, 2, 1]).finish(),
        new()
            .require_name(www.as_ref())
            .require_no_name(other.as_ref())
            .require_rrset(www.as_ref(), Rtype::TXT)
            .require_no_rrset(www.as_ref(), Rtype::MX)
            .require_record(alias.as_ref(), Rtype::CNAME, www.as_bytes())
            .add(other.as_ref(), 60, Rtype::CNAME, www.as_bytes())
            .finish(),
        new().add(apex.as_ref(), 300, Rtype::SOA, &soa).add(apex.as_ref(), 60, Rtype::NS, other.as_bytes()).finish(),
        new().delete_rrset(apex.as_ref(), Rtype::NS).delete_name(apex.as_ref()).finish(),
        new().add(www.as_ref(), 60, Rtype::MX, &[&[0, 10], other.as_bytes()].concat()).finish(),
        new().add(www.as_ref(), 60, Rtype(65_280), b"anything").finish(),
    ]
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    messages()
}
