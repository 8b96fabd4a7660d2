//! The `domain` crate as a second opinion, where it can scan a zone at all.

use super::support::{data, scan};
use domain::base::iana::Class;
use domain::base::rdata::ComposeRecordData;
use domain::base::{Name, ToName};
use domain::zonefile::inplace::{Entry, Zonefile};

/// Owner, type, TTL, rdata.
type Plain = (Vec<u8>, u16, u32, Vec<u8>);

/// The records of a zone as `domain` has them; `None` when it refuses the zone.
fn records(bytes: &[u8], origin: Option<&str>) -> Option<Vec<Plain>> {
    let mut zone = Zonefile::from(bytes);
    zone.set_default_class(Class::IN);
    if let Some(origin) = origin {
        zone.set_origin(origin.parse::<Name<_>>().ok()?);
    }
    let mut records = Vec::new();
    loop {
        match zone.next_entry() {
            Ok(Some(Entry::Record(record))) => {
                let mut rdata = Vec::new();
                record.data().compose_rdata(&mut rdata).ok()?;
                let owner: Name<Vec<u8>> = record.owner().to_name();
                records.push((owner.as_slice().to_vec(), record.rtype().to_int(), record.ttl().as_secs(), rdata));
            }
            Ok(None) => return Some(records),
            Ok(Some(_)) | Err(_) => return None,
        }
    }
}

#[test]
fn both_parsers_agree_where_domain_accepts() {
    let Some(folder) = data() else { return };
    let (mut zones, mut refused) = (0, 0);
    for zone in super::zones::all(&folder) {
        let Some(theirs) = records(&zone.bytes, zone.origin) else {
            refused += 1;
            continue;
        };
        let ours = scan(&zone.bytes, zone.origin).unwrap_or_else(|errors| panic!("{errors}")).records.to_records();
        assert_eq!(ours.len(), theirs.len(), "{}", zone.name);
        for (our, their) in ours.into_iter().zip(theirs) {
            assert_eq!(
                (our.owner.as_bytes().to_vec(), our.rtype.0, our.ttl, our.rdata.to_vec()),
                their,
                "{}",
                zone.name
            );
        }
        zones += 1;
    }
    println!("{zones} zones equal; {refused} are refused by domain's scanner");
    assert!(zones >= 20);
}
