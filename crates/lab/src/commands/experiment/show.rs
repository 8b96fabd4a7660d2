//! Shows experiments without running them.

use super::select::Selection;
use clap::Args;
use experiment::definition::variables::substitute_known;
use experiment::definition::{Claim, Experiment, Load, Server, Size, built_in, built_in_names, built_in_text};
use experiment::plan::Plan;
use experiment::user_servers::UserServers;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Built-in experiment, or file.
    #[arg(value_name = "NAME|FILE")]
    experiment: String,
    #[command(flatten)]
    selection: Selection,
    /// Print the definition instead, as a template for your own.
    #[arg(long, conflicts_with_all = ["quick", "paper", "set", "only", "server", "program"])]
    toml: bool,
}

/// Prints the built-in experiments.
pub(super) fn list() -> Result<ExitCode, Box<dyn Error>> {
    let width = built_in_names().map(str::len).max().unwrap_or_default();
    for name in built_in_names() {
        let Some(experiment) = built_in(name) else { continue };
        let experiment = experiment?;
        let quick = Plan::new(&experiment.clone().size(Size::Quick), &[])?;
        let here = Plan::new(&experiment, &[])?;
        lab::print(format_args!(
            "{name:width$}  {}\n{:width$}  {}\n{:width$}  {}; with --quick {}\n",
            experiment.title,
            "",
            experiment.source,
            "",
            time(&here),
            time(&quick)
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the plan of an experiment.
pub(super) fn show(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let name = &arguments.experiment;
    let experiment = arguments.selection.experiment(name)?;
    let text = match (arguments.toml, built_in_text(name)) {
        (true, Some(text)) => text.to_owned(),
        (true, None) => std::fs::read_to_string(Path::new(name)).map_err(|error| format!("{name}: {error}"))?,
        (false, _) => {
            let plan = arguments.selection.plan(&experiment)?;
            arguments.selection.check_programs([&plan].into_iter())?;
            text_of(&experiment, &plan, &arguments.selection.user_servers()?)
        }
    };
    lab::print(format_args!("{text}"));
    Ok(ExitCode::SUCCESS)
}

/// The plan as text.
fn text_of(experiment: &Experiment, plan: &Plan, user_servers: &UserServers) -> String {
    let mut text = format!("{}\n", experiment.title);
    let mut section = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
            let _written = write!(text, "\n{title}\n{lines}");
        }
    };
    section("Source", vec![experiment.source.clone()]);
    section("Question", vec![experiment.question.clone()]);
    let combinations = plan.cells.len() / experiment.repeats.max(1) as usize;
    let cells = plan.cells.len();
    section("Cells", vec![format!("{cells}: {combinations} combinations, {} repeats of each", experiment.repeats)]);
    section("Time", vec![time(plan)]);
    let missing = plan.missing.iter().map(|missing| format!("{}: {}", missing.kind, missing.how));
    section("Missing programs, and how to install them", missing.collect());
    let parameters = experiment.matrix.iter().map(|(name, values)| {
        let values: Vec<_> = values.iter().map(|value| value.0.as_str()).collect();
        format!("{name} = {}", values.join(", "))
    });
    section("Parameters (--only NAME=VALUE selects cells)", parameters.collect());
    let variables = experiment.variables.iter().map(|(name, value)| format!("{name} = {}", value.0));
    section("Variables (--set NAME=VALUE changes them)", variables.collect());
    let by = experiment.by.iter().flat_map(|(parameter, variables)| {
        variables.iter().map(move |(name, values)| {
            let values: Vec<_> =
                values.iter().map(|(value, text)| format!("{} with {parameter}={value}", text.0)).collect();
            format!("{name} = {}", values.join(", "))
        })
    });
    section("Variables that depend on a parameter", by.collect());
    let values = experiment.values(&BTreeMap::new());
    let links = experiment.links.iter().map(|links| {
        let more = [("jitter", &links.jitter), ("loss", &links.loss)];
        let more = more.into_iter().filter_map(|(name, text)| Some(format!(", {name} {}", text.as_ref()?)));
        substitute_known(&format!("rtt {}{}", links.rtt, more.collect::<String>()), &values)
    });
    section("Links between loads and servers", links.collect());
    let command = |line: &String| format!("catlab {}", substitute_known(line, &values));
    section("Once, before the first cell", experiment.prepare.iter().map(command).collect());
    let server = |server: &Server| match user_servers.addresses.get(&server.name) {
        Some(address) => format!("{}: your server at {address}", server.name),
        None => server_line(server),
    };
    let programs = user_servers.programs.overrides();
    let programs = programs.map(|(kind, program)| format!("{}: {}", kind.label(), program.display()));
    section("Your programs", programs.collect());
    section("Servers of each cell", experiment.servers.iter().map(server).collect());
    let load = |load: &Load| {
        let when = if load.at_end { "when all others have ended: " } else { "" };
        format!("{when}{}", command(&load.run))
    };
    section("Loads of each cell", experiment.loads.iter().map(load).collect());
    let events = experiment.events.iter().map(|event| {
        let node = event.node.as_ref().map(|node| format!(" node {}", node.0)).unwrap_or_default();
        let zones = event.zones.as_ref().map(|zones| format!(" ({} zones)", zones.0)).unwrap_or_default();
        let line = format!("after {} s: {} {}{node}{zones}", event.seconds.0, event.action, event.server);
        substitute_known(&line, &values)
    });
    section("Events", events.collect());
    section("Claims", experiment.claims.iter().map(claim_line).collect());
    section("Not shown", experiment.limits.clone());
    text
}

fn server_line(server: &Server) -> String {
    let settings = server.settings().map(|(key, value)| format!(", {key} {}", value.trim()));
    let key = server.key.then(|| ", with a TSIG key".to_owned());
    let zones = server.zones.iter().map(|(apex, file)| format!(", zone {apex} from {file}"));
    format!("{}: {}{}", server.name, server.kind, settings.chain(key).chain(zones).collect::<String>())
}

fn claim_line(claim: &Claim) -> String {
    let paper = claim.paper.map(|paper| format!("paper {paper}, ")).unwrap_or_default();
    let unit = if claim.unit.is_empty() { String::new() } else { format!(" {}", claim.unit) };
    format!("{} ({paper}wanted {}{unit})\n    {}", claim.text, claim.want, claim.value)
}

/// The estimated duration.
pub(super) fn time(plan: &Plan) -> String {
    let about = if plan.is_duration_known { "about" } else { "more than" };
    format!("{about} {}", rounded(plan.duration))
}

/// A duration for people: seconds, minutes or hours.
fn rounded(duration: Duration) -> String {
    let seconds = duration.as_secs_f64().ceil() as u64;
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded_for_people() {
        let cases = [(0.2, "1 s"), (90.0, "90 s"), (121.0, "3 min"), (7_300.0, "2 h 1 min")];
        for (seconds, expected) in cases {
            assert_eq!(rounded(Duration::from_secs_f64(seconds)), expected);
        }
    }

    #[test]
    fn events_have_their_times() {
        let experiment = built_in("faults").unwrap().unwrap();
        let plan = Plan::new(&experiment, &[]).unwrap();
        let text = text_of(&experiment, &plan, &UserServers::default());
        assert!(text.contains("\nEvents\n  after 20.5 s: {fault} dns node {node}\n"), "{text}");
    }

    #[test]
    fn variables_of_parameters_and_links_are_shown() {
        let experiment = built_in("write-cost").unwrap().unwrap();
        let plan = Plan::new(&experiment, &[]).unwrap();
        let text = text_of(&experiment, &plan, &UserServers::default());
        assert!(text.contains("  nodes = 3 with server=bind, 5 with server=catamaran, "), "{text}");
        assert!(text.contains("\nLinks between loads and servers\n  rtt 36.5ms\n"), "{text}");
        assert!(text.contains("  dns: {server}, nodes {nodes}, with a TSIG key, zone . from "), "{text}");
    }

    #[test]
    fn the_plan_names_commands_and_claims() {
        for name in built_in_names() {
            let experiment = built_in(name).unwrap().unwrap();
            let plan = Plan::new(&experiment, &[]).unwrap();
            let text = text_of(&experiment, &plan, &UserServers::default());
            for part in ["\nCells\n  ", "\nLoads of each cell\n  catlab ", "\nClaims\n", "--only", &experiment.question]
            {
                assert!(text.contains(part), "{name}: no {part} in\n{text}");
            }
        }
    }
}
