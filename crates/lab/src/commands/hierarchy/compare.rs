//! Compares a resolver's answers in a rebuilt hierarchy with the servers' answers in the trace.

use super::ask::Question;
use super::options::RunArguments;
use crate::arguments::open_all_sides;
use crate::commands::trace::{print_lost, read};
use hierarchy::construct::{Fidelity, ObservedAnswers};
use std::error::Error;
use std::fmt::Write as _;

/// Findings of each kind printed as text.
const SHOWN_MAX: usize = 10;
/// Characters shown of an answer.
const ANSWER_SHOWN: usize = 300;

/// The answers of servers in traces.
pub(super) struct Comparison {
    observed: ObservedAnswers,
    fidelity: Fidelity,
}

impl Comparison {
    /// Reads the traces. `None` if there are none.
    pub(super) fn new(arguments: &RunArguments) -> Result<Option<Self>, Box<dyn Error>> {
        if arguments.compare.is_empty() {
            return Ok(None);
        }
        let mut observed = ObservedAnswers::default();
        for path in &arguments.compare {
            let mut reader = open_all_sides(path, &arguments.read)?;
            // The reader has already reported the damage.
            read(path, &mut reader, |message| {
                observed.add(message.bytes);
                Ok(true)
            })?;
            print_lost(path, &reader);
        }
        if observed.questions().len() == 0 {
            return Err("cannot compare: the traces of --compare have no answers of servers".into());
        }
        Ok(Some(Self { observed, fidelity: Fidelity::default() }))
    }

    /// The questions for the resolver.
    pub(super) fn questions(&self) -> Vec<Question> {
        let questions = self.observed.questions();
        questions.map(|question| Question { name: question.name.clone(), rtype: question.rtype }).collect()
    }

    /// Compares an answer with those of servers.
    pub(super) fn judge(&mut self, question: &Question, answer: Option<&[u8]>) {
        let question = hierarchy::construct::Question { name: question.name.clone(), rtype: question.rtype };
        self.fidelity.judge(&self.observed, &question, answer);
    }

    /// The result.
    pub(super) fn finish(self) -> Fidelity {
        let Self { observed, fidelity } = self;
        Fidelity { left_out: observed.left_out, ..fidelity }
    }
}

/// The result as text.
pub(super) fn text(fidelity: &Fidelity) -> String {
    let Fidelity { questions, same, one_of_several, as_far, beyond, other, others, several, left_out } = fidelity;
    let mut text = String::new();
    let mut line = |words: std::fmt::Arguments<'_>| {
        let _written = writeln!(text, "{words}");
    };
    line(format_args!("{questions} questions answered in the trace; answers of the resolver:"));
    for (count, words) in [
        (same, "same sets, without TTLs"),
        (one_of_several, "one of several answers in the trace"),
        (as_far, "same up to an alias that leaves the trace"),
        (beyond, "SERVFAIL: an alias leaves the trace"),
        (other, "different"),
    ] {
        if *count > 0 {
            line(format_args!("  {count:>8}  {words}"));
        }
    }
    for (why, count) in left_out {
        line(format_args!("  not compared: {count} {why}"));
    }
    for other in others.iter().take(SHOWN_MAX) {
        line(format_args!("different: {}", other.question));
        other.servers.iter().for_each(|way| line(format_args!("  servers: {}", shortened(way))));
        line(format_args!("  resolver: {}", shortened(&other.resolver)));
    }
    for several in several.iter().take(SHOWN_MAX) {
        line(format_args!("several answers: {}", several.question));
        several.servers.iter().for_each(|way| line(format_args!("  servers: {}", shortened(way))));
    }
    if others.len().max(several.len()) > SHOWN_MAX {
        line(format_args!("the report of --json or --out has all of them"));
    }
    text
}

fn shortened(answer: &str) -> String {
    match answer.char_indices().nth(ANSWER_SHOWN) {
        Some((end, _)) => format!("{} ...", &answer[..end]),
        None => answer.to_owned(),
    }
}
