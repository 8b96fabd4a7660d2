//! The cells to measure in their order, the estimated duration, and missing programs.

use crate::definition::variables::{substitute, substitute_known};
use crate::definition::{ECHO, Experiment, command};
use crate::hierarchy_programs::HierarchyProgram;
use crate::limits::{CELL_SECONDS_MAX, SERVER_SECONDS};
use crate::results::Cell;
use crate::user_servers::UserServers;
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::time::Duration;
use testbed::{Kind, Programs};

/// The program with which `zones sign-rsa` signs.
const SIGNER: &str = "dnssec-signzone";

/// Selects the cells in which a parameter has a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Only {
    /// The parameter.
    pub name: String,
    /// The value.
    pub value: String,
}

impl FromStr for Only {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}` has no value; write NAME=VALUE"))?;
        Ok(Self { name: name.trim().to_owned(), value: value.trim().to_owned() })
    }
}

/// The cells of an experiment that are measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The cells in the order in which they run: all combinations of parameters, then all again for the next repeat.
    /// This way, a slow phase of the machine does not affect all repeats of one combination.
    pub cells: Vec<Cell>,
    /// The estimated duration.
    pub duration: Duration,
    /// Whether the command lines of all loads specify their duration. If not, the run takes longer than estimated.
    pub is_duration_known: bool,
    /// The kinds of servers that these cells start.
    pub kinds: BTreeSet<String>,
    /// Servers, resolvers and tools of these cells that are not installed.
    pub missing: Vec<Missing>,
}

/// A program that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Missing {
    /// The kind of the server or resolver, or the name of the tool.
    pub kind: &'static str,
    /// How to install it.
    pub how: &'static str,
}

impl Plan {
    /// The selected cells; all if `only` is empty. Several values of one parameter select the cells of each value.
    ///
    /// # Errors
    /// The experiment has no such parameter or value.
    pub fn new(experiment: &Experiment, only: &[Only]) -> Result<Self, String> {
        Self::with_user_servers(experiment, only, &UserServers::default())
    }

    /// The same, with servers of the user.
    ///
    /// # Errors
    /// The experiment has no such parameter or value, or a running server or program cannot replace one of the
    /// experiment.
    pub fn with_user_servers(
        experiment: &Experiment,
        only: &[Only],
        user_servers: &UserServers,
    ) -> Result<Self, String> {
        only.iter().try_for_each(|only| check_only(experiment, only))?;
        user_servers.check(experiment)?;
        let started = || experiment.servers.iter().filter(|server| !user_servers.addresses.contains_key(&server.name));
        let combinations: Vec<_> =
            experiment.combinations().into_iter().filter(|combination| is_selected(combination, only)).collect();
        let mut seconds = 0.0;
        let mut is_duration_known = true;
        let (mut kinds, mut missing) = (BTreeSet::new(), BTreeSet::new());
        for combination in &combinations {
            let values = experiment.values(combination);
            let (load, are_known) = load_seconds(experiment, &values);
            is_duration_known &= are_known;
            seconds += load.min(CELL_SECONDS_MAX as f64);
            seconds += SERVER_SECONDS * started().count() as f64;
            kinds.extend(started().filter_map(|server| substitute(&server.kind, &values).ok()));
            for load in &experiment.loads {
                let words = planned_words(&load.run, &values).unwrap_or_default();
                for program in HierarchyProgram::of_load(&words) {
                    check_other_build(program, user_servers)?;
                    if !program.is_installed() {
                        missing.insert(Missing { kind: program.label(), how: program.how_to_install() });
                    }
                }
            }
        }
        missing.extend(kinds.iter().filter_map(|kind| missing_program(kind, &user_servers.programs)));
        missing.extend(missing_signer(&experiment.prepare));
        let cell = |repeat| {
            let with = move |parameters: &BTreeMap<String, String>| Cell { parameters: parameters.clone(), repeat };
            combinations.iter().map(with)
        };
        Ok(Self {
            cells: (0..experiment.repeats).flat_map(cell).collect(),
            duration: Duration::from_secs_f64(seconds * f64::from(experiment.repeats)),
            is_duration_known,
            missing: missing.into_iter().collect(),
            kinds,
        })
    }
}

fn check_only(experiment: &Experiment, Only { name, value }: &Only) -> Result<(), String> {
    let list = |words: Vec<&str>| if words.is_empty() { "there are none".into() } else { words.join(", ") };
    let Some(values) = experiment.matrix.get(name) else {
        let known = list(experiment.matrix.keys().map(String::as_str).collect());
        return Err(format!("cannot select cells: there is no parameter `{name}`; parameters: {known}"));
    };
    if values.iter().any(|known| known.0 == *value) {
        return Ok(());
    }
    let known = list(values.iter().map(|value| value.0.as_str()).collect());
    Err(format!("cannot select cells: the parameter `{name}` has no value {value}; values: {known}"))
}

fn is_selected(combination: &BTreeMap<String, String>, only: &[Only]) -> bool {
    combination.iter().all(|(name, value)| {
        let mut wanted = only.iter().filter(|only| only.name == *name).peekable();
        wanted.peek().is_none() || wanted.any(|only| only.value == *value)
    })
}

/// The known duration of the loads of a cell in seconds, and whether all durations are known.
fn load_seconds(experiment: &Experiment, values: &BTreeMap<String, String>) -> (f64, bool) {
    // The longest one of those that run together.
    let (mut longest, mut are_known) = ([0.0_f64; 2], true);
    for load in &experiment.loads {
        let seconds = planned_words(&load.run, values).and_then(|words| command::seconds(&words));
        are_known &= seconds.is_some();
        let longest = &mut longest[usize::from(load.at_end)];
        *longest = longest.max(seconds.unwrap_or(0.0));
    }
    (longest.iter().sum(), are_known)
}

/// The command line of a load as far as it is known before servers have addresses.
fn planned_words(run: &str, values: &BTreeMap<String, String>) -> Option<Vec<String>> {
    // Values of [by.PARAMETER] may contain variables.
    command::words(&substitute_known(&substitute_known(run, values), values)).ok()
}

/// A load starts the installed program.
fn check_other_build(program: HierarchyProgram, user_servers: &UserServers) -> Result<(), String> {
    let kind = program.kind();
    match user_servers.programs.overrides().find(|(other, _)| Some(*other) == kind) {
        Some((kind, path)) => Err(format!(
            "cannot use {} as {kind}: `hierarchy run` starts the installed {kind}; leave the option out",
            path.display(),
            kind = kind.label()
        )),
        None => Ok(()),
    }
}

fn missing_program(kind: &str, programs: &Programs) -> Option<Missing> {
    if kind == ECHO {
        return None;
    }
    let kind = Kind::named(kind)?;
    programs.find(kind).is_none().then(|| Missing { kind: kind.label(), how: kind.how_to_install() })
}

/// The tool of BIND that `zones sign-rsa` runs, if a command line needs it and it is not installed.
fn missing_signer(prepare: &[String]) -> Option<Missing> {
    let is_needed = prepare.iter().any(|line| line.starts_with("zones sign-rsa "));
    let missing = Missing { kind: SIGNER, how: "Debian: apt install bind9-utils" };
    (is_needed && testbed::installed(SIGNER).is_none()).then_some(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
title = 'A'
source = 'B'
question = 'C'
repeats = 2
[matrix]
cpu = [0.5, 1]
kind = ['echo', 'nsd']
[variables]
seconds = 4
[[server]]
name = 'dns'
kind = '{kind}'
[[load]]
run = 'load --server {dns.address} --duration {seconds}s'
";

    fn cells(only: &[&str]) -> Vec<String> {
        let experiment = Experiment::parse(TEXT, "test").unwrap();
        let only: Vec<Only> = only.iter().map(|text| text.parse().unwrap()).collect();
        let plan = Plan::new(&experiment, &only).unwrap();
        let text = |cell: &Cell| format!("{} {} {}", cell.repeat, cell.parameters["cpu"], cell.parameters["kind"]);
        plan.cells.iter().map(text).collect()
    }

    #[test]
    fn all_combinations_run_before_the_next_repeat() {
        let once = ["0.5 echo", "0.5 nsd", "1 echo", "1 nsd"];
        let expected: Vec<_> = (0..2).flat_map(|repeat| once.map(|cell| format!("{repeat} {cell}"))).collect();
        assert_eq!(cells(&[]), expected);
    }

    #[test]
    fn cells_are_selected_by_values() {
        assert_eq!(cells(&["cpu=1", "kind=nsd"]), ["0 1 nsd", "1 1 nsd"]);
        assert_eq!(cells(&["kind=nsd", "kind=echo"]).len(), 8);
        let experiment = Experiment::parse(TEXT, "test").unwrap();
        for (only, expected) in [("cpus=1", "parameters: cpu, kind"), ("cpu=2", "values: 0.5, 1")] {
            let error = Plan::new(&experiment, &[only.parse().unwrap()]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!("cpu".parse::<Only>().unwrap_err().contains("NAME=VALUE"));
    }

    #[test]
    fn servers_of_the_user_are_not_missing() {
        let experiment = Experiment::parse(TEXT, "test").unwrap();
        let plan = |programs: &[&str], running: &[&str]| {
            let programs: Vec<_> = programs.iter().map(|text| text.parse().unwrap()).collect();
            let running: Vec<_> = running.iter().map(|text| text.parse().unwrap()).collect();
            let servers = UserServers::new(&running, &programs).unwrap();
            Plan::with_user_servers(&experiment, &[], &servers)
        };
        let other_build = plan(&["nsd=/bin/sh"], &[]).unwrap();
        assert_eq!((other_build.missing, other_build.kinds.len()), (Vec::new(), 2));
        let running = plan(&[], &["dns=127.0.0.1"]).unwrap();
        assert_eq!((running.missing, running.kinds.len(), running.cells.len()), (Vec::new(), 0, 8));
        assert!(running.duration < Plan::new(&experiment, &[]).unwrap().duration);
        assert!(plan(&[], &["dsn=127.0.0.1"]).unwrap_err().contains("did you mean `dns`?"));
    }

    #[test]
    fn the_time_is_that_of_the_loads_and_of_starting_servers() {
        let plan = |text: &str| Plan::new(&Experiment::parse(text, "test").unwrap(), &[]).unwrap();
        let known = plan(TEXT);
        assert_eq!((known.duration.as_secs_f64(), known.is_duration_known), (8.0 * (4.0 + SERVER_SECONDS), true));
        assert!(!plan(&TEXT.replace("--duration {seconds}s", "--once")).is_duration_known);
        let check = "name = 'check'\nat_end = true\nrun = 'load --server {dns.address} --duration 2s'";
        let two = TEXT.replace("[[load]]", &format!("[[load]]\n{check}\n[[load]]\nname = 'main'"));
        assert_eq!(plan(&two).duration.as_secs_f64(), 8.0 * (4.0 + 2.0 + SERVER_SECONDS));
    }
}
