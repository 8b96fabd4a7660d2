//! What both readings of a trace read: the file, what a program has made of it, or what one makes of it meanwhile.

use super::ReplayError;
use super::order::Ordered;
use crate::mutation::{Ended, Flow, Spool, Through, feed};
use ::trace::mutate::{Mutator, Plan};
use ::trace::{Options, Reader, TraceError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// See the module. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Input {
    /// The trace, as it was named.
    trace: PathBuf,
    reading: Options,
    way: Way,
}

#[derive(Clone, Debug)]
enum Way {
    /// As it stands.
    File,
    /// What a program has made of it.
    Spooled(Arc<Spool>),
    /// What rules, and then a program, make of it each time that it is read.
    Live(Arc<Live>),
}

#[derive(Debug)]
struct Live {
    rules: Option<Plan>,
    command: String,
}

/// A trace that is being read, and the program that it comes through.
pub(super) struct Opened {
    pub(super) reader: Reader,
    pub(super) program: Option<Flow<Option<String>>>,
}

impl Input {
    /// A file.
    #[must_use]
    pub fn file(trace: &Path, reading: Options) -> Self {
        Self { trace: trace.to_owned(), reading, way: Way::File }
    }

    /// What a program has made of a trace.
    #[must_use]
    pub fn spooled(trace: &Path, spool: Spool) -> Self {
        Self { trace: trace.to_owned(), reading: Options::default(), way: Way::Spooled(Arc::new(spool)) }
    }

    /// What rules, if there are any, and then a command of the shell make of a file. It runs for each reading: before
    /// the run to learn who asks, and during the run.
    #[must_use]
    pub fn live(trace: &Path, reading: Options, rules: Option<Plan>, command: &str) -> Self {
        let live = Live { rules, command: command.to_owned() };
        Self { trace: trace.to_owned(), reading, way: Way::Live(Arc::new(live)) }
    }

    /// The trace, as it was named.
    #[must_use]
    pub fn trace(&self) -> &Path {
        &self.trace
    }

    /// Why the trace could not be read to its end, where that is known beforehand.
    pub(super) fn damaged(&self) -> Option<String> {
        match &self.way {
            Way::Spooled(spool) => spool.damaged().map(str::to_owned),
            Way::File | Way::Live(_) => None,
        }
    }

    /// Opens it, from its beginning.
    pub(super) fn open(&self) -> Result<Opened, ReplayError> {
        let failed = |error: TraceError| ReplayError::Trace(self.trace.clone(), error);
        let (path, live) = match &self.way {
            Way::File => (self.trace.as_path(), None),
            Way::Spooled(spool) => (spool.path(), None),
            Way::Live(live) => (self.trace.as_path(), Some(live)),
        };
        let mut file = ::trace::open(path, &self.reading).map_err(failed)?;
        let Some(live) = live else { return Ok(Opened { reader: file, program: None }) };
        let mut mutator = live.rules.clone().map(Mutator::new).transpose().map_err(ReplayError::Rules)?;
        let started = Through::start_apart(&live.command);
        let started = started.map_err(|error| ReplayError::Program("sh".to_owned(), error.to_string()))?;
        let flow = started.flow(move |pipe| feed(&mut file, mutator.as_mut(), pipe));
        let (reader, program) = flow.map_err(|error| ReplayError::Program(live.command.clone(), error.to_string()))?;
        Ok(Opened { reader, program: Some(program) })
    }
}

/// Ends the program behind a trace that has been read to its end; gives why the file could not be read to its own.
pub(super) fn end(program: Option<Flow<Option<String>>>, trace: &Ordered) -> Result<Option<String>, ReplayError> {
    let Some(program) = program else { return Ok(None) };
    let command = program.command().to_owned();
    let failed = |why: String| ReplayError::Program(command.clone(), why);
    let (Ended { status, .. }, damaged) = program.end().map_err(|error| failed(error.to_string()))?;
    if !status.success() {
        return Err(failed(status.to_string()));
    }
    match trace.losses() {
        losses if losses.is_empty() => Ok(damaged),
        losses => Err(failed(format!("it wrote what is no line: {losses}"))),
    }
}
