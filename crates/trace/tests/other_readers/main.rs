//! Compares our readers with others, field by field: captures with tshark, dnstap with BIND's `dnstap-read`, and DNSViz
//! JSON with tshark. The table is in `docs/history/traces.md`. `CATAMARAN_REWRITE=1` writes it again; read the changes
//! before you keep them.

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

/// The file of the table.
const TABLE: &str = "../../docs/history/traces.md";

/// dnstap files.
const DNSTAP: [&str; 3] = ["bind-dnstap.saved.fstrm", "compactor-test.dnstap", "dsc-test.dnstap"];
/// Responses in JSON of DNSViz, each in base64.
const DNSVIZ: &str = "dnsviz-example-authoritative.json.gz";

#[test]
fn all_fields_equal_those_of_other_readers() {
    let Some(folder) = data() else { return };
    let mut all = Vec::new();
    for path in captures(&folder) {
        let Some(theirs) = tshark::read(&path) else {
            skip::peer("tshark");
            return;
        };
        all.push(Compared::new(&path, ours::read(&path), theirs));
    }
    for file in DNSTAP {
        let path = folder.join("traces").join(file);
        let Some(theirs) = dnstap_read::read(&path) else {
            skip::peer("dnstap-read");
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

/// The comparison finds errors: it is tested with each field changed, a missing message, and an extra one.
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
