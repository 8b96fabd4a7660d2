//! Records in wire form and in text, side by side: `rr-types-wire-and-text.c2`.

use super::support::{data, read, records, unhex};
use wire::name::NameRef;

#[test]
fn text_gives_the_listed_bytes() {
    let Some(folder) = data() else { return };
    let pairs = String::from_utf8(read(&folder, "rr-types-wire-and-text.c2.xz")).unwrap();
    let lines: Vec<&str> = pairs.lines().collect();
    for pair in lines.chunks_exact(2) {
        let record = &records(format!("{}\n@ 0 SOA . . 0 0 0 0 0", pair[1]).as_bytes(), Some("nlnetlabs.nl."))[0];
        let wire = unhex(pair[0]);
        let (owner, rest) = NameRef::split_from(&wire).unwrap();
        let mut fixed = record.rtype.0.to_be_bytes().to_vec();
        fixed.extend([0, 1]);
        fixed.extend(record.ttl.to_be_bytes());
        fixed.extend((record.rdata.len() as u16).to_be_bytes());
        fixed.extend_from_slice(&record.rdata);
        assert_eq!((owner.as_bytes(), rest), (record.owner.as_bytes(), &fixed[..]), "{}", pair[1]);
    }
    println!("{} records equal byte for byte", lines.len() / 2);
    assert_eq!(lines.len(), 2860);
}
