//! Printed again, records equal the prints of NSD, ldns, dnspython and Unbound, but for the listed habits of each
//! print.

use super::style::{Rule, Words};
use super::support::{data, read, records, scan};
use catamaran_zone::record::Record;
use catamaran_zone::text::print_record;

fn print(records: &[Record]) -> String {
    let mut text = String::new();
    for record in records {
        print_record(record, &mut text);
        text.push('\n');
    }
    text
}

/// Compares as multisets: prints are sorted, input is not.
fn compare(name: &str, ours: &[Record], theirs: &str, origin: &str, rules: &[Rule]) {
    let mut ours: Vec<Words> = super::style::records(&print(ours), ".");
    let mut theirs: Vec<Words> = super::style::records(theirs, origin);
    assert_eq!(ours.len(), theirs.len(), "{name}: every record is printed");
    let as_they_are = theirs.iter().filter(|record| ours.contains(record)).count();
    let mut used = vec![0; rules.len()];
    for record in &mut theirs {
        for (rule, count) in rules.iter().zip(&mut used) {
            *count += usize::from(rule.apply(record));
        }
    }
    if rules.contains(&Rule::OwnerCase) {
        ours.iter_mut().for_each(|record| record[0].make_ascii_lowercase());
    }
    ours.sort();
    theirs.sort();
    for (our, their) in ours.iter().zip(&theirs) {
        assert_eq!(our, their, "{name}");
    }
    // A rule that rewrites nothing excuses nothing; it has to go.
    for (rule, count) in rules.iter().zip(&used) {
        assert!(*count > 0 || *rule == Rule::OwnerCase, "{name}: {rule:?} is not needed");
    }
    println!(
        "{name}: {} records equal, {as_they_are} of them as they are; rewritten: {used:?} by {rules:?}",
        ours.len()
    );
}

#[test]
fn nsd_rr_test() {
    let Some(folder) = data() else { return };
    let ours = records(&read(&folder, "nsd-rr-test.zone"), None);
    let theirs = String::from_utf8(read(&folder, "nsd-rr-test.cmp_zone")).unwrap();
    let rules = [
        Rule::OwnerCase,
        Rule::Unquoted("GPOS"),
        Rule::Unquoted("RESINFO"),
        Rule::LocDigits,
        Rule::Mnemonic("WKS", "tcp", "6"),
        Rule::Mnemonic("WKS", "udp", "17"),
        Rule::Mnemonic("DSYNC", "1", "NOTIFY"),
    ];
    compare("nsd-rr-test", &ours, &theirs, ".", &rules);
}

#[test]
fn dnspython_example() {
    let Some(folder) = data() else { return };
    let ours = records(&read(&folder, "dnspython-example"), None);
    let theirs = String::from_utf8(read(&folder, "dnspython-example1.good")).unwrap();
    let rules = [
        Rule::NamesRelative("example."),
        Rule::Base64Pieces,
        Rule::Unquoted("GPOS"),
        Rule::ParameterQuotes,
        Rule::Mnemonic("CERT", "PRIVATEOID", "254"),
        Rule::Ipv6AsWritten("IPSECKEY"),
        Rule::Ipv6AsWritten("L64"),
    ];
    compare("dnspython-example", &ours, &theirs, "example.", &rules);
}

#[test]
fn ldns_zonereader() {
    let Some(folder) = data() else { return };
    let input = String::from_utf8(read(&folder, "ldns-zonereader.inputzone.xz")).unwrap();
    let theirs = String::from_utf8(read(&folder, "ldns-zonereader.outputzone.xz")).unwrap();
    // One record of 3,882 is refused: `A \# 0`. RFC 3597 5 lets a known type be written in the generic form, but an A
    // record has four bytes.
    let errors = scan(input.as_bytes(), None).unwrap_err();
    assert_eq!(errors.all().len(), 1);
    assert_eq!(errors.first().line, 3882);
    assert!(errors.first().to_string().ends_with("A record: the rdata ends too early"), "{errors}");
    let drop_it = |text: &str| {
        let kept: Vec<&str> =
            text.lines().filter(|line| !line.ends_with("A\t\\# 0") && !line.ends_with("A       \\# 0")).collect();
        assert_eq!(kept.len() + 1, text.lines().count());
        kept.join("\n")
    };
    let ours = records(drop_it(&input).as_bytes(), None);
    let rules = [
        Rule::LocDigits,
        Rule::Mnemonic("WKS", "tcp", "6"),
        Rule::Mnemonic("WKS", "udp", "17"),
        Rule::Mnemonic("WKS", "domain", "53"),
        Rule::Ipv6AsWritten("APL"),
    ];
    compare("ldns-zonereader", &ours, &drop_it(&theirs), ".", &rules);
}

#[test]
fn rr_types_of_unbound() {
    let Some(folder) = data() else { return };
    let pairs = String::from_utf8(read(&folder, "rr-types-wire-and-text.c2.xz")).unwrap();
    let theirs: Vec<&str> = pairs.lines().skip(1).step_by(2).collect();
    let theirs = theirs.join("\n");
    let rules = [Rule::HexCase("SSHFP"), Rule::HexCase("TLSA"), Rule::HexCase("DS")];
    for (name, text) in [
        ("rr-types-wire-and-text.c2", theirs.as_bytes()),
        ("rr-types-text.ldnsrr.2", &read(&folder, "rr-types-text.ldnsrr.2.xz")[..]),
    ] {
        compare(name, &records(text, None), &theirs, ".", &rules);
    }
}

/// What is printed is scanned to the same records: of every zone that scans.
#[test]
fn printed_zones_are_read_back() {
    let Some(folder) = data() else { return };
    let (mut zones, mut count) = (0, 0);
    for zone in super::zones::all(&folder) {
        let Ok(loaded) = scan(&zone.bytes, zone.origin) else { continue };
        let loaded_records = loaded.records.to_records();
        let again = records(print(&loaded_records).as_bytes(), zone.origin);
        assert_eq!(loaded_records, again, "{}", zone.name);
        (zones, count) = (zones + 1, count + again.len());
    }
    println!("{zones} zones, {count} records");
    assert!(zones >= 66 && count >= 72_797);
}
