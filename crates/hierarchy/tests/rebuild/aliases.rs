//! Scenarios of aliases and DNAMEs: zones that servers load, with nothing below a DNAME.

use crate::scenarios::{records, scenario};
use hierarchy::construct::{Built, Dnssec};
use wire::number::Rtype;

#[test]
fn records_behind_aliases_are_added_to_their_own_zone() {
    let chain = "AA NOERROR
    www.one.example. IN A
    AN www.one.example. 60 IN CNAME web.two.example.
    AN web.two.example. 30 IN A 192.0.2.80

    AA NOERROR
    one.example. IN NS
    AN one.example. 60 IN NS ns.test.

    AA NOERROR
    two.example. IN NS
    AN two.example. 60 IN NS ns.test.";
    let built = scenario(&[("192.0.2.1", chain)], Dnssec::Keep);
    assert!(records(&built, "one.example.").contains(&"www.one.example. 60 CNAME web.two.example.".to_owned()));
    assert!(records(&built, "two.example.").contains(&"web.two.example. 30 A 192.0.2.80".to_owned()));
}

/// Checks the zone files with BIND's named-checkzone, if it is installed, and with our own rules.
fn check_all(built: &Built) {
    crate::check(built);
    for zone in &built.zones {
        let mut text = String::new();
        for built in &zone.records {
            zone::text::print_record(&built.record, &mut text);
            text.push('\n');
        }
        let file =
            std::env::temp_dir().join(format!("catlab-zone-{}-{:?}", std::process::id(), std::thread::current().id()));
        std::fs::write(&file, &text).unwrap();
        let mut tool = std::process::Command::new("named-checkzone");
        let output = tool.args(["-q", "-i", "local", "-k", "ignore", &zone.apex.to_string()]).arg(&file).output();
        std::fs::remove_file(&file).unwrap();
        match output {
            Ok(output) => assert!(output.status.success(), "{}: {text}", zone.apex),
            Err(_) => skip::peer("named-checkzone"),
        }
    }
}

/// Returns the owners of records below a DNAME of their zone.
fn below_dnames(built: &Built) -> Vec<String> {
    let mut found = Vec::new();
    for zone in &built.zones {
        let records = || zone.records.iter().map(|built| &built.record);
        for dname in records().filter(|record| record.rtype == Rtype::DNAME) {
            let is_below =
                |owner: &wire::Name| *owner != dname.owner && owner.as_ref().is_at_or_below(dname.owner.as_ref());
            found.extend(records().filter(|record| is_below(&record.owner)).map(|record| record.owner.to_string()));
        }
    }
    found
}

#[test]
fn nothing_is_invented_below_a_dname() {
    // The DNAME has mail and service names below it, a name without a type, and a zone on another server.
    let answers = "AA NOERROR
    example. IN MX
    AN example. 60 IN MX 1 mail.sub.example.
    AU example. 60 IN NS ns.example.
    AD ns.example. 60 IN A 192.0.2.1

    AA NOERROR
    sub.example. IN DNAME
    AN sub.example. 60 IN DNAME other.test.

    AA NOERROR
    nothing.sub.example. IN A
    AU example. 60 IN SOA ns.example. h.example. 1 2 3 4 5";
    let zone_below = "AA NOERROR
    zone.sub.example. IN NS
    AN zone.sub.example. 60 IN NS ns.zone.sub.example.";
    let built = scenario(&[("192.0.2.1", answers), ("192.0.2.2", zone_below)], Dnssec::Keep);
    assert!(records(&built, "example.").contains(&"sub.example. 60 DNAME other.test.".to_owned()));
    assert_eq!(below_dnames(&built), [""; 0]);
    check_all(&built);
}

/// As in public tests of resolvers: a DNAME redirects the whole zone, so its name server would be below the DNAME.
#[test]
fn a_zone_redirected_by_dname_gets_an_external_name_server() {
    let parent = "NOERROR
    www.example.com. IN A
    AU example.com. 60 IN NS ns.example.com.
    AD ns.example.com. 60 IN A 192.0.2.4";
    let child = "AA NOERROR
    example.com. IN NS
    AN example.com. 60 IN NS ns.example.com.
    AD ns.example.com. 60 IN A 192.0.2.4

    AA NOERROR
    www.example.com. IN A
    AN example.com. 60 IN DNAME example.net.
    AN www.example.com. 60 IN CNAME www.example.net.";
    let built = scenario(&[("192.0.2.30", parent), ("192.0.2.4", child)], Dnssec::Keep);
    let child = records(&built, "example.com.");
    assert!(child.contains(&"example.com. 60 DNAME example.net.".to_owned()), "{child:?}");
    assert_eq!(below_dnames(&built), [""; 0]);
    let ns: Vec<_> = child.iter().filter(|line| line.contains(" NS ")).collect();
    let [ns] = &ns[..] else { panic!("{child:?}") };
    let name = ns.split(' ').nth(3).unwrap();
    assert!(name.ends_with(".com.") && !name.ends_with(".example.com."), "{ns}");
    let above = records(&built, "com.");
    assert!(above.contains(&format!("{name} 60 A 192.0.2.4 made")), "{above:?}");
    // The delegation in the zone above is unchanged.
    assert!(above.contains(&"example.com. 60 NS ns.example.com.".to_owned()), "{above:?}");
    check_all(&built);
}

#[test]
fn name_servers_below_a_dname_are_skipped() {
    let answers = "AA NOERROR
    example. IN NS
    AN example. 60 IN NS ns.example.
    AN example. 60 IN NS ns.sub.example.
    AD ns.example. 60 IN A 192.0.2.1

    AA NOERROR
    sub.example. IN DNAME
    AN sub.example. 60 IN DNAME other.test.";
    let built = scenario(&[("192.0.2.1", answers)], Dnssec::Keep);
    let zone = records(&built, "example.");
    assert_eq!(
        zone.iter().filter(|line| line.contains(" NS ")).collect::<Vec<_>>(),
        ["example. 60 NS ns.example. made"]
    );
    check_all(&built);
}

#[test]
fn a_name_server_that_is_an_alias_gets_the_address_of_the_server() {
    let answers = "AA NOERROR
    example. IN NS
    AN example. 60 IN NS ns.example.
    AN example. 60 IN NS any.wild.example.

    AA NOERROR
    ns.example. IN A
    AN ns.example. 60 IN CNAME host.example.
    AN host.example. 60 IN A 192.0.2.80

    AA NOERROR
    *.wild.example. IN CNAME
    AN *.wild.example. 60 IN CNAME host.example.";
    let built = scenario(&[("192.0.2.1", answers)], Dnssec::Keep);
    let zone = records(&built, "example.");
    assert!(zone.contains(&"ns.example. 60 A 192.0.2.1 made".to_owned()), "{zone:?}");
    assert!(zone.contains(&"any.wild.example. 60 A 192.0.2.1 made".to_owned()), "{zone:?}");
    assert!(!zone.iter().any(|line| line.starts_with("ns.example. 60 CNAME")), "{zone:?}");
    assert!(zone.contains(&"*.wild.example. 60 CNAME host.example.".to_owned()), "{zone:?}");
    assert!(built.report.dropped.first.iter().any(|dropped| dropped.rrset == "ns.example. CNAME"));
    check_all(&built);
}
