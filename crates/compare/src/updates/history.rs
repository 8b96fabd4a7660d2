//! The history of a real zone as UPDATEs: a zone file, and the output of `git diff -U0` from each version to the next.

use super::contents::{Contents, record, rr, serial_of};
use super::message::Update;
use crate::response::{Rr, Section};
use std::fmt;
use wire::name::Name;
use wire::number::Rtype;
use zone::Record;
use zone::text::{scan_rdata_text, scan_rtype};

/// A line that is not a record of the form `owner TTL IN type rdata`, or a difference that does not apply.
#[derive(Debug)]
pub struct HistoryError(String);

impl fmt::Display for HistoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for HistoryError {}

/// The step from one version of the zone to the next.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// Deleted records, including the SOA.
    pub deleted: Section,
    /// Added records, including the SOA.
    pub added: Section,
}

/// A zone and its steps. Records of a signer are left out, because a zone with DNSKEY takes no updates.
#[derive(Clone, Debug)]
pub struct History {
    /// The first version.
    pub base: Contents,
    /// The steps in their order.
    pub steps: Vec<Step>,
}

impl History {
    /// Reads the base zone and the differences, both as text.
    ///
    /// # Errors
    /// [`HistoryError`] names the line.
    pub fn read(base: &str, differences: &str) -> Result<Self, HistoryError> {
        let mut records = Section::new();
        for line in base.lines() {
            records.extend(read_line(line)?);
        }
        let mut steps = Vec::new();
        for commit in differences.split("### commit ").skip(1) {
            let mut step = Step::default();
            // The first lines are the commit and file names, including `---` and `+++`.
            for line in commit.lines().skip_while(|line| !line.starts_with("@@")) {
                match line.split_at_checked(1) {
                    Some(("-", line)) => step.deleted.extend(read_line(line)?),
                    Some(("+", line)) => step.added.extend(read_line(line)?),
                    _ => {}
                }
            }
            // Lines that moved.
            let moved: Vec<Rr> = step.deleted.intersection(&step.added).cloned().collect();
            step.deleted.retain(|rr| !moved.contains(rr));
            step.added.retain(|rr| !moved.contains(rr));
            if !step.added.is_empty() || !step.deleted.is_empty() {
                steps.push(step);
            }
        }
        Ok(Self { base: Contents { records }, steps })
    }
}

/// Parses a line. `None` for records of a signer and for empty lines.
fn read_line(line: &str) -> Result<Option<Rr>, HistoryError> {
    let fail = || HistoryError(format!("no record: {line:?}"));
    let mut rest = line;
    let mut word = || {
        rest = rest.trim_start();
        let (word, behind) = rest.split_once(char::is_whitespace)?;
        rest = behind;
        Some(word)
    };
    if line.trim().is_empty() {
        return Ok(None);
    }
    let (Some(owner), Some(ttl), Some("IN"), Some(rtype)) = (word(), word(), word(), word()) else {
        return Err(fail());
    };
    let rtype = scan_rtype(rtype.as_bytes()).ok_or_else(fail)?;
    if matches!(rtype, Rtype::RRSIG | Rtype::NSEC | Rtype::DNSKEY | Rtype::ZONEMD) {
        return Ok(None);
    }
    let rdata = scan_rdata_text(rtype, rest.as_bytes(), None).map_err(|_| fail())?;
    let (owner, ttl) = (owner.parse::<Name>().map_err(|_| fail())?, ttl.parse().map_err(|_| fail())?);
    Ok(Some(rr(&Record { owner, rtype, ttl, rdata: rdata.into() })))
}

impl Step {
    /// Applies the step to a zone.
    ///
    /// # Errors
    /// [`HistoryError`] if a deleted record does not exist.
    pub fn apply(&self, zone: &mut Contents) -> Result<(), HistoryError> {
        for rr in &self.deleted {
            if !zone.records.remove(rr) {
                return Err(HistoryError(format!("not there: {rr:?}")));
            }
        }
        zone.records.extend(self.added.iter().cloned());
        Ok(())
    }

    /// The step as an UPDATE with the SOA of the new version.
    #[must_use]
    pub fn update(&self, apex: &Name) -> Update {
        let mut update = Update::new(apex);
        for record in self.deleted.iter().filter(|rr| rr.rtype != Rtype::SOA).filter_map(record) {
            update.delete_record(&record.owner, record.rtype, &record.rdata);
        }
        for record in self.added.iter().filter_map(record) {
            update.add(&record.owner, record.rtype, record.ttl, &record.rdata);
        }
        update
    }

    /// The serial after the step. `None` if the step has no SOA.
    #[must_use]
    pub fn serial(&self) -> Option<u32> {
        self.added.iter().find(|rr| rr.rtype == Rtype::SOA).and_then(|soa| serial_of(&soa.rdata))
    }
}
