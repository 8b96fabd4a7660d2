//! Runs the scripts in `testdata/update`: a zone, updates, and the outcome of each.
//!
//! `CATAMARAN_REWRITE=1 cargo test -p catamaran-replica --test update_golden` writes the current outcomes. Read the
//! difference before you commit it. A script has these lines:
//!
//! ```text
//! # a comment
//! zone example.test.                        its records follow, indented; names are relative to it, @ is its apex
//!     www 300 A 192.0.2.1
//! policy unixtime 1700000000                how serials change from here on, and the current time
//! rules dhcp.example.                       this key signs the updates from here on; its rules follow, indented
//!     grant dhcp.example. zonesub A(2);
//! case what it shows                        each case starts with the zone above
//!     if www A exists                       the five prerequisites
//!     if www A is 192.0.2.1
//!     if www A does not exist
//!     if www is in use
//!     if www is not in use
//!     add www 300 A 192.0.2.2               the four steps
//!     delete www
//!     delete www A
//!     delete www A 192.0.2.1
//!     raw prerequisite www 0 IN A 192.0.2.1     any record at all: owner, TTL, class, type, rdata or nothing
//!     raw update www 0 ANY A
//! => NOERROR, serial 1 to 2                 the outcome, then deleted (-) and added (+) records; an SOA is shown
//!     + www 300 A 192.0.2.2                 only if more than its serial changes
//! ```
#![expect(clippy::unwrap_used, reason = "an unexpected value fails the test")]

mod support;

use catamaran_replica::io::SerialPolicyOption;
use catamaran_replica::update::{Evaluated, Parsed as Update, Refusal, evaluate, evaluate_within, prescan};
use policy::{Policy, Requestor, Rules, UpdateGrant, text::parse_policy};
use std::fmt::Write as _;
use std::path::Path;
use support::rdata_text::{rdata_of, rdata_text, rtype_of, rtype_text};
use support::test_zone::TestZone;
use support::{name, name_in, name_out};
use tsig::client::UpdateBuilder;
use wire::name::Name;
use wire::number::{Class, Rcode, Rtype};
use wire::parse::{Parsed, Section, parse_request};
use zone::Record;

#[test]
fn scripts_come_out_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/update");
    let rewrite = std::env::var_os("CATAMARAN_REWRITE").is_some();
    let mut cases = 0;
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let (made, count) = run(&text);
        cases += count;
        if rewrite {
            std::fs::write(&file, made).unwrap();
        } else {
            for (at, (expected, got)) in text.lines().zip(made.lines()).enumerate() {
                assert_eq!(got, expected, "{}:{}", file.display(), at + 1);
            }
            assert_eq!(made.lines().count(), text.lines().count(), "{}", file.display());
        }
    }
    assert!(cases >= 100, "only {cases} cases were found in {}", folder.display());
}

/// Runs one script; returns it with the present outcomes, and its number of cases.
fn run(text: &str) -> (String, usize) {
    let mut script = Script {
        zone: TestZone { apex: Name::root(), records: Vec::new() },
        policy: (SerialPolicyOption::Increment, 0),
        rules: None,
        case: Vec::new(),
        under: Under::Case,
    };
    let (mut out, mut cases, mut in_outcome) = (String::new(), 0, false);
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if in_outcome && matches!(words.first(), Some(&("+" | "-"))) {
            continue;
        }
        in_outcome = false;
        if let Some(&"=>") = words.first() {
            out += &script.outcome();
            (cases, in_outcome) = (cases + 1, true);
            continue;
        }
        writeln!(out, "{line}").unwrap();
        match words.first() {
            None | Some(&"#") => {}
            Some(_) => script.line(&words),
        }
    }
    (out, cases)
}

struct Script {
    zone: TestZone,
    policy: (SerialPolicyOption, u64),
    /// The key of the requestor, and the text of the rules.
    rules: Option<(Name, String)>,
    case: Vec<Vec<String>>,
    under: Under,
}

/// The meaning of indented lines.
#[derive(PartialEq)]
enum Under {
    Zone,
    Rules,
    Case,
}

impl Script {
    fn line(&mut self, words: &[&str]) {
        match words {
            ["zone", apex] => {
                self.zone = TestZone { apex: name(apex), records: Vec::new() };
                self.rules = None;
                self.under = Under::Zone;
            }
            ["rules", key] => {
                self.rules = Some((name(key), String::new()));
                self.under = Under::Rules;
            }
            ["policy", policy, now_s] => {
                let policy = match *policy {
                    "increment" => SerialPolicyOption::Increment,
                    "unixtime" => SerialPolicyOption::UnixTime,
                    "date" => SerialPolicyOption::Date,
                    other => panic!("policy {other}"),
                };
                self.policy = (policy, now_s.parse().unwrap());
            }
            ["case", ..] => {
                self.case.clear();
                self.under = Under::Case;
            }
            _ if self.under == Under::Rules => {
                let (_, rules) = self.rules.as_mut().unwrap();
                writeln!(rules, "{}", words.join(" ")).unwrap();
            }
            _ if self.under == Under::Zone => self.zone.records.push(record_of(words, &self.zone.apex)),
            _ => self.case.push(words.iter().map(|&word| word.to_owned()).collect()),
        }
    }

    fn outcome(&self) -> String {
        let apex = &self.zone.apex;
        let mut builder = UpdateBuilder::new(1, apex.as_ref());
        for line in &self.case {
            builder = build(builder, &line.iter().map(String::as_str).collect::<Vec<_>>(), apex);
        }
        let bytes = builder.finish();
        let evaluated = match parse_request(&bytes) {
            Parsed::Request(request) => match prescan(&request) {
                Ok(parsed) => match self.evaluate(&parsed, bytes.len()) {
                    Ok(evaluated) => evaluated,
                    Err(denied) => return format!("=> REFUSED, {denied}\n"),
                },
                Err(rcode) => Evaluated { rcode, changeset: None, refusal: None, work: 0 },
            },
            Parsed::Reject(reject) => Evaluated { rcode: reject.rcode, changeset: None, refusal: None, work: 0 },
            Parsed::Drop(reason) => panic!("{reason:?}"),
        };
        self.show(&evaluated)
    }

    /// Evaluates as the leader does; `Err` is the reason for which the rules deny the update.
    fn evaluate(&self, parsed: &Update, bytes: usize) -> Result<Evaluated, String> {
        let Some((key, text)) = &self.rules else {
            return Ok(evaluate(&self.zone, parsed, self.policy.0, self.policy.1));
        };
        let policy: Policy = parse_policy(text).unwrap();
        let rules =
            Rules { apex: self.zone.apex.as_ref(), zone: Some(&policy), all_zones: None, grant: UpdateGrant::None };
        let evaluator = rules.evaluator(Requestor { key: key.as_ref(), source: [0; 4].into(), is_connected: false });
        let permit = evaluator.permit(&parsed.steps, bytes, Some(&self.zone)).map_err(|denied| denied.to_string())?;
        Ok(evaluate_within(&permit, &self.zone, parsed, self.policy.0, self.policy.1))
    }

    fn show(&self, evaluated: &Evaluated) -> String {
        let mut out = format!("=> {}", evaluated.rcode.mnemonic().unwrap());
        match evaluated.refusal {
            None => {}
            Some(Refusal::Presigned) => out += ", presigned",
            Some(refusal) => write!(out, ", {refusal:?}").unwrap(),
        }
        let Some(changeset) = &evaluated.changeset else {
            let nothing = if evaluated.rcode == Rcode::NOERROR { ", nothing changes" } else { "" };
            return out + nothing + "\n";
        };
        let mut zone = self.zone.clone();
        zone.apply(changeset);
        writeln!(out, ", serial {} to {}", self.zone.serial().0, changeset.serial_to.0).unwrap();
        let (old, new) = (&changeset.deleted[0], &changeset.added[0]);
        let behind_serial = |record: &Record| record.rdata[record.rdata.len() - 16..].to_vec();
        let same_soa = old.ttl == new.ttl
            && old.rdata[..old.rdata.len() - 20] == new.rdata[..new.rdata.len() - 20]
            && behind_serial(old) == behind_serial(new);
        for (sign, records) in [("-", &changeset.deleted), ("+", &changeset.added)] {
            for Record { owner, rtype, ttl, rdata } in records.iter().skip(usize::from(same_soa)) {
                let (owner, rtype_text) = (name_out(owner, &self.zone.apex), rtype_text(*rtype));
                let rdata = rdata_text(*rtype, rdata, &self.zone.apex);
                writeln!(out, "    {sign} {owner} {ttl} {rtype_text} {rdata}").unwrap();
            }
        }
        out
    }
}

fn record_of(words: &[&str], apex: &Name) -> Record {
    let [owner, ttl, rtype, rdata @ ..] = words else { panic!("no record: {words:?}") };
    let rtype = rtype_of(rtype);
    let rdata = rdata_of(rtype, rdata, apex).into();
    Record { owner: name_in(owner, apex), rtype, ttl: ttl.parse().unwrap(), rdata }
}

fn build(builder: UpdateBuilder, words: &[&str], apex: &Name) -> UpdateBuilder {
    let owner = |text: &str| name_in(text, apex);
    match words {
        ["if", name, "is", "in", "use"] => builder.require_name(owner(name).as_ref()),
        ["if", name, "is", "not", "in", "use"] => builder.require_no_name(owner(name).as_ref()),
        ["if", name, rtype, "exists"] => builder.require_rrset(owner(name).as_ref(), rtype_of(rtype)),
        ["if", name, rtype, "does", "not", "exist"] => builder.require_no_rrset(owner(name).as_ref(), rtype_of(rtype)),
        ["if", name, rtype, "is", rdata @ ..] => {
            let rtype = rtype_of(rtype);
            builder.require_record(owner(name).as_ref(), rtype, &rdata_of(rtype, rdata, apex))
        }
        ["add", record @ ..] => {
            let Record { owner, rtype, ttl, rdata } = record_of(record, apex);
            builder.add(owner.as_ref(), ttl, rtype, &rdata)
        }
        ["delete", name] => builder.delete_name(owner(name).as_ref()),
        ["delete", name, rtype] => builder.delete_rrset(owner(name).as_ref(), rtype_of(rtype)),
        ["delete", name, rtype, rdata @ ..] => {
            let rtype = rtype_of(rtype);
            builder.delete_record(owner(name).as_ref(), rtype, &rdata_of(rtype, rdata, apex))
        }
        ["raw", section, name, ttl, class, rtype, rdata @ ..] => {
            let section = match *section {
                "prerequisite" => Section::PREREQUISITE,
                "update" => Section::UPDATE,
                other => panic!("section {other}"),
            };
            let class = match *class {
                "IN" => Class::IN,
                "CH" => Class::CH,
                "ANY" => Class::ANY,
                "NONE" => Class::NONE,
                other => panic!("class {other}"),
            };
            let rtype: Rtype = rtype_of(rtype);
            let rdata = if rdata.is_empty() { Vec::new() } else { rdata_of(rtype, rdata, apex) };
            builder.raw(section, owner(name).as_ref(), (rtype, class, ttl.parse().unwrap()), &rdata)
        }
        other => panic!("no such line: {other:?}"),
    }
}
