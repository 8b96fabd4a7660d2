//! `catlab replay`: replays a trace with its times and sources.

use crate::arguments::ReplayArguments;
use crate::controller::{self, AgentInput, FleetArguments, Task};
use crate::run_outputs::RunOutputArguments;
use clap::Args;
use fleet::{Content, Kind};
use lab::results;
use report::{Manifest, Rules, folder};
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

/// Ends the examples of `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  catlab replay day.pcap.xz --server 127.0.0.1:5300 --out run1
  catlab replay dns.log.gz --server 192.168.1.5 --speed 20 --until 1h --out run2
  catlab replay root.pcap --server 127.0.0.1 --ports tcp=5300 --transport tcp --idle-timeout 10s
  catlab replay root.pcap --server 127.0.0.1:5300 --fast
  catlab replay day.pcap --server 127.0.0.1:5300 --filter-command \"awk '\\$13 == \\\"AAAA\\\"'\"
  catlab replay day.pcap --server 127.0.0.1:5300 --unique --transport tcp=0.2,dot=0.05 --do 1
  catlab replay week.pcap.xz --server 127.0.0.1:5300 --stream --filter-command \"python3 change.py\"
  catlab replay day.pcap.xz --server 192.168.1.6 --nats nats://192.168.1.5:4222 --agents 4 --out run5
  catlab trace info --json day.pcap.xz

Sends each query with its original bytes, except for its ID, at its original time counted from the first query, however
slow the server is. Options and --rules change queries on the way, as `catlab trace mutate` does. A source keeps one
address, port or connection for the whole run. Idle connections are closed after --idle-timeout, 20 s by default. The
summary has send_error_us, interval_error_us, rate_error and second_rate_error, and everything that `catlab load`
reports (docs/catlab/replay.md).

Exit code 0: the run is valid; 1: it is INVALID, and the summary says why; 2: the run did not start.";

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) replay: ReplayArguments,
    #[command(flatten)]
    outputs: RunOutputArguments,
    #[command(flatten)]
    fleet: FleetArguments,
}

/// Runs the command. `stops` counts how often the user asked to stop.
pub(crate) fn main(arguments: &Arguments, stops: &dyn Fn() -> u8) -> ExitCode {
    run(arguments, stops).unwrap_or_else(|error| {
        eprintln!("catlab replay: {error}");
        ExitCode::from(2)
    })
}

/// Replays on agents. Each agent sends the queries of its sources.
fn over_agents(arguments: &Arguments, stops: &dyn Fn() -> u8) -> Result<ExitCode, Box<dyn Error>> {
    let out = arguments.outputs.make_folder()?;
    let (args, replay) = (controller::forwarded_args(Kind::Replay)?, &arguments.replay);
    let mut survey = None;
    let task = |names: &[String], folder: &Path| {
        let division = replay.divide(names, folder)?;
        let origin_ns = division.origin_ns();
        let authorities = replay.authorities().map(|path| (Content::Authorities, path));
        let share = |(path, queries)| AgentInput {
            files: std::iter::once((Content::Trace, path)).chain(authorities.clone()).collect(),
            queries: Some(queries),
        };
        let inputs = division.partitions.into_iter().map(share).collect();
        survey = Some(division.survey);
        Ok(Task { kind: Kind::Replay, args, origin_ns, inputs })
    };
    let (recording, mut summary, merged) =
        controller::run_on_agents(&arguments.fleet, out.as_ref(), arguments.outputs.quiet, task, stops)?;
    if let (Some(figures), Some(survey)) = (&mut summary.replay, &survey) {
        results::describe_whole_trace(&mut figures.replay, replay.trace(), replay.speed(), survey);
        if let Some(reason) = &survey.damaged {
            summary.validity.valid = false;
            summary.validity.reasons.push(format!("the trace is damaged ({reason}): what came before it was sent"));
        }
    }
    arguments.outputs.note_rtt(&mut summary);
    controller::write_results(out, &recording, &summary, merged, 0, None)
}

fn run(arguments: &Arguments, stops: &dyn Fn() -> u8) -> Result<ExitCode, Box<dyn Error>> {
    if arguments.fleet.is_wanted() {
        return over_agents(arguments, stops);
    }
    let outputs = &arguments.outputs;
    // Fail before the trace is read, which may take long.
    let folder = outputs.make_folder()?;
    let mut plan = arguments.replay.plan(sockets::system::raise_open_files())?;
    let rules = Rules { lag_p99_max: arguments.replay.lag_limit, ..Rules::default() };
    let finished = outputs.execute(&mut plan, folder.as_ref(), rules, |_, _| {}, stops)?;
    let committed = folder.map_or(Ok(()), |out| {
        let manifest = Manifest::new(finished.outcome.started, plan.seed);
        let kept = folder::write(out.path(), &finished.recording, &finished.summary, &manifest);
        out.commit_after(kept)
    });
    outputs.print_results(&finished.summary, None);
    committed?;
    let is_valid = finished.summary.validity.valid;
    outputs.end(finished, stops)?;
    Ok(if is_valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
