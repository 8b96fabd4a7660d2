//! The answers of the servers in a trace, and whether a resolver that asks them gives the same answers.
//!
//! A server answers only from its own zones; a resolver follows an alias to the next zone. So the answer to a question
//! is combined from what servers said about each name on the way. If they said different things, at different times or
//! to different clients, each of them is right.

use super::response::{Response, ResponseKind, SkipReason, is_below};
use super::rrset::{self, Rrset, target_of};
use crate::limits::{ALIAS_STEPS_MAX, ALIASES_MAX, FINDINGS_LISTED_MAX, OBSERVED_BYTES_MAX, OBSERVED_OUTCOMES_MAX};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use wire::name::Name;
use wire::number::{Rcode, Rtype};
use wire::parse::{Message, Section};
use wire::rdata::rdata_lowercase;

/// A name and a type.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Question {
    /// In lower case.
    pub name: Name,
    /// A type that zones contain.
    pub rtype: Rtype,
}

/// The observed answers. It must see every message before it is queried.
#[derive(Default)]
pub struct ObservedAnswers {
    answers: BTreeMap<Question, BTreeSet<Outcome>>,
    /// Number of messages that are not answers, by kind.
    pub left_out: BTreeMap<&'static str, u64>,
    bytes: usize,
}

/// RCODE and records of an answer, without TTLs, signatures and order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Outcome {
    rcode: Rcode,
    /// Owner, type and rdata, in lower case where case does not count.
    records: BTreeSet<(Name, Rtype, Box<[u8]>)>,
    /// Whether the answer ends here: its last alias is not followed.
    is_end: bool,
}

/// A resolver's answer compared with those of the servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The same.
    Same,
    /// The same as one of several answers of the servers.
    OneOfSeveral,
    /// The same as far as the trace goes: the last alias leads to a name that was not asked in the trace.
    AsFar,
    /// An alias leads to a name that was not asked in the trace, and the resolver found no server for it.
    Beyond,
    /// A different answer.
    Other,
}

/// The result of all comparisons.
#[derive(Clone, Default, Debug, Serialize)]
pub struct Fidelity {
    /// Number of questions.
    pub questions: u64,
    /// Same answers, as sets and without TTLs.
    pub same: u64,
    /// The same as one of several answers of the servers.
    pub one_of_several: u64,
    /// The same as far as the trace goes: an alias leads out of it.
    pub as_far: u64,
    /// An alias leads out of the trace, and no server was found.
    pub beyond: u64,
    /// Different answers.
    pub other: u64,
    /// The first of the different answers.
    pub others: Vec<ResolverMismatch>,
    /// The first questions with several answers.
    pub several: Vec<SeveralAnswers>,
    /// Number of messages in the traces that are not answers, by kind.
    pub left_out: BTreeMap<&'static str, u64>,
}

/// A question to which the resolver gave a different answer.
#[derive(Clone, Debug, Serialize)]
pub struct ResolverMismatch {
    /// Name and type.
    pub question: String,
    /// The answers of the servers.
    pub servers: Vec<String>,
    /// The answer of the resolver.
    pub resolver: String,
}

/// A question with several answers in the trace.
#[derive(Clone, Debug, Serialize)]
pub struct SeveralAnswers {
    /// Name and type.
    pub question: String,
    /// These answers.
    pub servers: Vec<String>,
}

impl ObservedAnswers {
    /// Adds a message of a server.
    pub fn add(&mut self, bytes: &[u8]) {
        let result = match Response::read(bytes) {
            Ok(response) => self.take(&response),
            Err(SkipReason::Query) => Ok(()),
            Err(reason) => Err(reason.meaning()),
        };
        if let Err(reason) = result {
            *self.left_out.entry(reason).or_default() += 1;
        }
    }

    fn take(&mut self, response: &Response) -> Result<(), &'static str> {
        if matches!(response.kind, ResponseKind::Referral(_)) {
            return Err("that refer to other servers");
        }
        if response.truncated {
            return Err("that are truncated (TC)");
        }
        if response.qtype.is_meta() || matches!(response.qtype, Rtype::ANY | Rtype::RRSIG) {
            return Err("of a type that resolvers do not look up (ANY, RRSIG)");
        }
        let soa = response.find(Section::Authority, Rtype::SOA);
        if response.qtype == Rtype::DS && soa.is_some_and(|soa| soa.owner == response.qname) {
            // RFC 4035 3.1.4.1: DS is data of the parent. No resolver is referred to the child for it.
            return Err("of a zone about its own DS, which the zone above has");
        }
        let outcome = Outcome::of_server(response, soa);
        let size = outcome.bytes();
        let question = Question { name: response.qname.clone(), rtype: response.qtype };
        let outcomes = self.answers.get(&question);
        if outcomes.is_some_and(|outcomes| outcomes.contains(&outcome)) {
            return Ok(());
        }
        if self.bytes + size > OBSERVED_BYTES_MAX
            || outcomes.is_some_and(|outcomes| outcomes.len() >= OBSERVED_OUTCOMES_MAX)
        {
            return Err("beyond the bounds: too many questions, or answers to one");
        }
        self.bytes += size;
        self.answers.entry(question).or_default().insert(outcome);
        Ok(())
    }

    /// The questions that were answered, in canonical order.
    pub fn questions(&self) -> impl ExactSizeIterator<Item = &Question> {
        self.answers.keys()
    }

    /// All right answers to a question.
    fn outcomes(&self, question: &Question) -> BTreeSet<Outcome> {
        let mut steps = ALIAS_STEPS_MAX;
        self.outcomes_after(question, &mut Vec::new(), &mut steps)
    }

    /// The same for a name that the aliases in `before` lead to.
    fn outcomes_after(&self, question: &Question, before: &mut Vec<Name>, steps: &mut usize) -> BTreeSet<Outcome> {
        let mut outcomes = BTreeSet::new();
        before.push(question.name.clone());
        for outcome in self.answers.get(question).into_iter().flatten() {
            *steps = steps.saturating_sub(1);
            let on = Question { name: outcome.last(question), rtype: question.rtype };
            let leads_on = !before.contains(&on.name) && before.len() < ALIASES_MAX && *steps > 0;
            let further = if leads_on { self.outcomes_after(&on, before, steps) } else { BTreeSet::new() };
            if outcome.is_end || further.is_empty() {
                outcomes.insert(outcome.clone());
            }
            outcomes.extend(further.into_iter().map(|further| outcome.followed_by(further, &on.name)));
            while outcomes.len() > OBSERVED_OUTCOMES_MAX {
                outcomes.pop_last();
            }
        }
        before.pop();
        outcomes
    }
}

impl Outcome {
    fn of_server(response: &Response, soa: Option<&Rrset>) -> Self {
        let chain = response.chain();
        let is_on_way = |rrset: &&Rrset| match rrset.kind.rtype {
            Rtype::DNAME => chain.iter().any(|name| is_below(name, &rrset.owner)),
            Rtype::CNAME => chain.contains(&&rrset.owner),
            rtype => rtype == response.qtype && chain.contains(&&rrset.owner),
        };
        let answer = response.rrsets(Section::Answer);
        let records = answer.iter().filter(is_on_way).flat_map(records_of).collect();
        let last = chain[chain.len() - 1];
        let has_data = answer.iter().any(|rrset| rrset.owner == *last && rrset.kind.rtype == response.qtype);
        let is_denied = response.rcode != Rcode::NOERROR || soa.is_some_and(|soa| is_below(last, &soa.owner));
        Self { rcode: response.rcode, records, is_end: chain.len() == 1 || has_data || is_denied }
    }

    fn of_resolver(message: &Message<'_>) -> Self {
        let mut malformed_count = 0;
        let rrsets = rrset::collect(message, Section::Answer, &mut malformed_count);
        let is_data = |rrset: &&Rrset| rrset.kind.rtype != Rtype::RRSIG;
        let records = rrsets.iter().filter(is_data).flat_map(records_of).collect();
        Self { rcode: message.rcode(), records, is_end: true }
    }

    /// The name that the aliases of a question lead to.
    fn last(&self, question: &Question) -> Name {
        let mut last = question.name.clone();
        let is_alias = |rtype: Rtype| rtype == Rtype::CNAME && question.rtype != Rtype::CNAME;
        for _ in 0..ALIASES_MAX {
            let alias = self.records.iter().find(|(owner, rtype, _)| is_alias(*rtype) && *owner == last);
            match alias.and_then(|(_, rtype, rdata)| target_of(*rtype, rdata)) {
                Some(target) => last = target,
                None => break,
            }
        }
        last
    }

    /// Its aliases, followed by the answer for the name that they lead to.
    fn followed_by(&self, further: Self, last: &Name) -> Self {
        let aliases = self.records.iter().filter(|(owner, ..)| owner != last);
        Self { records: aliases.cloned().chain(further.records).collect(), ..further }
    }

    fn bytes(&self) -> usize {
        self.records.iter().map(|(owner, _, rdata)| owner.as_bytes().len() + rdata.len() + RECORD_BYTES).sum::<usize>()
            + RECORD_BYTES
    }
}

/// Memory of a record besides its data.
const RECORD_BYTES: usize = 96;

fn records_of(rrset: &Rrset) -> impl Iterator<Item = (Name, Rtype, Box<[u8]>)> {
    rrset.rdatas.iter().map(|rdata| {
        let mut rdata = rdata.clone();
        rdata_lowercase(rrset.kind.rtype, &mut rdata);
        (rrset.owner.clone(), rrset.kind.rtype, rdata)
    })
}

impl Fidelity {
    /// Compares the answer of a resolver, if there is one, with those of the servers.
    pub fn judge(&mut self, observed: &ObservedAnswers, question: &Question, answer: Option<&[u8]>) -> Verdict {
        let outcomes = observed.outcomes(question);
        let found = answer.and_then(|bytes| Message::parse(bytes).ok()).map(|message| Outcome::of_resolver(&message));
        let verdict = verdict(&outcomes, found.as_ref());
        self.questions += 1;
        let count = match verdict {
            Verdict::Same => &mut self.same,
            Verdict::OneOfSeveral => &mut self.one_of_several,
            Verdict::AsFar => &mut self.as_far,
            Verdict::Beyond => &mut self.beyond,
            Verdict::Other => &mut self.other,
        };
        *count += 1;
        let servers = || outcomes.iter().map(Outcome::to_string).collect();
        if outcomes.len() > 1 && self.several.len() < FINDINGS_LISTED_MAX {
            self.several.push(SeveralAnswers { question: question.to_string(), servers: servers() });
        }
        if verdict == Verdict::Other && self.others.len() < FINDINGS_LISTED_MAX {
            let resolver = found.map_or_else(|| "no answer".to_owned(), |found| found.to_string());
            self.others.push(ResolverMismatch { question: question.to_string(), servers: servers(), resolver });
        }
        verdict
    }
}

fn verdict(outcomes: &BTreeSet<Outcome>, found: Option<&Outcome>) -> Verdict {
    let Some(found) = found else { return Verdict::Other };
    if outcomes
        .iter()
        .any(|expected| expected.is_end && (expected.rcode, &expected.records) == (found.rcode, &found.records))
    {
        return if outcomes.len() == 1 { Verdict::Same } else { Verdict::OneOfSeveral };
    }
    let mut open = outcomes.iter().filter(|expected| !expected.is_end);
    match found.rcode {
        Rcode::SERVFAIL if open.next().is_some() => Verdict::Beyond,
        Rcode::NOERROR | Rcode::NXDOMAIN if open.any(|expected| expected.records.is_subset(&found.records)) => {
            Verdict::AsFar
        }
        _ => Verdict::Other,
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rtype = String::new();
        zone::text::print_rtype(self.rtype, &mut rtype);
        write!(f, "{} {rtype}", self.name)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rcode.mnemonic() {
            Some(mnemonic) => f.write_str(mnemonic)?,
            None => write!(f, "RCODE {}", self.rcode.0)?,
        }
        for (owner, rtype, rdata) in &self.records {
            let mut text = format!("{owner} ");
            zone::text::print_rtype(*rtype, &mut text);
            text.push(' ');
            zone::text::print_rdata(*rtype, rdata, &mut text);
            write!(f, "; {text}")?;
        }
        if self.is_end { Ok(()) } else { f.write_str("; and on, where no server was asked") }
    }
}

#[cfg(test)]
mod tests;
