//! Composes the records of any readable message again, with compression. Reading them back gives the same records.

use wire::{Composer, Header, Message, Name, Rcode, Rtype, Section, rdata_eq};

type Record = (Section, Name, Rtype, u32, Vec<u8>);

fn records(message: &Message<'_>) -> Vec<Record> {
    let mut records = Vec::new();
    for section in Section::ALL {
        for record in message.records(section).flatten() {
            let mut rdata = Vec::new();
            if record.rdata_canonical(&mut rdata).is_ok() {
                records.push((section, record.owner.to_name(), record.rtype, record.ttl, rdata));
            }
        }
    }
    records
}

pub(crate) fn run(bytes: &[u8]) {
    let Ok(message) = Message::parse(bytes) else { return };
    let given = records(&message);
    let mut buffer = vec![0; 65_535];
    let mut composer = Composer::new(&mut buffer, 65_535);
    composer.start(&Header::default(), None, Rcode::NOERROR, true);
    let mut put = Vec::new();
    for record in &given {
        let (section, owner, rtype, ttl, rdata) = record;
        if composer.push_rrset(*section, owner.as_ref(), *rtype, wire::Class::IN, *ttl, [&rdata[..]]).is_ok() {
            put.push(record);
        }
    }
    let len = composer.finish(None);
    let found = records(&Message::parse(&buffer[..len]).expect("the composer made it"));
    assert_eq!(found.len(), put.len());
    for (found, put) in found.iter().zip(put) {
        assert_eq!((found.0, &found.1, found.2, found.3), (put.0, &put.1, put.2, put.3));
        assert!(rdata_eq(found.2, &found.4, &put.4));
    }
}
