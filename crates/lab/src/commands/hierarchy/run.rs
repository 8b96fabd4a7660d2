//! Runs a program in an emulated hierarchy, optionally with a resolver.

use super::ask::{self, Question, QuestionTotals};
use super::compare::Comparison;
use super::options::{RunArguments, Settings};
use super::profile::Profile;
use super::report::Report;
use super::resolver::RunningResolver;
use crate::commands::net::program::{self, RunningProgram};
use crate::commands::net::{name_of, remove_stale};
use crate::out_folder::RESOLUTION;
use hierarchy::serve::{Directory, Emulation};
use lab::emulation::{Backends, Emulated, ToBackends};
use lab::limits::EMULATED_THREADS_MAX;
use links::Pair;
use std::cell::RefCell;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Instant;

/// The state of a run.
struct RunContext<'s> {
    arguments: &'s RunArguments,
    pair: Pair,
    emulated: Emulated,
    backends: RefCell<Option<Backends>>,
    directory: &'s Directory,
    stops: &'s dyn Fn() -> u8,
}

/// Loads the hierarchy, serves it, runs the program and reports. Returns the exit code of the program.
pub(super) fn run(arguments: &RunArguments, stops: &dyn Fn() -> u8) -> Result<ExitCode, Box<dyn Error>> {
    check(arguments)?;
    let mut comparison = Comparison::new(arguments)?;
    let questions = match (&arguments.ask, &comparison) {
        (Some(path), _) => Some(ask::read(path, arguments.rounds)?),
        (None, comparison) => comparison.as_ref().map(Comparison::questions),
    };
    let out = OutputFiles::new(arguments)?;
    let profile = arguments.resolver.map(|resolver| Profile::new(resolver, &arguments.settings, &out.resolver()));
    let profile = profile.transpose()?;
    remove_stale()?;
    let start = Instant::now();
    let emulation = Emulation::load(&arguments.folder)?;
    let directory: &Directory = emulation.directory();
    let load_s = start.elapsed().as_secs_f64();
    eprintln!("{} zones at {} addresses, read in {load_s:.1} s", directory.zone_count(), directory.server_count());

    let pair = Pair::make(&name_of(std::process::id()))?;
    out.remove_earlier()?;
    let keeps_upstream = arguments.out.is_some();
    let backends = start_backends(arguments, &pair, directory, &out)?;
    let emulator = |_| match backends {
        Some(_) => emulation.emulator(keeps_upstream).in_front_of(Box::<ToBackends>::default()),
        None => emulation.emulator(keeps_upstream),
    };
    let emulators = (0..arguments.threads).map(emulator).collect();
    let has_ipv6 = pair.has_ipv6();
    let emulated = pair.all().inside(|| Emulated::start(emulators, has_ipv6))?;
    let context = RunContext { arguments, pair, emulated, backends: RefCell::new(backends), directory, stops };
    let done = context.execute(profile.as_ref(), questions.as_deref(), comparison.as_mut(), &out);
    let RunContext { pair, emulated, backends, .. } = context;
    drop(backends);
    drop(pair);
    let tally = emulated.finish()?;
    let (code, totals) = match done {
        Ok((code, totals)) => (Ok(code), totals),
        Err(error) => (Err(error), None),
    };
    // Queries up to the failure may explain it.
    let compared = comparison.map(Comparison::finish);
    let is_other = compared.as_ref().is_some_and(|fidelity| fidelity.other > 0);
    let report = Report::new(directory, load_s, &tally, totals, compared);
    eprint!("{}", report.text());
    report.write(arguments.json.as_deref(), arguments.out.as_deref(), &tally, directory)?;
    // With a program, its exit code is returned.
    if is_other && arguments.command.is_empty() { code.and(Ok(ExitCode::FAILURE)) } else { code }
}

/// Starts servers under test in the namespace of the hierarchy.
fn start_backends(
    arguments: &RunArguments,
    pair: &Pair,
    directory: &Directory,
    out: &OutputFiles,
) -> Result<Option<Backends>, Box<dyn Error>> {
    let Some(backend) = arguments.backend else { return Ok(None) };
    let (kind, backend_folder) = (backend.kind(), out.folder.join("backend"));
    let backends = pair.all().inside(|| Backends::start(kind, &arguments.folder, directory, &backend_folder))?;
    eprintln!("{} servers under test: {}, one for each level", backends.count(), kind.label());
    Ok(Some(backends))
}

fn check(arguments: &RunArguments) -> Result<(), String> {
    let Settings { anchor, minimisation, ipv4_only, own_hints, .. } = &arguments.settings;
    let has_settings = anchor.is_some() || minimisation.is_some() || *ipv4_only || *own_hints;
    if arguments.resolver.is_none() && has_settings {
        return Err(
            "cannot use --anchor, --minimisation, --ipv4-only or --own-hints without a resolver: add --resolver"
                .to_owned(),
        );
    }
    if !(1..=EMULATED_THREADS_MAX).contains(&arguments.threads) {
        return Err(format!("--threads {} is out of range; write 1 to {EMULATED_THREADS_MAX}", arguments.threads));
    }
    arguments.command.first().map_or(Ok(()), |program| program::check(program))
}

impl RunContext<'_> {
    /// Starts the resolver, then runs the program.
    fn execute(
        &self,
        profile: Option<&Profile>,
        questions: Option<&[Question]>,
        mut comparison: Option<&mut Comparison>,
        out: &OutputFiles,
    ) -> Result<(ExitCode, Option<QuestionTotals>), Box<dyn Error>> {
        let near = self.pair.near();
        let log = out.resolver().join("resolver.log");
        let resolver = profile.map(|profile| RunningResolver::start(near, profile, log, self.stops)).transpose()?;
        let resolver = RefCell::new(resolver);
        let is_well = || -> Result<(), String> {
            if !self.emulated.is_alive() {
                return Err("the servers of the hierarchy failed; the program was stopped".into());
            }
            if self.backends.borrow_mut().as_mut().is_some_and(|backends| !backends.are_alive()) {
                return Err("a server under test exited; the program was stopped".into());
            }
            resolver.borrow_mut().as_mut().map_or(Ok(()), RunningResolver::check)
        };
        let totals = questions.map(|questions| {
            let each = |question: &Question, answer: Option<&[u8]>| {
                comparison.as_mut().into_iter().for_each(|comparison| comparison.judge(question, answer));
            };
            let totals = ask::ask_all(questions, near, &self.emulated, self.directory, self.stops, each);
            is_well().map_err(Box::<dyn Error>::from).and(totals)
        });
        let totals = totals.transpose()?;
        let words = &self.arguments.command;
        let code = match words.split_first() {
            Some((program, words)) if (self.stops)() == 0 => {
                let mut command = near.command(program);
                command.args(words).stdin(Stdio::inherit());
                RunningProgram::start(command)?.wait(self.stops, &is_well)?
            }
            Some(_) => ExitCode::from(130),
            None if (self.stops)() > 0 => ExitCode::from(130),
            None => ExitCode::SUCCESS,
        };
        Ok((code, totals))
    }
}

/// The output files of this run.
struct OutputFiles {
    folder: PathBuf,
    /// Whether the folder is temporary and removed on drop.
    is_temporary: bool,
}

impl OutputFiles {
    fn new(arguments: &RunArguments) -> Result<Self, Box<dyn Error>> {
        let (folder, is_temporary) = match &arguments.out {
            Some(folder) => {
                RESOLUTION.refuse(folder, arguments.force)?;
                (folder.clone(), false)
            }
            None => (std::env::temp_dir().join(format!("catlab-hierarchy-{}", std::process::id())), true),
        };
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self { folder, is_temporary })
    }

    /// Removes earlier results. A run that cannot start keeps them.
    fn remove_earlier(&self) -> Result<(), String> {
        if self.is_temporary { Ok(()) } else { RESOLUTION.remove(&self.folder) }
    }

    /// The folder of the resolver.
    fn resolver(&self) -> PathBuf {
        self.folder.join("resolver")
    }
}

impl Drop for OutputFiles {
    fn drop(&mut self) {
        if self.is_temporary {
            // A leftover in the system's temporary folder does no harm.
            let _removed = std::fs::remove_dir_all(Path::new(&self.folder));
        }
    }
}
