//! Anonymizes real captures. The result contains none of their names and addresses, and is as readable as the original.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use support::{Folder, captures, malformed};
use trace::anonymize::{Anonymization, Anonymizer, Key, LabelLengths};
use trace::{Format, Options, Writer, open};
use wire::parse::{Message, Section};
use wire::{NameRef, Rtype, rdata_names};

/// Long labels that stay.
const STAYS: &[&[u8]] = &[
    b"in-addr",
    b"_domainkey",
    b"_kerberos",
    b"_dns-sd",
    b"_dns-update",
    b"_services",
    b"_msdcs",
    b"_sites",
    b"_kpasswd",
    b"_autodiscover",
    b"_sipfederationtls",
    b"_sipinternaltls",
    b"_aaplcache",
    b"_vlmcs",
    b"_afpovertcp",
    b"_airplay",
];
/// Labels of this length do not occur by chance.
const LABEL_BYTES: usize = 6;

/// The identifying contents of a message: labels and addresses.
#[derive(Default)]
struct Observed {
    labels: BTreeSet<Vec<u8>>,
    addresses: BTreeSet<Vec<u8>>,
}

impl Observed {
    fn name(&mut self, name: NameRef<'_>) {
        self.labels.extend(name.labels().map(<[u8]>::to_ascii_lowercase));
    }

    fn address(&mut self, address: IpAddr) {
        let bytes = match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        self.bytes(&bytes);
    }

    /// Addresses with few different bytes (`0.0.0.1`) also occur as counts and times.
    fn bytes(&mut self, bytes: &[u8]) {
        if bytes.iter().collect::<BTreeSet<_>>().len() >= 4 {
            self.addresses.insert(bytes.to_vec());
        }
    }

    fn of(message: &trace::Message<'_>) -> Self {
        let mut observed = Self::default();
        observed.address(message.source.ip());
        observed.address(message.destination.ip());
        // Bytes after the last record are not searched for.
        let Ok(parsed) = Message::parse(message.bytes) else { return observed };
        parsed.questions().for_each(|question| observed.name(question.qname.as_ref()));
        for record in Section::ALL.into_iter().flat_map(|section| parsed.records(section)) {
            let record = record.unwrap();
            observed.name(record.owner.as_ref());
            let mut rdata = Vec::new();
            if record.rdata_canonical(&mut rdata).is_ok() {
                rdata_names(record.rtype, &rdata).for_each(|name| observed.name(name));
                if matches!(record.rtype, Rtype::A | Rtype::AAAA) {
                    observed.bytes(&rdata);
                }
            }
            // Text counts too.
            if record.rtype == Rtype::TXT {
                observed
                    .labels
                    .extend(rdata.split(|byte| !byte.is_ascii_alphanumeric()).map(<[u8]>::to_ascii_lowercase));
            }
        }
        // Zeros and padding occur everywhere.
        observed.labels.retain(|label| {
            label.len() >= LABEL_BYTES
                && label.iter().collect::<BTreeSet<_>>().len() >= 4
                && !STAYS.contains(&label.as_slice())
        });
        observed
    }

    /// Returns an item that occurs in a large file. All items have at least eight bytes.
    fn found_in_file(&self, bytes: &[u8]) -> Option<String> {
        let lower = bytes.to_ascii_lowercase();
        let first = |all: &BTreeSet<Vec<u8>>, bytes: &[u8]| {
            let mut by_word: BTreeMap<[u8; 8], Vec<Vec<u8>>> = BTreeMap::new();
            all.iter().for_each(|one| by_word.entry(*one.first_chunk().unwrap()).or_default().push(one.clone()));
            (0..bytes.len()).find_map(|at| {
                let found = by_word.get(bytes[at..].first_chunk::<8>()?)?;
                found.iter().find(|one| bytes[at..].starts_with(one)).cloned()
            })
        };
        let found = first(&self.labels, &lower).or_else(|| first(&self.addresses, bytes));
        found.map(|found| String::from_utf8_lossy(&found).into_owned())
    }

    /// Returns an item that occurs in these bytes.
    fn found_in(&self, bytes: &[u8]) -> Option<String> {
        let lower = bytes.to_ascii_lowercase();
        let stands = |wanted: &Vec<u8>, bytes: &[u8]| bytes.windows(wanted.len()).any(|part| part == wanted);
        let label = self.labels.iter().find(|label| stands(label, &lower));
        let found = label.or_else(|| self.addresses.iter().find(|address| stands(address, bytes)));
        found.map(|found| String::from_utf8_lossy(found).into_owned())
    }
}

/// Labels of names before and after, by position.
#[derive(Default)]
struct Pairs {
    forth: BTreeMap<Vec<u8>, Vec<u8>>,
    back: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Pairs {
    fn add(&mut self, before: NameRef<'_>, after: NameRef<'_>) {
        assert_eq!(before.label_count(), after.label_count(), "{before} {after}");
        let tree = |label: &[u8]| label.eq_ignore_ascii_case(b"arpa") || label.eq_ignore_ascii_case(b"int");
        let is_reverse = before.labels().last().is_some_and(tree);
        for (before, after) in before.labels().zip(after.labels()).filter(|_| !is_reverse) {
            let (before, after) = (before.to_ascii_lowercase(), after.to_vec());
            assert_eq!(before.len(), after.len());
            assert_eq!(*self.forth.entry(before.clone()).or_insert_with(|| after.clone()), after, "{before:?}");
            assert_eq!(*self.back.entry(after).or_insert_with(|| before.clone()), before);
        }
    }
}

/// A message without the labels that stay, because they may also be labels of hosts (`kerberos`).
fn without_those_that_stay(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for at in 0..bytes.len() {
        let (length, behind) = (usize::from(bytes[at]), &bytes[at + 1..]);
        if STAYS.iter().any(|label| label.len() == length && behind.starts_with(label)) {
            bytes[at + 1..=at + length].fill(0);
        }
    }
    bytes
}

/// Anonymizes a capture and searches the result.
fn check(path: &Path, lengths: LabelLengths, [plain, hidden]: &mut [Writer; 2]) {
    let key = Key::new(std::array::from_fn(|at| at as u8));
    let mut anonymizer = Anonymizer::new(&key, Anonymization { lengths, ..Anonymization::default() });
    let mut reader = open(path, &Options::default()).unwrap();
    let (mut all, mut pairs, mut out) = (Observed::default(), Pairs::default(), Vec::new());
    while let Some(message) = reader.next().unwrap() {
        let Some(after) = anonymizer.apply(&message) else { continue };
        plain.write(&message).unwrap();
        hidden.write(&after).unwrap();
        let without = without_those_that_stay(after.bytes);
        out.extend_from_slice(&without);
        let observed = Observed::of(&message);
        assert_eq!(observed.found_in(&without), None, "{}: {:?}", path.display(), after.bytes);
        assert!(observed.addresses.is_disjoint(&Observed::of(&after).addresses), "{}", path.display());
        let [before, after] = [&message, &after].map(|message| Message::parse(message.bytes).ok());
        if let (LabelLengths::Keep, Some(before), Some(after)) = (lengths, before, after) {
            before.questions().zip(after.questions()).for_each(|(a, b)| pairs.add(a.qname.as_ref(), b.qname.as_ref()));
        }
        all.labels.extend(observed.labels);
        all.addresses.extend(observed.addresses.into_iter().filter(|address| address.len() == 16));
    }
    let tally = anonymizer.tally();
    println!("{}: {tally:?}, {} labels", path.display(), all.labels.len());
    assert_eq!(tally.messages, tally.given + tally.malformed + tally.too_long);
    // For the whole file, only longer labels: shorter ones occur by chance in other messages.
    all.labels.retain(|label| label.len() >= LABEL_BYTES + 2);
    assert_eq!(all.found_in_file(&out), None, "{}", path.display());
}

/// The same for all captures.
fn check_all(lengths: LabelLengths) -> Option<()> {
    let folder = Folder::new(&format!("anonymized-{lengths:?}"));
    let files = [folder.path("plain.pcap"), folder.path("hidden.pcap")];
    let mut writers = files.each_ref().map(|path| Writer::create(path, Format::Capture).unwrap());
    captures().iter().for_each(|path| check(path, lengths, &mut writers));
    writers.into_iter().for_each(|writer| writer.finish().unwrap());
    let [before, after] = [malformed(&files[0])?, malformed(&files[1])?];
    assert!(after.is_subset(&before), "{after:?} malformed, {before:?} before");
    Some(())
}

#[test]
fn output_has_no_original_data() {
    check_all(LabelLengths::Keep);
}

#[test]
fn output_with_hidden_lengths_has_no_original_data() {
    check_all(LabelLengths::Hide);
}

#[test]
fn prefixes_of_the_clients_of_a_capture_are_kept() {
    for path in captures() {
        let mut anonymizer = Anonymizer::new(&Key::new([9; 32]), Anonymization::default());
        let mut reader = open(&path, &Options::default()).unwrap();
        let mut clients: BTreeMap<u128, u128> = BTreeMap::new();
        while let Some(message) = reader.next().unwrap() {
            let Some(after) = anonymizer.apply(&message) else { continue };
            if let (IpAddr::V4(before), IpAddr::V4(after)) = (message.client().ip(), after.client().ip()) {
                let known = clients.insert(before.to_bits().into(), after.to_bits().into());
                assert!(known.is_none_or(|known| known == u128::from(after.to_bits())));
            }
        }
        // Sorted neighbors share the longest prefixes, so comparing them is enough.
        for ((a, first), (b, second)) in clients.iter().zip(clients.iter().skip(1)) {
            assert_eq!((a ^ b).leading_zeros(), (first ^ second).leading_zeros(), "{}", path.display());
        }
        let images: BTreeSet<_> = clients.values().collect();
        assert_eq!(images.len(), clients.len());
    }
}
