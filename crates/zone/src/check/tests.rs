//! Zones with errors, and zones with warnings.

use super::{CheckedZone, Findings, check};
use crate::file::{LoadOptions, Slice, load};
use crate::text::print_record;

/// Checks a zone with SOA and NS at the apex, and these records.
fn checked(text: &str) -> Result<CheckedZone, Findings> {
    bare(&format!("@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n{text}"))
}

fn bare(text: &str) -> Result<CheckedZone, Findings> {
    let text = format!("$TTL 100\n{text}");
    let origin = "example.".parse().unwrap();
    check(load(&mut Slice::new(text.into_bytes()), Some(&origin), &LoadOptions::default()).unwrap())
}

fn messages(findings: &[super::Finding]) -> Vec<String> {
    findings.iter().map(|found| format!("{}: {found}", found.location.map_or(0, |location| location.line))).collect()
}

/// RFC 4035 2.4. The rest of the zone is served.
#[test]
fn ds_at_the_apex_is_left_out() {
    let ds = "DS 1 8 2 0000000000000000000000000000000000000000000000000000000000000001";
    let rrsig = "RRSIG DS 13 1 100 20300101000000 20200101000000 1 example. AAAA";
    let zone = checked(&format!("@ {ds}\n@ {rrsig}\n@ {ds}\nsub NS ns\nsub {ds}\n")).unwrap();
    let expected = "example. DS: DS at the apex belongs to the zone above, left out";
    assert_eq!(messages(zone.findings.warnings()), [format!("5: {expected}"), format!("7: {expected}")]);
    let owners: Vec<String> = (zone.records.iter())
        .filter(|record| [wire::Rtype::DS, wire::Rtype::RRSIG].contains(&record.rtype))
        .map(|record| record.owner.to_string())
        .collect();
    assert_eq!(owners, ["sub.example."]);
}

/// RFC 8976 A.3 contains such records.
#[test]
fn zonemd_that_bind_cannot_read_is_a_warning() {
    let digest = "e1846540e33a9e4189792d18d5d131f605fc283e";
    let zone = checked(&format!("@ ZONEMD 1 241 1 {digest}\n@ ZONEMD 1 241 241 {digest}\n")).unwrap();
    let warning = "5: example. ZONEMD: BIND 9.18 refuses a transfer with a ZONEMD of this scheme and length";
    assert_eq!(messages(zone.findings.warnings()), [warning]);
}

/// The line counts `$TTL` and the three records of the apex.
#[test]
fn fatal_findings_refuse_the_zone() {
    for (text, error) in [
        ("@ SOA ns h 2 2 3 4 5\n", "2: example. SOA: more than one SOA"),
        ("a SOA ns h 1 2 3 4 5\n", "5: a.example. SOA: SOA below the apex"),
        ("a CNAME b\na A 1.2.3.4\n", "6: a.example. A: CNAME and other data"),
        ("a A 1.2.3.4\nA CNAME b\n", "5: a.example. A: CNAME and other data"),
        ("a CNAME b\na NS c.\n", "6: a.example. NS: CNAME and other data"),
        ("a CNAME b\na DNAME c.\n", "6: a.example. DNAME: CNAME and other data"),
        ("a CNAME b\na CNAME c\n", "5: a.example. CNAME: more than one CNAME"),
        ("a DNAME b\na DNAME c\n", "5: a.example. DNAME: more than one DNAME"),
        ("@ CNAME b\n", "2: example. SOA: CNAME and other data"),
        (
            "@ NSEC3PARAM 1 0 51 -\n",
            "5: example. NSEC3PARAM: more than 50 iterations of NSEC3; sign with 0 (RFC 9276 3.1)",
        ),
        (
            "2t7b4g4vsa5smi47k61mv5bv1a22bojr NSEC3 1 0 2500 - 2t7b4g4vsa5smi47k61mv5bv1a22bojr A\n",
            "5: 2t7b4g4vsa5smi47k61mv5bv1a22bojr.example. NSEC3: \
             more than 50 iterations of NSEC3; sign with 0 (RFC 9276 3.1)",
        ),
        (
            &format!("@ NSEC3PARAM 1 0 0 {}\n", "ab".repeat(33)),
            "5: example. NSEC3PARAM: more than 32 bytes of NSEC3 salt; sign with none (RFC 9276 3.1)",
        ),
        (
            &format!(
                "2t7b4g4vsa5smi47k61mv5bv1a22bojr NSEC3 1 0 0 {} 2t7b4g4vsa5smi47k61mv5bv1a22bojr A\n",
                "ab".repeat(255)
            ),
            "5: 2t7b4g4vsa5smi47k61mv5bv1a22bojr.example. NSEC3: \
             more than 32 bytes of NSEC3 salt; sign with none (RFC 9276 3.1)",
        ),
    ] {
        assert_eq!(messages(checked(text).unwrap_err().errors()), [error], "{text}");
    }
    assert_eq!(messages(bare("a A 1.2.3.4\n").unwrap_err().errors()), ["0: example. SOA: no SOA at the apex"]);
    assert_eq!(messages(bare("@ NS a.\n").unwrap_err().errors()), ["0: example. SOA: no SOA at the apex"]);
    assert!(bare("").is_err());
}

#[test]
fn cheap_nsec3_hashing_is_served() {
    for text in ["@ NSEC3PARAM 1 0 50 -\n", &format!("@ NSEC3PARAM 1 0 50 {}\n", "ab".repeat(32))] {
        assert!(checked(text).is_ok(), "{text}");
    }
}

#[test]
fn odd_zones_are_served_with_warnings() {
    for (text, warning) in [
        ("a.other. A 1.2.3.4\n", "5: a.other. A: outside of the zone, left out"),
        ("a MX 1 Ns\nA MX 1 nS\n", "6: A.example. MX: is there twice, left out"),
        ("a 5 A 1.2.3.4\na 6 A 1.2.3.5\n", "6: a.example. A: TTLs differ in the RRset, the smallest is taken"),
        ("a NS x.\nb.a TXT x\n", "6: b.a.example. TXT: occluded by a zone cut or DNAME above"),
        ("a DNAME x.\nb.a A 1.2.3.4\n", "6: b.a.example. A: occluded by a zone cut or DNAME above"),
        ("a NS x.\nb.a NS x.\n", "6: b.a.example. NS: occluded by a zone cut or DNAME above"),
        ("a DNAME x.\na NS x.\n", "6: a.example. NS: NS beside a DNAME"),
        ("*.a NS x.\n", "5: *.a.example. NS: NS of a wildcard"),
        ("@ DS 1 8 200 00\n", "5: example. DS: DS at the apex belongs to the zone above, left out"),
        ("a DS 1 8 200 00\n", "5: a.example. DS: DS without NS"),
        ("a NS ns.a\n", "5: a.example. NS: glue is missing for a name server below the zone cut"),
        ("a NS ns.b\n", "5: a.example. NS: points to a name of this zone without an address"),
        ("a MX 1 b\nb TXT x\n", "5: a.example. MX: points to a name of this zone without an address"),
        ("a SRV 1 1 1 b\nb CNAME ns\n", "5: a.example. SRV: points to a CNAME"),
    ] {
        assert_eq!(messages(checked(text).unwrap().findings.warnings()), [warning], "{text}");
    }
    let without_ns = bare("@ SOA ns. h 1 2 3 4 5\n").unwrap();
    assert_eq!(messages(without_ns.findings.warnings()), ["0: example. NS: no NS at the apex"]);
}

#[test]
fn clean_zones_have_no_findings() {
    for text in [
        "a CNAME b\na RRSIG CNAME 8 2 100 20300101000000 20200101000000 1 example. AAEC\na NSEC b A RRSIG NSEC\n",
        "a CNAME b\n",
        "a NS ns.a\nns.a A 1.2.3.4\na DS 1 8 200 00\n",
        "a NS ns.b\nb NS ns.b\nns.b AAAA ::1\n",
        "a MX 0 .\n",
        "a MX 1 x.w\n*.w A 1.2.3.4\n",
        "a MX 1 x.d\nd DNAME y.\n",
        "a MX 1 other.test.\n",
        "d DNAME x.\n",
        "@ NSEC3PARAM 1 0 50 -\n",
        // RRSIGs of one owner have different TTLs if they cover different types.
        concat!(
            "a 5 RRSIG A 8 2 5 20300101000000 20200101000000 1 example. AAEC\na 6 RRSIG TXT 8 2 6 2030010100",
            "0000 20200101000000 1 example. AAEC\n",
        ),
    ] {
        let checked = checked(text).unwrap_or_else(|findings| panic!("{text}: {:?}", messages(findings.errors())));
        assert_eq!(messages(checked.findings.warnings()), [""; 0], "{text}");
        assert_eq!(checked.records.len(), 3 + text.lines().count());
    }
}

#[test]
fn rrsets_have_one_ttl_and_no_duplicates() {
    let text = "b TXT x\na 9 A 1.2.3.4\nA 7 A 1.2.3.5\na 8 A 1.2.3.4\nb TXT X\nx.other. A 1.2.3.4\na TXT y\n";
    let served = checked(text).unwrap();
    let lines: Vec<String> = served
        .records
        .iter()
        .skip(3)
        .map(|record| {
            let mut line = String::new();
            print_record(record, &mut line);
            line.replace('\t', " ")
        })
        .collect();
    assert_eq!(
        lines,
        [
            "b.example. 100 IN TXT \"x\"",
            "b.example. 100 IN TXT \"X\"",
            "a.example. 7 IN A 1.2.3.4",
            "A.example. 7 IN A 1.2.3.5",
            "a.example. 100 IN TXT \"y\"",
        ]
    );
    assert_eq!(served.findings.counts(), (0, 3));
}

#[test]
fn duplicates_in_large_sets_are_found_too() {
    let many: String = (0..200).map(|number| format!("a MX {} Mx.test.\n", number % 150)).collect();
    let served = checked(&many.replacen("Mx", "mX", 20)).unwrap();
    assert_eq!((served.records.len(), served.findings.counts()), (3 + 150, (0, 50)));
}

/// The order of the file does not change the result. A sorted, a nearly sorted and an unsorted file take different
/// paths.
#[test]
fn the_order_of_a_file_changes_nothing() {
    let mut lines: Vec<String> = (0..200).map(|number| format!("h{number:03} A 10.0.0.{number}")).collect();
    lines.extend(
        ["cut NS ns.cut", "ns.cut A 1.2.3.4", "x.cut TXT glue", "deep.er.cut NS ns.x", "y.deep.er.cut A 1.2.3.4"]
            .map(str::to_owned),
    );
    lines.extend(
        ["d DNAME e", "a.d A 1.2.3.4", "h001 MX 1 nowhere", "h002 NS h003", "h004 SRV 1 1 1 h005"].map(str::to_owned),
    );
    lines.extend(["H003 A 10.0.0.4", "h003 3 A 10.0.0.5", "h006 A 10.0.0.6", "z.other. A 1.2.3.4"].map(str::to_owned));
    let found = |lines: &[String]| {
        let CheckedZone { records, findings, .. } = checked(&lines.join("\n")).unwrap();
        let mut served: Vec<String> = Vec::new();
        for record in records.iter() {
            let mut line = String::new();
            print_record(record, &mut line);
            served.push(line.to_lowercase());
        }
        served.sort();
        let mut warnings: Vec<String> =
            findings.warnings().iter().map(|found| found.to_string().to_lowercase()).collect();
        warnings.sort();
        (served, warnings)
    };
    let nearly_sorted = found(&lines);
    assert_eq!((nearly_sorted.0.len(), nearly_sorted.1.len()), (215, 8), "{:?}", nearly_sorted.1);
    for step in [7, 101, lines.len() - 1] {
        // Coprime to the number of lines, so each line occurs once.
        let order = (0..lines.len()).map(|index| index * step % lines.len());
        let shuffled: Vec<String> = order.map(|index| lines[index].clone()).collect();
        assert_eq!(found(&shuffled), nearly_sorted, "every {step}th line");
    }
}

/// Owners that are not checked have no findings.
mod ignored_records_are_reported {
    use super::super::{Groups, check, check_groups};
    use crate::file::{LoadOptions, Slice, load};
    use proptest::collection::vec;
    use proptest::prelude::*;

    const RECORDS: [&str; 22] = [
        "A 192.0.2.1",
        "A 192.0.2.2",
        "5 A 192.0.2.2",
        "AAAA 2001:db8::1",
        "TXT x",
        "CNAME a",
        "CNAME b",
        "DNAME c.",
        "NS a",
        "NS ns.b",
        "DS 1 8 200 00",
        "MX 1 c",
        "MX 0 .",
        "SRV 1 1 1 a.b",
        "SOA ns h 1 2 3 4 5",
        "SOA ns h 2 2 3 4 5",
        "NSEC a A",
        "RRSIG A 8 2 5 20300101000000 20200101000000 1 example. AAEC",
        "RRSIG CNAME 8 2 5 20300101000000 20200101000000 1 example. AAEC",
        "NSEC3PARAM 1 0 51 -",
        "NSEC3PARAM 1 0 50 -",
        "KEY 256 3 8 AAEC",
    ];

    fn line() -> impl Strategy<Value = String> {
        let owners = ["@", "a", "A", "b", "a.b", "*.b", "ns.b", "c", "x.c", "other."];
        let owner = prop::sample::select(owners.to_vec());
        (owner, prop::sample::select(RECORDS.to_vec())).prop_map(|(owner, record)| format!("{owner} {record}"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]
        #[test]
        fn nothing_is_missed(lines in vec(line(), 0..12), has_apex in prop::bool::weighted(0.9)) {
            let apex = if has_apex { "@ SOA ns h 1 2 3 4 5\n@ NS a\n" } else { "" };
            let text = format!("$TTL 100\n{apex}{}\n", lines.join("\n"));
            let origin = "example.".parse().unwrap();
            let load = || load(&mut Slice::new(text.clone().into_bytes()), Some(&origin), &LoadOptions::default());
            let loaded = load().unwrap();
            let groups = Groups::new(&loaded.apex, &loaded.records).all_to_check();
            match (check(load().unwrap()), check_groups(loaded, groups)) {
                (Ok(quick), Ok(whole)) => {
                    prop_assert_eq!(quick.findings, whole.findings);
                    prop_assert_eq!(quick.records, whole.records);
                }
                (Err(quick), Err(whole)) => prop_assert_eq!(quick, whole),
                (quick, whole) => prop_assert!(false, "{quick:?} and {whole:?}"),
            }
        }
    }
}
