//! Whole files: directives, omitted fields, errors and their positions, termination.

use super::{Input, LoadOptions, Opened, Reason, Scanner, Slice, Source, WarningKind, load};
use crate::limits::{GENERATE_BYTES_MAX, GENERATE_RECORDS_MAX, INCLUDE_DEPTH_MAX};
use crate::text::{TextError, print_record};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Files in memory, read a few bytes at a time.
struct Files(BTreeMap<&'static str, String>);

struct Trickle(Slice);

impl Input for Trickle {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, String> {
        let len = buffer.len().min(7);
        self.0.read(&mut buffer[..len])
    }
}

impl Source for Files {
    fn open(&mut self, name: Option<&str>, _from: Option<&str>) -> Result<Opened, String> {
        let (name, text) = self.0.get_key_value(name.unwrap_or("zone")).ok_or("no such file")?;
        Ok(Opened { name: (*name).into(), input: Box::new(Trickle(Slice::new(text.clone().into_bytes()))) })
    }
}

fn files(files: &[(&'static str, &str)]) -> Files {
    Files(files.iter().map(|&(name, text)| (name, text.to_owned())).collect())
}

/// Each record printed, tabs as spaces; or all errors.
fn lines(source: &mut Files, origin: &str) -> Result<Vec<String>, Vec<String>> {
    let origin = origin.parse().unwrap();
    match load(source, Some(&origin), &LoadOptions::default()) {
        Ok(loaded) => Ok(loaded
            .records
            .iter()
            .map(|record| {
                let mut line = String::new();
                print_record(record, &mut line);
                line.replace('\t', " ")
            })
            .collect()),
        Err(errors) => Err(errors.all().iter().map(ToString::to_string).collect()),
    }
}

fn zone(text: &str) -> Result<Vec<String>, Vec<String>> {
    lines(&mut files(&[("zone", text)]), "example.")
}

#[test]
fn owner_ttl_and_class_are_left_out_in_any_order() {
    let text = concat!(
        "$TTL 1h\na IN 10 A 192.0.2.1\n\t20 IN A 192.0.2.2\n 30 A 192.0.2.3\n\tIN A 192.0.2.4\n A 192.0.",
        "2.5 ; comment\n\n@ A 192.0.2.6\r\nb.other. ( 1m\n class1 ) \\# ( ; no\n",
    );
    let text = text.replace("\\# ( ; no\n", "A \\# 4 ( c0\n000207 ) ; last line without line feed");
    assert_eq!(
        zone(&text).unwrap(),
        [
            "a.example. 10 IN A 192.0.2.1",
            "a.example. 20 IN A 192.0.2.2",
            "a.example. 30 IN A 192.0.2.3",
            "a.example. 3600 IN A 192.0.2.4",
            "a.example. 3600 IN A 192.0.2.5",
            "example. 3600 IN A 192.0.2.6",
            "b.other. 60 IN A 192.0.2.7",
        ]
    );
}

#[test]
fn ttls_without_the_directive() {
    let mut source = files(&[("zone", "@ SOA . . 1 2 3 4 77\na A 192.0.2.1\nb 5 A 192.0.2.1\nc A 192.0.2.1\n")]);
    let loaded = load(&mut source, Some(&"example.".parse().unwrap()), &LoadOptions::default()).unwrap();
    assert_eq!(loaded.records.iter().map(|record| record.ttl).collect::<Vec<_>>(), [77, 77, 5, 77]);
    assert_eq!(loaded.warnings[0].kind, WarningKind::TtlFromSoa);

    let mut source = files(&[("zone", "b 5 A 192.0.2.1\nc A 192.0.2.1\nd A 192.0.2.1\ne 4294967295 A 192.0.2.1\n")]);
    let loaded = load(&mut source, Some(&"example.".parse().unwrap()), &LoadOptions::default()).unwrap();
    assert_eq!(loaded.records.iter().map(|record| record.ttl).collect::<Vec<_>>(), [5, 5, 5, 0]);
    let kinds: Vec<_> = loaded.warnings.iter().map(|warning| (warning.location.line, warning.kind.clone())).collect();
    assert_eq!(kinds, [(2, WarningKind::TtlFromRecordBefore), (4, WarningKind::TtlHigh)]);

    assert_eq!(zone("a A 192.0.2.1\n").unwrap_err(), ["zone:1: the record has no TTL, and no $TTL stands before it"]);
}

#[test]
fn an_included_file_has_its_own_origin_and_owner() {
    let mut source = files(&[
        ("zone", "$TTL 1\na A 192.0.2.1\n$INCLUDE \"in\" sub\n A 192.0.2.2\nb A 192.0.2.3\n$INCLUDE in\\.2\n"),
        ("in", "$TTL 2\n A 192.0.2.4\nc A 192.0.2.5\n$ORIGIN deep\n@ A 192.0.2.6\n"),
        ("in.2", "d A 192.0.2.7"),
    ]);
    assert_eq!(
        lines(&mut source, "example.").unwrap(),
        [
            "a.example. 1 IN A 192.0.2.1",
            "a.example. 2 IN A 192.0.2.4",
            "c.sub.example. 2 IN A 192.0.2.5",
            "deep.sub.example. 2 IN A 192.0.2.6",
            "a.example. 2 IN A 192.0.2.2",
            "b.example. 2 IN A 192.0.2.3",
            "d.example. 2 IN A 192.0.2.7",
        ]
    );
}

#[test]
fn errors_name_file_line_and_reason() {
    let mut source = files(&[
        (
            "zone",
            "$TTL 1\n@ SOA . . 1 2 3 4 5\na A 1.2.3\nb TXT (\n\n x\n \"y\" \\300\n )\nc CH A 1.2.3.4\n$INCLUDE in\n",
        ),
        ("in", "\n\nd NS a..b\n$TTL x\n"),
    ]);
    assert_eq!(
        lines(&mut source, "example.").unwrap_err(),
        [
            "zone:3:5: A address: expected an IPv4 address such as 192.0.2.1, found \"1.2.3\"",
            concat!(
                "zone:7:6: TXT text: \"\\300\" has a bad escape; ",
                "after a backslash come three digits up to 255, or one other character"
            ),
            "zone:9:3: class \"CH\" cannot be served; the class must be IN",
            concat!(
                "in:3:6: NS nameserver: \"a..b\" has an empty label; ",
                "look for two dots in a row or a dot at the start"
            ),
            "in:4:6: $TTL: expected a number of seconds such as 3600 or 1h30m, found \"x\"",
        ]
    );
    for (text, error) in [
        ("a TXT \"b\nc 1 A 1.2.3.4\n", "zone:1: a quote is not closed on its line"),
        ("\n\na TXT (\nb\n", "zone:3: this parenthesis is not closed"),
        ("a TXT )\n", "zone:1: there is a closing parenthesis without an opening one"),
        ("$INCLUDE nowhere\n", "zone:1:10: no such file"),
        (" 1 A 1.2.3.4\n", "zone:1: the record has no owner, and no record before it has one"),
        ("a 1 OPT \\# 0\n", "zone:1:5: expected an RR type, a class or a TTL, found \"OPT\""),
        ("a 1 TYPE251 \\# 0\n", "zone:1:5: a zone cannot hold records of type \"TYPE251\": only messages have them"),
    ] {
        assert_eq!(zone(text).unwrap_err()[0], error, "{text}");
    }
}

#[test]
fn apex_comes_from_the_soa_without_an_origin() {
    let loaded = load(&mut files(&[("zone", "a.Test. 1 SOA . . 1 2 3 4 5\n")]), None, &LoadOptions::default()).unwrap();
    assert_eq!(loaded.apex.to_string(), "a.Test.");
    let errors = load(&mut files(&[("zone", "a 1 SOA . . 1 2 3 4 5\n")]), None, &LoadOptions::default()).unwrap_err();
    assert_eq!(errors.first().reason, Reason::Text(TextError::OriginMissing));
    let errors = load(&mut files(&[("zone", "a. 1 A 1.2.3.4\n")]), None, &LoadOptions::default()).unwrap_err();
    assert_eq!(errors.first().reason, Reason::SoaMissing);
}

#[test]
fn loading_is_bounded() {
    let mut source = files(&[("zone", "a 1 A 1.2.3.4\n$INCLUDE zone\n")]);
    let error = format!("zone:2:10: files include each other more than {INCLUDE_DEPTH_MAX} deep");
    assert_eq!(lines(&mut source, "example.").unwrap_err(), [error]);

    let options = LoadOptions { records_max: 3, ..LoadOptions::default() };
    for text in ["$TTL 1\na A 1.1.1.1\nb A 1.1.1.1\nc A 1.1.1.1\nd A 1.1.1.1\n", "$GENERATE 1-9 a$ 1 A 1.1.1.$\n"] {
        let errors = load(&mut files(&[("zone", text)]), Some(&"example.".parse().unwrap()), &options).unwrap_err();
        assert_eq!(errors.first().reason, Reason::RecordsMany);
    }

    // Lines may omit the owner, but each record has it. Here it has 250 bytes.
    let owner = ["x".repeat(60).as_str(); 4].join(".");
    let text = format!("{owner}. 1 A 1.1.1.1\n{}", " 1 A 1.1.1.2\n".repeat(10_000));
    let options = LoadOptions { bytes_max: 1 << 20, ..LoadOptions::default() };
    let errors = load(&mut files(&[("zone", &text)]), Some(&"example.".parse().unwrap()), &options).unwrap_err();
    assert_eq!(errors.first().reason, Reason::BytesMany(1 << 20), "{errors}");

    // The records from one `$GENERATE` line count towards the budget of the whole file, also within `$INCLUDE`.
    let range = |count: u64| format!("$GENERATE 1-{count} a$ 1 A 1.1.1.1\n");
    let whole = zone_whole(&range(GENERATE_RECORDS_MAX)).unwrap();
    assert_eq!(whole.records.len() as u64, GENERATE_RECORDS_MAX);
    let error = format!("$GENERATE: all $GENERATE of a zone file make at most {GENERATE_RECORDS_MAX} records");
    assert_eq!(zone(&range(10_000_000)).unwrap_err(), [format!("zone:1: {error}")]);
    let twice = range(GENERATE_RECORDS_MAX / 2 + 1);
    let mut source = files(&[("zone", &format!("{twice}$INCLUDE more\n")), ("more", &twice)]);
    assert_eq!(lines(&mut source, "example.").unwrap_err(), [format!("more:1: {error}")]);
    let strings = "${0,120,d}".repeat(30);
    let long = format!("a 1 A 1.1.1.1\n$GENERATE 1-200000 a$ 1 TYPE65400 \"\\# 1800 {strings}\"\n");
    let error =
        format!("zone:2: $GENERATE: all $GENERATE of a zone file make at most {GENERATE_BYTES_MAX} bytes of records");
    assert_eq!(zone(&long).unwrap_err(), [error]);

    let long = format!("a 1 TXT ({}\n )\n", "\n x".repeat(600_000));
    assert_eq!(zone_whole(&long).unwrap_err().first().reason, Reason::Text(TextError::EntryLong));
    let many_errors = "a\n".repeat(1000);
    assert_eq!(zone(&many_errors).unwrap_err().len(), crate::limits::FILE_ERRORS_MAX);
}

fn zone_whole(text: &str) -> Result<super::Loaded, super::FileErrors> {
    load(&mut Slice::new(text.into()), Some(&"example.".parse().unwrap()), &LoadOptions::default())
}

/// The expected records are what `named-checkzone -D` of BIND 9.18.49 prints.
#[test]
fn generate_matches_bind() {
    for (directive, records) in [
        ("250-251 ${0,7,n}.n TXT ${0,3,N}.m.\\$", &["a.f.0.0.n TXT \"A.F.m.$\"", "b.f.0.0.n TXT \"B.F.m.$\""][..]),
        ("0-1 a$ MX \"10 mail$\"", &["a0 MX 10 mail0.example.", "a1 MX 10 mail1.example."]),
        ("1-1 d${10} A 10.0.$.${1}", &["d11 A 10.0.1.2"]),
        ("1-2 e${-10,4} A 10.0.$.1", &["e-009 A 10.0.1.1", "e-008 A 10.0.2.1"]),
        ("1-1 f${-10,4,x} A 10.0.$.1", &["ffffffff7 A 10.0.1.1"]),
        ("1-1 l$ TXT a\\$b", &["l1 TXT \"a$b\""]),
        ("1-1 o$ TXT \"a;b\"", &["o1 TXT \"a\""]),
        ("1-1 $ CNAME p$.${0,0,d}", &["1 CNAME p1.1.example."]),
        ("1-1 r${0,2,d}.s${0} A 10.0.$.1", &["r01.s1 A 10.0.1.1"]),
        ("1-1 b$ TXT \"x $ y\"", &["b1 TXT \"x\" \"1\" \"y\""]),
        (
            "1-4/2 c${0,3,x}.${-1,2,d} 1 IN CNAME d$$.x",
            &["c001.00 CNAME d\\$.x.example.", "c003.02 CNAME d\\$.x.example."],
        ),
        ("1-1 del$ TXT ${7}:$:${0}:$", &["del1 TXT \"8:8:1:1\""]),
        ("1-1 neg$ TXT ${-5,6,d}:${-1,0,d}:${-3,6,x}:${-2,3,o}:$", &["neg1 TXT \"-00004:0:fffffffe:37777777777:-1\""]),
        ("1-1 b1$ CNAME @", &["b11 CNAME example."]),
        ("1-1 a8$ AAAA 2001:db8::${0,4,x}", &["a81 AAAA 2001:db8::1"]),
        ("16-16 c7$.${0,2,n} PTR ${0,5,n}.${0,1,N}.${0,0,N}", &["c716.0.1 PTR 0.1.0.0.1.0.1.example."]),
    ] {
        let wanted: Vec<String> = records
            .iter()
            .map(|record| {
                let (owner, rest) = record.split_once(' ').unwrap();
                format!("{owner}.example. 1 IN {rest}")
            })
            .collect();
        assert_eq!(zone(&format!("$TTL 1\n$GENERATE {directive}\n")), Ok(wanted), "{directive}");
    }
    for directive in [
        "250-251 ${0,8,n}.n TXT a",
        "1-2 g${} A 10.0.$.1",
        "1-2 h${1,2,q} A 10.0.$.1",
        "1-2 m$ TXT \"$\" \"b\"",
        "1-2 t$ TYPE1 \\# 4 0a0000$",
        "1-2 x${0,1,d,} A 1.2.3.$",
        "2147483646-2147483647 a6${1} A 1.2.3.4",
        "1-2 a7$ SOA \"a b 1 2 3 4 5\"",
        "1-2 a9$ A @",
        "1-2 c1${0,200,d} A 10.0.0.$",
        "1-2 \"c3 $\" A 10.0.0.$",
        "1-2 c4$ CH A 10.0.0.$",
        "1-2 c6$ A 10.0.0.0$",
    ] {
        assert!(zone(&format!("$TTL 1\n$GENERATE {directive}\n")).is_err(), "{directive}");
    }
}

/// Reads to the end, and ignores errors.
fn drain(bytes: &[u8]) -> usize {
    let mut source = Slice::new(bytes.to_vec());
    let options = LoadOptions { ttl: Some(1), records_max: 1000, ..LoadOptions::default() };
    let origin = "example.".parse().unwrap();
    let mut scanner = Scanner::new(&mut source, Some(&origin), &options).unwrap();
    let mut count = 0;
    while scanner.next_record().is_some() {
        count += 1;
    }
    count
}

proptest! {
    #[test]
    fn parser_terminates_on_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        drain(&bytes);
    }

    #[test]
    fn reader_terminates_on_zone_like_text(
        text in concat!(
            "((\\$(TTL|ORIGIN|INCLUDE|GENERATE|x)|@|a|[a-z$\\\\\\.]{1,5})?[ \t]([0-9]{0,3}[hm]?|1-3|IN|CH)[ ",
            "(]{1,2}(A|TXT|NS|MX|SOA|SVCB|TYPE9|[$]\\{1,2,n\\})[ \n](\"[^\"]{0,4}\"?|[0-9.a;()\\\\]{0,9}|[$]",
            ")\r?\n?){0,12}",
        ),
    ) {
        // The result does not depend on how the bytes are split into pieces.
        let whole = drain(text.as_bytes());
        let mut source = Files([("zone", text)].into());
        let options = LoadOptions { ttl: Some(1), records_max: 1000, ..LoadOptions::default() };
        let origin = "example.".parse().unwrap();
        let mut scanner = Scanner::new(&mut source, Some(&origin), &options).unwrap();
        let pieces = core::iter::from_fn(|| scanner.next_record()).count();
        prop_assert_eq!(whole, pieces);
    }
}

#[test]
fn records_without_a_file_are_checked_alike() {
    use crate::file::from_records;
    use crate::record::{Record, RecordList};
    let text = "@ 5 SOA . . 1 2 3 4 5\na 5 A 1.2.3.4\nb 5 TYPE65300 \\# 1 00\n";
    let mut source = files(&[("zone", text)]);
    let loaded = load(&mut source, Some(&"example.".parse().unwrap()), &LoadOptions::default()).unwrap();
    let again = from_records(RecordList::from_bytes(loaded.records.as_bytes().to_vec()).unwrap()).unwrap();
    assert_eq!((&again.records, &again.apex), (&loaded.records, &loaded.apex));
    let with = |rtype, ttl, rdata: &[u8]| {
        let mut records = loaded.records.to_records();
        records.push(Record {
            owner: "c.example.".parse().unwrap(),
            rtype: wire::Rtype(rtype),
            ttl,
            rdata: rdata.into(),
        });
        from_records(records.into()).map(|loaded| loaded.records.len())
    };
    assert_eq!(with(1, i32::MAX as u32, &[1, 2, 3, 4]), Ok(4));
    for (rtype, ttl, rdata) in [(1, 1 << 31, &[1, 2, 3, 4][..]), (1, 5, &[1, 2, 3]), (41, 5, &[]), (252, 5, &[])] {
        assert_eq!(with(rtype, ttl, rdata), Err(3), "type {rtype}");
    }
    assert_eq!(from_records(RecordList::new()).map(|_| ()), Err(0), "no SOA");
}
