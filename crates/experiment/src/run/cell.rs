//! Measures one cell: starts servers, runs loads and events, and reads the figures.

use super::hosts::Hosts;
use super::load::Load;
use super::marks::Marks;
use super::record::Record;
use super::server::Server;
use super::start::{check_user_server, start};
use super::{Options, figures, shell_line};
use crate::definition::variables::FOLDER;
use crate::definition::{Event, Experiment, Load as Definition, Resolved};
use crate::limits::CELL_SECONDS_MAX;
use crate::results::{Cell, CellResult, EventResult, Outcome, ServerResult};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Interval of the checks whether loads have exited and events are due.
const INTERVAL: Duration = Duration::from_millis(10);

/// The context of a cell.
pub(super) struct Context<'a> {
    pub(super) options: &'a Options<'a>,
    /// The folder of the experiment, as an absolute path.
    pub(super) folder: &'a Path,
    pub(super) cell_folder: &'a Path,
    pub(super) record: &'a Record,
}

/// Why a cell is not measured.
#[derive(Debug)]
pub(super) enum CellError {
    /// A failure.
    Failed(String),
    /// A program is missing, or this machine does not support a setting.
    Unsupported(String),
    /// The user asked to stop.
    Stopped,
}

/// Measures a cell. Ends all of its processes.
pub(super) fn measure(context: &Context<'_>, experiment: &Experiment, cell: &Cell) -> CellResult {
    let mut result = CellResult {
        cell: cell.clone(),
        outcome: Outcome::Measured,
        figures: BTreeMap::new(),
        commands: Vec::new(),
        servers: Vec::new(),
        runs: BTreeMap::new(),
        events: Vec::new(),
    };
    let measured = attempt(context, experiment, &mut result);
    // Dropping the servers and loads stopped them. Their children may still be running.
    let has_ended = context.record.end_all();
    result.outcome = match measured {
        Err(CellError::Failed(reason)) => Outcome::Failed(vec![reason]),
        Err(CellError::Unsupported(reason)) => Outcome::NotMeasured(vec![reason]),
        Err(CellError::Stopped) => {
            Outcome::Failed(vec!["the run was stopped; run it again to measure this cell".into()])
        }
        Ok(_) if !has_ended => {
            Outcome::Failed(vec!["cannot end a process or remove a control group of the cell".into()])
        }
        Ok(reasons) if !reasons.is_empty() => Outcome::Invalid(reasons),
        Ok(_) => Outcome::Measured,
    };
    result
}

/// Runs the cell. Returns the reasons why its loads are INVALID; empty if they are valid.
fn attempt(context: &Context<'_>, experiment: &Experiment, result: &mut CellResult) -> Result<Vec<String>, CellError> {
    let mut values = experiment.values(&result.cell.parameters);
    values.insert(FOLDER.to_owned(), context.folder.display().to_string());
    // Before the servers, so that it is dropped after them.
    let hosts = Hosts::new(experiment.links.as_ref(), &values)?;
    let mut servers = Vec::new();
    for definition in &experiment.servers {
        context.check_stop()?;
        if let Some(address) = context.options.user_servers.addresses.get(&definition.name) {
            let variables = ["address", "addresses", "last", "plain"].map(|name| format!("{}.{name}", definition.name));
            values.extend(variables.map(|name| (name, address.to_string())));
            check_user_server(context, definition, &values, *address)?;
            result.servers.push(ServerResult::external(&definition.name, *address));
            continue;
        }
        let server = start(context, &hosts, definition, &values)?;
        let variables = server.variables.iter();
        values.extend(variables.map(|(name, value)| (format!("{}.{name}", server.name()), value.clone())));
        result.commands.extend(server.commands.iter().map(|words| relative_line(words, context.folder)));
        result.servers.push(server.result.clone());
        servers.push(server);
    }
    experiment.complete(&mut values).map_err(CellError::Failed)?;
    servers.iter_mut().for_each(Server::begin);
    let mut marks = (!experiment.events.is_empty()).then(Marks::default);
    let start = |is_at_end: bool, marks: Option<&mut Marks>, result: &mut CellResult| {
        let definitions = experiment.loads.iter().filter(|load| load.at_end == is_at_end);
        start_loads(context, &hosts, definitions, &values, marks, result)
    };
    let mut loads = start(false, marks.as_mut(), result)?;
    let (marks, events) = (marks.unwrap_or_default(), planned(&experiment.events, &values)?);
    let waited = wait(context, &hosts, &events, &marks, &mut servers, &mut loads, result);
    for server in &servers {
        let (cpu_seconds, memory_bytes) = server.used();
        result.figures.insert(format!("{}.cpu_seconds", server.name()), cpu_seconds);
        result.figures.insert(format!("{}.memory_bytes", server.name()), memory_bytes as f64);
    }
    waited?;
    let count = loads.len();
    loads.extend(start(true, None, result)?);
    if loads.len() > count {
        wait(context, &hosts, &[], &Marks::default(), &mut servers, &mut loads[count..], result)?;
    }
    if !hosts.are_alive() {
        return Err(CellError::Failed("the links failed while the loads ran".into()));
    }
    let reasons = read_loads(context, &loads, result)?;
    note_cpu_per_answer(&servers, &loads[..count], result);
    Ok(reasons)
}

/// Starts loads that run together. With `marks`, their charts over time show events.
fn start_loads<'a>(
    context: &Context<'_>,
    hosts: &Hosts,
    definitions: impl Iterator<Item = &'a Definition>,
    values: &BTreeMap<String, String>,
    mut marks: Option<&mut Marks>,
    result: &mut CellResult,
) -> Result<Vec<Load>, CellError> {
    let mut loads = Vec::new();
    for definition in definitions {
        let load = Load::start(context, hosts, definition, values, marks.as_deref_mut())?;
        let words: Vec<_> = std::iter::once("catlab").chain(load.words.iter().map(String::as_str)).collect();
        result.commands.push(relative_line(&words, context.folder));
        result.servers.extend(load.servers.iter().cloned());
        loads.push(load);
    }
    Ok(loads)
}

/// A command line to paste into a shell in the folder of the experiment.
fn relative_line<T: AsRef<str>>(words: &[T], folder: &Path) -> String {
    let folder = format!("{}/", folder.display());
    let words: Vec<_> = words.iter().map(|word| word.as_ref().replace(&folder, "")).collect();
    shell_line(&words)
}

impl Context<'_> {
    fn check_stop(&self) -> Result<(), CellError> {
        if self.options.is_stopped() { Err(CellError::Stopped) } else { Ok(()) }
    }
}

/// An event of this cell.
struct Planned<'a> {
    server: &'a str,
    event: Resolved,
}

/// The events in order of time.
fn planned<'a>(events: &'a [Event], values: &BTreeMap<String, String>) -> Result<Vec<Planned<'a>>, CellError> {
    let mut planned = Vec::new();
    for event in events {
        let resolved = event.resolved(values).map_err(|(_, reason)| CellError::Failed(reason))?;
        planned.push(Planned { server: &event.server, event: resolved });
    }
    planned.sort_by(|one, other| one.event.seconds.total_cmp(&other.event.seconds));
    Ok(planned)
}

/// Waits until all loads have begun: the times of events count from then on. A load that reads a long trace first takes
/// a while. Without events, nothing is waited for.
fn wait_for_begin(
    context: &Context<'_>,
    marks: &Marks,
    servers: &mut [Server],
    loads: &mut [Load],
) -> Result<Instant, CellError> {
    let started = Instant::now();
    while !marks.have_all_begun() && loads.iter_mut().all(Load::is_running) {
        context.check_stop()?;
        if let Some(reason) = servers.iter_mut().find_map(Server::exited) {
            return Err(CellError::Failed(reason));
        }
        if started.elapsed() > Duration::from_secs(CELL_SECONDS_MAX) {
            return Err(CellError::Failed(format!("a load did not begin within {CELL_SECONDS_MAX} s")));
        }
        std::thread::sleep(INTERVAL);
    }
    Ok(Instant::now())
}

/// Performs the events until all loads have exited.
fn wait(
    context: &Context<'_>,
    hosts: &Hosts,
    events: &[Planned<'_>],
    marks: &Marks,
    servers: &mut [Server],
    loads: &mut [Load],
    result: &mut CellResult,
) -> Result<(), CellError> {
    let began = wait_for_begin(context, marks, servers, loads)?;
    let mut events = events.iter().peekable();
    while loads.iter_mut().any(Load::is_running) {
        context.check_stop()?;
        if began.elapsed() > Duration::from_secs(CELL_SECONDS_MAX) {
            return Err(CellError::Failed(format!("the loads did not exit within {CELL_SECONDS_MAX} s")));
        }
        let is_due = |planned: &&Planned<'_>| planned.event.seconds <= began.elapsed().as_secs_f64();
        if let Some(planned) = events.next_if(is_due) {
            let server = servers.iter_mut().find(|server| server.name() == planned.server);
            let mut done = perform(planned, server, began, context, hosts, marks);
            // The charts and figures of the loads do not show such an event.
            if done.happened && !loads.iter_mut().any(Load::is_running) {
                (done.happened, done.reason) = (false, Some("the loads had ended before".into()));
            }
            result.events.push(done.clone());
            context.check_stop()?;
            if !done.happened {
                return Err(did_not_happen(&done, loads, began));
            }
            continue;
        }
        if let Some(reason) = servers.iter_mut().find_map(Server::exited) {
            return Err(CellError::Failed(reason));
        }
        std::thread::sleep(INTERVAL);
    }
    result.events.extend(events.map(Planned::not_yet));
    if let Some(reason) = servers.iter_mut().find_map(Server::exited) {
        return Err(CellError::Failed(reason));
    }
    // Events do not happen after a load that fails at once.
    if let Some(error) = loads.iter().find_map(Load::error) {
        return Err(CellError::Failed(error));
    }
    match result.events.iter().find(|event| !event.happened) {
        None => Ok(()),
        Some(event) => Err(did_not_happen(event, loads, began)),
    }
}

/// The error of an event that had no effect.
fn did_not_happen(event: &EventResult, loads: &mut [Load], began: Instant) -> CellError {
    let EventResult { seconds, server, action, reason, .. } = event;
    let (action, total) = (action.label(), began.elapsed().as_secs_f64());
    let why = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let have_ended = !loads.iter_mut().any(Load::is_running);
    let end = if have_ended { format!("; the loads ran for {total:.1} s") } else { String::new() };
    CellError::Failed(format!("the event `{action}` of the server {server} at {seconds:.1} s did not happen{why}{end}"))
}

impl Planned<'_> {
    /// The result of the event before it happens.
    fn not_yet(&self) -> EventResult {
        EventResult {
            seconds: self.event.seconds,
            server: self.server.to_owned(),
            node: None,
            action: self.event.action,
            happened: false,
            reason: None,
        }
    }
}

/// Performs an event.
fn perform(
    planned: &Planned<'_>,
    server: Option<&mut Server>,
    began: Instant,
    context: &Context<'_>,
    hosts: &Hosts,
    marks: &Marks,
) -> EventResult {
    let (mut done, event) = (planned.not_yet(), &planned.event);
    // Finding the leader takes a moment.
    let found = server.and_then(|server| server.target(event.node).map(|target| (server, target)));
    let Some((server, target)) = found else {
        done.reason = Some("there is no such node now".into());
        return done;
    };
    done.node = target.node();
    done.seconds = began.elapsed().as_secs_f64();
    // Without zones to change, nothing happens that a chart could show.
    if event.zones != Some(0) {
        // Before the event, because observing its effect takes a moment too.
        marks.add(&done.server, done.node, event.action);
    }
    done.reason = server.act(event, &target, context, hosts).err();
    done.happened = done.reason.is_none();
    done
}

/// Reads the figures of the loads. Returns the reasons why they are INVALID.
fn read_loads(context: &Context<'_>, loads: &[Load], result: &mut CellResult) -> Result<Vec<String>, CellError> {
    let mut reasons = Vec::new();
    for load in loads {
        let prefix = prefix(load);
        let read = figures::read(&context.cell_folder.join(&load.run));
        let read = read.map_err(|error| CellError::Failed(format!("cannot read the results of a load: {error}")))?;
        result.figures.extend(read.values.into_iter().map(|(name, value)| (format!("{prefix}{name}"), value)));
        result.runs.insert(load.name.clone(), load.run.clone());
        let label = if load.name.is_empty() { String::new() } else { format!("{}: ", load.name) };
        reasons.extend(read.reasons.into_iter().map(|reason| format!("{label}{reason}")));
    }
    Ok(reasons)
}

fn prefix(load: &Load) -> String {
    if load.name.is_empty() { String::new() } else { format!("{}.", load.name) }
}

fn note_cpu_per_answer(servers: &[Server], loads: &[Load], result: &mut CellResult) {
    let answered = |load: &Load| result.figures.get(&format!("{}answered", prefix(load)));
    let answers: f64 = loads.iter().filter_map(answered).sum();
    if answers > 0.0 {
        for server in servers {
            let cpu_us = result.figures[&format!("{}.cpu_seconds", server.name())] * 1e6 / answers;
            result.figures.insert(format!("{}.cpu_us", server.name()), cpu_us);
        }
    }
}

/// Makes an empty folder for a cell.
pub(super) fn fresh_folder(folder: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::create_dir_all(folder)
}
