//! What is read, field by field, beside what others read in the same files: captures by tshark, dnstap by
//! `dnstap-read` of BIND, what DNSViz wrote by tshark once more. The table is `docs/history/traces.md`;
//! `CATAMARAN_REWRITE=1` writes it anew, to be read before it is kept.

mod compared;
mod dnstap_read;
mod dnsviz_as_capture;
mod fields;
mod ours;
#[path = "../support/data.rs"]
mod real;
mod tshark;

use compared::Compared;
use fields::MessageFields;
use real::{captures, data};
use std::path::Path;

/// Where the table stands in the repository.
const TABLE: &str = "../../docs/history/traces.md";

/// Files of dnstap.
const DNSTAP: [&str; 3] = ["bind-dnstap.saved.fstrm", "compactor-test.dnstap", "dsc-test.dnstap"];
/// Responses that DNSViz wrote into JSON, each in base 64.
const DNSVIZ: &str = "dnsviz-example-authoritative.json.gz";

#[test]
fn every_field_of_every_message_is_the_one_that_others_read() {
    let Some(folder) = data() else { return };
    let mut all = Vec::new();
    for path in captures(&folder) {
        let Some(theirs) = tshark::read(&path) else {
            println!("skipped: tshark is not installed");
            return;
        };
        all.push(Compared::new(&path, ours::read(&path), theirs));
    }
    for file in DNSTAP {
        let path = folder.join("traces").join(file);
        let Some(theirs) = dnstap_read::read(&path) else {
            println!("skipped: dnstap-read is not installed");
            return;
        };
        let mut ours = ours::read(&path);
        ours.iter_mut().for_each(MessageFields::drop_parts_of_seconds);
        all.push(Compared::new(&path, ours, theirs));
    }
    let path = folder.join("traces").join(DNSVIZ);
    let packed = std::env::temp_dir().join(format!("catamaran-dnsviz-{}.pcap", std::process::id()));
    std::fs::write(&packed, dnsviz_as_capture::capture(&path)).unwrap();
    all.push(Compared::new(&path, ours::read(&path), tshark::read(&packed).unwrap()));
    std::fs::remove_file(packed).unwrap();
    let unexplained: Vec<_> = all.iter().flat_map(Compared::unexplained).collect();
    assert!(unexplained.is_empty(), "{} unexplained:\n{}", unexplained.len(), unexplained.join("\n"));
    let table = compared::table(&all);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(TABLE);
    if std::env::var_os("CATAMARAN_REWRITE").is_some() {
        std::fs::write(&path, &table).unwrap();
    }
    assert!(std::fs::read_to_string(&path).unwrap_or_default() == table, "{} says otherwise:\n{table}", path.display());
}

/// The comparison sees what is wrong: each field of a message in turn is changed, one message is left out, one added.
#[test]
fn differences_are_reported() {
    let Some(folder) = data() else { return };
    let path = folder.join("captures/dnscap-edns.pcap");
    let read = || ours::read(&path);
    assert_eq!(Compared::new(&path, read(), read()).unexplained().count(), 0);
    for at in 0..fields::FIELDS.len() {
        let mut theirs = read();
        theirs[0].fields[at] = Some("something else".into());
        let compared = Compared::new(&path, read(), theirs);
        let message: Vec<_> = compared.unexplained().collect();
        assert!(message.len() == 1 && message[0].contains(fields::FIELDS[at]), "{}: {message:?}", fields::FIELDS[at]);
    }
    let mut fewer = read();
    fewer.pop();
    assert_eq!(Compared::new(&path, read(), fewer.clone()).unexplained().count(), 1);
    assert_eq!(Compared::new(&path, fewer, read()).unexplained().count(), 1);
}
