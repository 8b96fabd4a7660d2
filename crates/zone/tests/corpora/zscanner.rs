//! Knot's scanner tests: fragments of zone files, and for each record its bytes or an error.

use super::support::{data, read_tar, unhex};
use catamaran_zone::file::{Input, LoadOptions, Opened, Scanner, Slice, Source};
use std::collections::BTreeMap;

/// What one entry gives.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Item {
    Record { owner: Vec<u8>, ttl: u32, rtype: u16, rdata: Vec<u8> },
    Error,
}

/// The archive as a source; `@TMPDIR@` and `./` are its top.
struct Archive<'f>(&'f BTreeMap<String, Vec<u8>>, &'f str);

impl Source for Archive<'_> {
    fn open(&mut self, name: Option<&str>, from: Option<&str>) -> Result<Opened, String> {
        let name = name.unwrap_or(self.1).trim_start_matches("@TMPDIR@/").trim_start_matches("./");
        // A path is relative to the file that names it.
        let beside = from.and_then(|from| from.rsplit_once('/')).map(|(folder, _)| format!("{folder}/{name}"));
        let found = beside.and_then(|beside| self.0.get_key_value(&beside)).or_else(|| self.0.get_key_value(name));
        let (name, bytes) = found.ok_or("no such file")?;
        let input: Box<dyn Input> = Box::new(Slice::new(bytes.clone()));
        Ok(Opened { name: name.clone(), input })
    }
}

fn ours(files: &BTreeMap<String, Vec<u8>>, name: &str) -> Vec<Item> {
    let mut source = Archive(files, name);
    let origin = ".".parse().unwrap();
    let options = LoadOptions { ttl: Some(3600), ..LoadOptions::default() };
    let mut scanner = Scanner::new(&mut source, Some(&origin), &options).unwrap();
    let mut items = Vec::new();
    while let Some(result) = scanner.next_record() {
        items.push(match result {
            Err(_) => Item::Error,
            Ok(scanned) => {
                let record = scanned.record;
                let owner = record.owner.as_bytes().to_vec();
                Item::Record { owner, ttl: record.ttl, rtype: record.rtype.0, rdata: record.rdata.to_vec() }
            }
        });
    }
    items
}

fn theirs(text: &str) -> Vec<Item> {
    let mut items = Vec::new();
    for block in text.split("------\n").filter(|block| !block.trim().is_empty()) {
        let field = |key: &str| block.lines().find_map(|line| line.strip_prefix(key));
        items.push(match field("OWNER=") {
            None => Item::Error,
            Some(owner) => Item::Record {
                owner: unhex(owner),
                ttl: u32::from_str_radix(field("RRTTL=").unwrap(), 16).unwrap(),
                rtype: u16::from_str_radix(field("RTYPE=").unwrap(), 16).unwrap(),
                rdata: unhex(field("RDATA=").unwrap()),
            },
        });
    }
    items
}

/// Items that differ and why: file, how many, reason. The count is exact.
const KNOWN: &[(&str, usize, &str)] = &[
    ("00-2_general.in", 1, "a line may end with CR LF, as in BIND and NSD"),
    ("02_class.in", 1, "CLASS1 is IN (RFC 3597 5)"),
    ("04-1_ORIGIN.in", 1, "$ORIGIN may be relative to the origin before, as in BIND and NSD"),
    ("04-2_ORIGIN.in", 1, NAMES),
    ("06-0_INCLUDE.in", 6, "$TTL of an included file holds behind it (RFC 2308 4), as in BIND and NSD"),
    ("06-1_INCLUDE.in", 3, "the origin of $INCLUDE may be relative, as in BIND"),
    ("06-2_INCLUDE.in", 3, NAMES),
    ("06-6_INCLUDE.in", 1, "an error in an included file is one error, not one more for the $INCLUDE"),
    ("06-7_INCLUDE.in", 1, "an error in an included file is one error, not one more for the $INCLUDE"),
    ("12_TXT.in", 2, "a character string of 256 bytes is refused, as in BIND and NSD; Knot makes two of it"),
    ("12_TXT.in", 1, "strings need no space between them, as in BIND and NSD"),
    ("14_NS.in", 5, NAMES),
    ("18_MX.in", 1, NAMES),
    ("26_SRV.in", 1, NAMES),
    ("30_KEY.in", 1, PIECES),
    ("30_KEY.in", 1, "KEY may have no key (RFC 2535 3.1.2)"),
    ("36_RRSIG.in", 1, NAMES),
    ("36_RRSIG.in", 1, PIECES),
    ("38_DHCID.in", 1, PIECES),
    ("42_LOC.in", 1, "90 59 59.999 S lies beyond the pole (RFC 1876 3)"),
    ("42_LOC.in", 2, "so does a latitude of 0 on the wire, -596 degrees (RFC 1876 2)"),
    ("50_CDNSKEY.in", 1, PIECES),
    ("52_CAA.in", 1, "the tag of CAA must not be empty (RFC 8659 4.1)"),
    ("56_ZONEMD.in", 6, "a digest of ZONEMD has 12 bytes at least (RFC 8976 2.2.4)"),
    ("62_ALIAS.in", 4, "ALIAS is no registered type; Knot gives it a private number"),
];
const NAMES: &str = "any printable character may stand in a name without an escape (RFC 2181 11), as in BIND and NSD";
const PIECES: &str = "base64 may be split anywhere (RFC 4034 2.2), as in BIND and NSD";

#[test]
fn items_equal_those_of_knot() {
    let Some(folder) = data() else { return };
    let files = read_tar(&folder, "knot-zscanner-even.tar.xz");
    let (mut equal, mut all) = (0, 0);
    let mut differing: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for name in files.keys().filter(|name| name.ends_with(".in")) {
        let expected = String::from_utf8(files[&name.replace(".in", ".out")].clone()).unwrap();
        let (ours, theirs) = (ours(&files, name), theirs(&expected));
        for at in 0..ours.len().max(theirs.len()) {
            all += 1;
            if ours.get(at) == theirs.get(at) {
                equal += 1;
            } else {
                let line = format!("{at}: ours {:x?}, theirs {:x?}", ours.get(at), theirs.get(at));
                differing.entry(name.as_str()).or_default().push(line);
            }
        }
    }
    println!("{equal} of {all} items equal; the others:");
    for (name, count, reason) in KNOWN {
        println!("  {count} in {name}: {reason}");
    }
    for name in KNOWN.iter().map(|known| known.0) {
        assert!(differing.contains_key(name), "{name} differs no more");
    }
    for (name, lines) in &differing {
        let known: usize = KNOWN.iter().filter(|known| known.0 == *name).map(|known| known.1).sum();
        assert_eq!(lines.len(), known, "{name}:\n{}", lines.join("\n"));
    }
}
