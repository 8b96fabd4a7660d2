//! Scripts of zones, queries and what is answered: `testdata/*.txt`.
//!
//! A script has zones and queries; `#` begins a comment. The lines after a query that begin with `>` are its answer.
//! `CATAMARAN_REWRITE=1` rewrites them: read the difference before you commit it.
//!
//! ```text
//!   zone APEX [nsec | nsec3 | optout] [loading | expired]   the records follow, indented: OWNER [TTL] TYPE RDATA
//!   query QNAME [CLASS] QTYPE [do] [noedns] [payload=N] [tcp] [nsid] [zoneversion] [expire] [tsig=N] [limit=N]
//! ```
//!
//! RRSIGs are shown by the type that they cover; the owner of an NSEC3 record as `H(name)`, which a QNAME may have too.

use crate::common::{add_zone, name, small_set};
use crate::signing::{PARAMS, Scheme, ancestors, sign};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use wire::builder::MessageBuilder;
use wire::name::{Name, NameRef};
use wire::number::{Class, Rcode, Rtype};
use wire::parse::{Header, Message, Parsed, RecordView, Request, Section, parse_request};
use zone::answer::{AnswerContext, Chaos, Servable, Transport, answer, answer_from};
use zone::record::Record;
use zone::set::ZoneSet;
use zone::text::{print_rdata, print_rtype, scan_rdata_text, scan_rtype};

#[test]
fn scripts() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let rewrite = std::env::var_os("CATAMARAN_REWRITE").is_some();
    let mut failed = Vec::new();
    let mut count = 0;
    let mut files: Vec<_> = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for path in files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "txt")) {
        let script = std::fs::read_to_string(path).unwrap();
        let (written, queries) = Script::run(&script);
        count += queries;
        if written == script {
            continue;
        }
        if rewrite {
            std::fs::write(path, &written).unwrap();
            continue;
        }
        let line = script.lines().zip(written.lines()).position(|(is, was)| is != was);
        let line = line.unwrap_or(script.lines().count().min(written.lines().count()));
        failed.push(format!(
            "{}:{}\n  script: {}\n  answer: {}",
            path.display(),
            line + 1,
            script.lines().nth(line).unwrap_or("(ends)"),
            written.lines().nth(line).unwrap_or("(ends)"),
        ));
    }
    assert!(failed.is_empty(), "answers differ from the scripts:\n{}", failed.join("\n"));
    assert!(count > 100, "only {count} queries were found");
}

/// A script while it runs.
struct Script {
    set: ZoneSet,
    states: BTreeMap<Name, Servable>,
    /// The zone whose records are being read.
    zone: Option<(Name, Scheme, Vec<Record>)>,
    /// What the owners of NSEC3 records stand for.
    hashed: BTreeMap<String, String>,
}

impl Script {
    /// Runs a script; returns it with the answers that are given, and how many there are.
    fn run(text: &str) -> (String, usize) {
        let mut script = Self { set: small_set(), states: BTreeMap::new(), zone: None, hashed: BTreeMap::new() };
        let (mut written, mut count) = (String::new(), 0);
        for line in text.lines().filter(|line| !line.starts_with('>')) {
            writeln!(written, "{line}").unwrap();
            let bare = line.split_once('#').map_or(line, |(before, _)| before);
            if bare.trim().is_empty() {
                continue;
            }
            if bare.starts_with(' ') {
                let (apex, _, records) = script.zone.as_mut().expect("a zone before its records");
                records.push(scan_record(apex, bare));
                continue;
            }
            script.finish_zone();
            let words: Vec<&str> = bare.split_whitespace().collect();
            match words[0] {
                "zone" => script.start_zone(&words[1..]),
                "query" => {
                    count += 1;
                    for line in script.ask(&words[1..]).lines() {
                        writeln!(written, "> {line}").unwrap();
                    }
                }
                other => panic!("{other:?}: zone or query"),
            }
        }
        (written, count)
    }

    fn start_zone(&mut self, words: &[&str]) {
        let (apex, mut scheme) = (name(words[0]), Scheme::Unsigned);
        for &word in &words[1..] {
            match word {
                "nsec" => scheme = Scheme::Nsec,
                "nsec3" => scheme = Scheme::Nsec3,
                "optout" => scheme = Scheme::Nsec3OptOut,
                "loading" => drop(self.states.insert(apex.clone(), Servable::Loading)),
                "expired" => drop(self.states.insert(apex.clone(), Servable::Expired)),
                _ => panic!("{word:?}: no such word for a zone"),
            }
        }
        self.zone = Some((apex, scheme, Vec::new()));
    }

    fn finish_zone(&mut self) {
        let Some((apex, scheme, records)) = self.zone.take() else { return };
        for record in &records {
            for known in ancestors(&apex, &record.owner) {
                let label = PARAMS.label(known.as_ref());
                self.hashed.insert(String::from_utf8_lossy(&label).into_owned(), known.to_string());
            }
        }
        add_zone(&mut self.set, &apex.to_string(), &sign(&apex, records, scheme));
    }

    /// Asks, and shows what is answered.
    fn ask(&self, words: &[&str]) -> String {
        let query = Query::new(words);
        let bytes = query.build();
        let Parsed::Request(request) = parse_request(&bytes) else { panic!("{words:?}: no request") };
        let state =
            |zone: &zone::set::Zone<'_>| self.states.get(&zone.apex().to_name()).copied().unwrap_or(Servable::Ready);
        let context = AnswerContext {
            transport: query.transport,
            udp_bytes_max: 1232,
            payload: 1232,
            nsid: Some(b"node-1"),
            cookie: None,
            keepalive: Some(100),
            padding_block: 0,
            chaos: Chaos { id_server: Some(b"node-1"), version: None },
            zone_state: &state,
            tsig_reserve: query.tsig_reserve,
        };
        let mut out = vec![0; 65_535];
        let answered = answer(self.set.published(), &request, &context, &mut out);
        self.assert_same_from_its_zone(&request, &context, &out[..answered.len]);
        let response = Message::parse(&out[..answered.len]).expect("a response that parses");
        assert_eq!(answered.rcode, response.rcode());
        assert_eq!(answered.truncated, response.header().tc);
        let most = if query.transport == Transport::Tcp { 65_535 } else { query.payload.clamp(512, 1232).into() };
        assert!(answered.len + query.tsig_reserve <= most, "{} bytes", answered.len);
        let mut shown = format!("{} {}", answered.kind.label(), rcode_text(answered.rcode));
        let header = response.header();
        assert!(header.qr && !header.ra && !header.ad && !header.cd && !header.z);
        for (flag, text) in [(header.aa, " aa"), (header.tc, " tc")] {
            shown.push_str(if flag { text } else { "" });
        }
        self.show_edns(&response, &mut shown);
        shown.push('\n');
        for section in Section::ALL {
            let records: Vec<RecordView<'_>> = response.records(section).map(Result::unwrap).collect();
            for record in records.iter().filter(|record| record.rtype != Rtype::OPT) {
                writeln!(shown, "  {} {}", format!("{section:?}").to_lowercase(), self.show(record)).unwrap();
            }
        }
        shown
    }

    /// Whoever finds the zone first and then asks it gets the same bytes, but for class CH, which is of no zone.
    fn assert_same_from_its_zone(&self, request: &Request<'_>, context: &AnswerContext<'_>, response: &[u8]) {
        let Some(question) = request.question.filter(|question| question.qclass != Class::CH) else { return };
        let set = self.set.published();
        let zone = set.find_for(question.qname, question.qtype);
        let mut out = vec![0; 65_535];
        let answered = answer_from(set, zone.as_ref(), request, context, &mut out);
        assert_eq!(&out[..answered.len], response, "{}", question.qname);
    }

    fn show_edns(&self, response: &Message<'_>, shown: &mut String) {
        let Some(edns) = response.edns() else { return };
        shown.push_str(if edns.dnssec_ok { " do" } else { "" });
        for (code, data) in edns.options() {
            match code {
                3 => write!(shown, " nsid={}", String::from_utf8_lossy(data)),
                9 => write!(shown, " expire={}", u32::from_be_bytes(data.try_into().unwrap())),
                15 => write!(shown, " ede={}", u16::from_be_bytes([data[0], data[1]])),
                19 => write!(shown, " zoneversion={data:?}"),
                _ => write!(shown, " option{code}={data:?}"),
            }
            .unwrap();
        }
    }

    /// A record in one line.
    fn show(&self, record: &RecordView<'_>) -> String {
        let mut rdata = Vec::new();
        record.rdata_canonical(&mut rdata).expect("rdata that is well formed");
        let mut shown = format!("{} {} ", self.show_owner(record.owner.as_ref()), record.ttl);
        if record.class == Class::CH {
            shown.push_str("CH ");
        }
        print_rtype(record.rtype, &mut shown);
        shown.push(' ');
        match record.rtype {
            Rtype::RRSIG => print_rtype(Rtype(u16::from_be_bytes([rdata[0], rdata[1]])), &mut shown),
            rtype => print_rdata(rtype, &rdata, &mut shown),
        }
        if record.rtype == Rtype::NSEC3 {
            for (label, known) in &self.hashed {
                let upper = label.to_ascii_uppercase();
                shown = shown.replace(label.as_str(), &format!("H({known})")).replace(&upper, &format!("H({known})"));
            }
        }
        shown
    }

    fn show_owner(&self, owner: NameRef<'_>) -> String {
        let text = owner.to_string();
        match text.split_once('.').and_then(|(label, _)| self.hashed.get(&label.to_ascii_lowercase())) {
            Some(known) => format!("H({known})"),
            None => text,
        }
    }
}

/// What a query line says.
struct Query {
    qname: Name,
    qclass: Class,
    qtype: Rtype,
    edns: bool,
    dnssec_ok: bool,
    payload: u16,
    transport: Transport,
    options: Vec<u16>,
    tsig_reserve: usize,
}

impl Query {
    fn new(words: &[&str]) -> Self {
        let (class, rest) = match words[1] {
            "CH" => (Class::CH, &words[2..]),
            "HS" => (Class::HS, &words[2..]),
            "ANYCLASS" => (Class::ANY, &words[2..]),
            _ => (Class::IN, &words[1..]),
        };
        let mut query = Self {
            qname: qname(words[0]),
            qclass: class,
            qtype: qtype(rest[0]),
            edns: true,
            dnssec_ok: false,
            payload: 1232,
            transport: Transport::Udp,
            options: Vec::new(),
            tsig_reserve: 0,
        };
        for &word in &rest[1..] {
            match word.split_once('=') {
                None if word == "do" => query.dnssec_ok = true,
                None if word == "noedns" => (query.edns, query.payload) = (false, 512),
                None if word == "tcp" => query.transport = Transport::Tcp,
                None if word == "nsid" => query.options.push(3),
                None if word == "zoneversion" => query.options.push(19),
                None if word == "expire" => query.options.push(9),
                Some(("payload", bytes)) => query.payload = bytes.parse().unwrap(),
                Some(("tsig", bytes)) => query.tsig_reserve = bytes.parse().unwrap(),
                _ => panic!("{word:?}: no such word for a query"),
            }
        }
        query
    }

    fn build(&self) -> Vec<u8> {
        let header = Header { id: 0x1234, rd: true, ..Header::default() };
        let mut message = MessageBuilder::new(header).question(self.qname.as_ref(), self.qtype, self.qclass);
        if self.edns {
            message = message.edns(self.payload, self.dnssec_ok);
        }
        for &code in &self.options {
            message = message.option(code, &[]);
        }
        message.build()
    }
}

/// A name; `H(name).apex` is the owner of the NSEC3 record of a name.
fn qname(text: &str) -> Name {
    match text.strip_prefix("H(").and_then(|text| text.split_once(").")) {
        Some((hashed, apex)) => {
            let label = PARAMS.label(name(hashed).as_ref());
            name(&format!("{}.{apex}", String::from_utf8_lossy(&label)))
        }
        None => name(text),
    }
}

/// OWNER [TTL] TYPE RDATA, names relative to the apex.
fn scan_record(apex: &Name, line: &str) -> Record {
    let (owner, rest) = line.trim().split_once(' ').expect("an owner");
    let rest = rest.trim();
    let (ttl, rest) = match rest.split_once(' ') {
        Some((ttl, rest)) if ttl.bytes().all(|byte| byte.is_ascii_digit()) => (ttl.parse().unwrap(), rest.trim()),
        _ => (600, rest),
    };
    let (rtype, rdata) = rest.split_once(' ').expect("a type and rdata");
    let rtype = qtype(rtype);
    let owner = match owner {
        "@" => apex.clone(),
        absolute if absolute.ends_with('.') => name(absolute),
        relative if apex.as_ref().is_root() => name(&format!("{relative}.")),
        relative => name(&format!("{relative}.{apex}")),
    };
    let rdata = scan_rdata_text(rtype, rdata.trim().as_bytes(), Some(apex.as_ref()))
        .unwrap_or_else(|error| panic!("{line:?}: {error:?}"));
    Record { owner, rtype, ttl, rdata: rdata.into() }
}

fn qtype(text: &str) -> Rtype {
    match text {
        "ANY" => Rtype::ANY,
        "AXFR" => Rtype::AXFR,
        "IXFR" => Rtype::IXFR,
        "OPT" => Rtype::OPT,
        "TSIG" => Rtype::TSIG,
        "TKEY" => Rtype::TKEY,
        "MAILA" => Rtype::MAILA,
        "MAILB" => Rtype::MAILB,
        _ => scan_rtype(text.as_bytes()).unwrap_or_else(|| panic!("{text:?}: no type")),
    }
}

fn rcode_text(rcode: Rcode) -> &'static str {
    rcode.mnemonic().expect("an RCODE with a name")
}
