//! One run over agents, step by step.

use super::agents::{AgentState, Agents, discover};
use super::arguments::FleetArguments;
use super::error::FleetError;
use crate::out_folder::OutFolder;
use crate::run_outputs::print_summary;
use fleet::limits::CHUNK_TIMEOUT;
use fleet::{Assignment, Bus, Command, Content, Envelope, InputFile, Kind, Phase, subjects, unpack, wall_ns};
use lab::limits::{HEARTBEAT_INTERVAL, SPOOL_BYTES_MAX, START_LEAD};
use report::{AgentFigures, Manifest, Recording, Run, Summary, folder, merge_agents};
use std::error::Error;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio::task::JoinHandle;

/// The run that agents execute.
pub(crate) struct Task {
    pub(crate) kind: Kind,
    /// Options of the plan.
    pub(crate) args: Vec<String>,
    /// For a replay: the time in the trace at which the run begins.
    pub(crate) origin_ns: u64,
    /// One input per agent.
    pub(crate) inputs: Vec<AgentInput>,
}

/// The input of one agent.
#[derive(Clone)]
pub(crate) struct AgentInput {
    /// Files, at most one of each content.
    pub(crate) files: Vec<(Content, PathBuf)>,
    /// The number of its queries, if known.
    pub(crate) queries: Option<u64>,
}

impl Task {
    /// Whether a secret must be sent.
    fn has_key(&self) -> bool {
        self.inputs.iter().flat_map(|share| &share.files).any(|(content, _)| *content == Content::Key)
    }
}

/// The merged run, and the manifest of each agent.
type FleetRun = (Recording, Summary, Vec<Manifest>);

/// A temporary folder. It is removed on drop.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover in the system's temporary folder does no harm.
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a task on agents. The task is created once the agents are known. If there is an output folder, the run of each
/// agent is kept below `agents`.
///
/// # Errors
/// If the run did not take place, or no agent returned results.
pub(crate) fn run_on_agents(
    arguments: &FleetArguments,
    out: Option<&OutFolder>,
    is_quiet: bool,
    task: impl FnOnce(&[String], &Path) -> Result<Task, Box<dyn Error>>,
    stops: &dyn Fn() -> u8,
) -> Result<FleetRun, Box<dyn Error>> {
    let run = format!("{:016x}", rand::random::<u64>());
    let scratch = Scratch(std::env::temp_dir().join(format!("catlab-{run}")));
    // The folder may hold a TSIG key, so only the user can read it.
    DirBuilder::new().mode(0o700).create(&scratch.0)?;
    let runs = out.map_or(&*scratch.0, OutFolder::path).join("agents");
    // The connection has its own thread, because dividing a trace takes long.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let bus = Bus::connect(&arguments.access()).await?;
        let found = discover(&bus, arguments.agents, arguments.agents_wait, stops).await?;
        let names: Vec<String> = found.iter().map(|info| info.name.clone()).collect();
        print_status(is_quiet, || format!("agents: {}", names.join(", ")));
        let task = task(&names, &scratch.0)?;
        if task.has_key() && !bus.is_private() {
            return Err(FleetError::KeyInClear.into());
        }
        let silence = arguments.agent_silence;
        let agents = Agents::new(bus.clone(), run.clone(), found, silence).await?;
        let ids: Vec<_> = agents.states.iter().map(|agent| agent.info.id.clone()).collect();
        let send_heartbeats = send_heartbeats(bus.clone(), run.clone(), ids.clone());
        let mut coordinator =
            Coordinator { bus, run, agents, task, silence, is_quiet, stops, scratch: &scratch.0, runs: &runs };
        let done = coordinator.run().await;
        send_heartbeats.abort();
        coordinator.end(&ids).await;
        done
    })
}

/// Sends heartbeats to the agents.
fn send_heartbeats(bus: Bus, run: String, ids: Vec<String>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let envelope = Envelope { run, command: Command::Heartbeat };
        loop {
            for id in &ids {
                // Ignored: agents notice missing heartbeats.
                let _said = bus.publish(subjects::commands(id), &envelope).await;
            }
            tokio::time::sleep(HEARTBEAT_INTERVAL).await;
        }
    })
}

fn print_status(is_quiet: bool, what: impl FnOnce() -> String) {
    if !is_quiet {
        eprintln!("{}", what());
    }
}

struct Coordinator<'a> {
    bus: Bus,
    run: String,
    agents: Agents,
    task: Task,
    silence: Duration,
    is_quiet: bool,
    stops: &'a dyn Fn() -> u8,
    scratch: &'a Path,
    runs: &'a Path,
}

impl Coordinator<'_> {
    async fn run(&mut self) -> Result<FleetRun, Box<dyn Error>> {
        self.skip_idle_agents();
        self.bus.open_stream(&self.run).await?;
        self.assign().await?;
        self.send_files().await?;
        self.wait_until_ready().await?;
        self.agents.compare_clocks().await?;
        self.start().await?;
        self.wait_until_finished().await?;
        self.collect().await
    }

    /// Agents without a source take no part.
    fn skip_idle_agents(&mut self) {
        for (agent, AgentInput { queries, .. }) in self.agents.states.iter_mut().zip(&self.task.inputs) {
            agent.planned = *queries;
            if *queries == Some(0) {
                agent.phase = Phase::Finished { bytes: 0, cpu_share: 0.0, start_late_us: 0.0 };
            }
        }
    }

    /// The indices of agents that take part and are not lost.
    fn active(&self) -> Vec<usize> {
        let is_at_work = |agent: &AgentState| agent.planned != Some(0) && agent.lost.is_none();
        let all = self.agents.states.iter().enumerate();
        all.filter(|(_, agent)| is_at_work(agent)).map(|(index, _)| index).collect()
    }

    async fn assign(&mut self) -> Result<(), Box<dyn Error>> {
        let count = self.agents.states.len();
        for index in self.active() {
            let files = self.task.inputs[index].files.iter();
            let files = files.map(|(content, path)| input_file(*content, path)).collect::<Result<_, _>>()?;
            let order = Assignment {
                kind: self.task.kind,
                args: self.task.args.clone(),
                index,
                count,
                origin_ns: self.task.origin_ns,
                files,
                silence_ms: self.silence.as_millis() as u64,
            };
            self.agents.command(index, Command::Assign(Box::new(order))).await?;
        }
        Ok(())
    }

    /// Sends files to one agent at a time, because the stream holds less than one input.
    async fn send_files(&mut self) -> Result<(), Box<dyn Error>> {
        for index in self.active() {
            for (number, (_, path)) in self.task.inputs[index].files.clone().iter().enumerate() {
                let subject = subjects::down(&self.run, &self.agents.states[index].info.id, number);
                self.send_file(&subject, path).await?;
            }
        }
        Ok(())
    }

    /// Sends a file and handles heartbeats meanwhile, so that a failing agent is noticed at once.
    async fn send_file(&mut self, subject: &str, path: &Path) -> Result<(), Box<dyn Error>> {
        let bus = self.bus.clone();
        let send = bus.send_file(subject, path);
        tokio::pin!(send);
        loop {
            tokio::select! {
                sent = &mut send => return Ok(sent?),
                heard = self.agents.poll_heartbeats() => heard?,
            }
            if let Some((name, reason)) = self.agents.first_lost() {
                return Err(FleetError::Refused(name, reason).into());
            }
            self.check_stop()?;
        }
    }

    fn check_stop(&self) -> Result<(), FleetError> {
        if (self.stops)() > 0 { Err(FleetError::Stopped) } else { Ok(()) }
    }

    async fn wait_until_ready(&mut self) -> Result<(), Box<dyn Error>> {
        loop {
            if let Some((name, reason)) = self.agents.first_lost() {
                return Err(FleetError::Refused(name, reason).into());
            }
            if self.agents.states.iter().all(|agent| agent.has_ended() || matches!(agent.phase, Phase::Ready { .. })) {
                return Ok(());
            }
            self.check_stop()?;
            self.agents.poll_heartbeats().await?;
        }
    }

    async fn start(&mut self) -> Result<(), Box<dyn Error>> {
        let active = self.active();
        print_status(self.is_quiet, || {
            format!("{} agents are ready; they start in {} s", active.len(), START_LEAD.as_secs())
        });
        let at_ns = wall_ns() + START_LEAD.as_nanos() as u64;
        for index in active {
            let at_ns = self.agents.states[index].clock.to_remote(at_ns);
            self.agents.command(index, Command::Start { at_ns }).await?;
        }
        Ok(())
    }

    /// Waits for all agents. A lost agent does not stop the others.
    async fn wait_until_finished(&mut self) -> Result<(), Box<dyn Error>> {
        let (mut stopped, mut reported) = (0, Vec::new());
        while !self.agents.states.iter().all(AgentState::has_ended) {
            self.agents.poll_heartbeats().await?;
            for agent in self.agents.states.iter().filter(|agent| agent.lost.is_some()) {
                let name = &agent.info.name;
                if !reported.contains(name) {
                    reported.push(name.clone());
                    print_status(self.is_quiet, || {
                        format!("agent {name}: {}", agent.lost.as_deref().unwrap_or_default())
                    });
                }
            }
            while stopped < (self.stops)() {
                stopped += 1;
                for index in self.active() {
                    // An agent that misses this will be lost.
                    let _stopped = self.agents.command(index, Command::Stop).await;
                }
            }
        }
        Ok(())
    }

    async fn collect(&mut self) -> Result<FleetRun, Box<dyn Error>> {
        let mut runs = Vec::new();
        let mut figures = Vec::new();
        for index in 0..self.agents.states.len() {
            let fetched = match self.agents.states[index].planned {
                Some(0) => None,
                _ => self.fetch(index).await,
            };
            let agent = &self.agents.states[index];
            let own = AgentFigures::new(&agent.info.name, &agent.info.host, agent.planned)
                .with_clock(agent.clock.ahead_ns, agent.clock.uncertainty_ns);
            figures.push(match (fetched, &agent.phase) {
                (Some(Ok(run)), &Phase::Finished { cpu_share, start_late_us, .. }) => {
                    let own = AgentFigures { cpu_share, start_late_us, ..own };
                    let own = run.summary.as_ref().map_or_else(|| own.clone(), |summary| own.clone().with(summary));
                    runs.push(run);
                    own
                }
                (Some(Err(reason)), _) => own.lost(agent.sent, reason),
                (Some(Ok(_)), _) | (None, _) => own,
            });
        }
        if runs.is_empty() {
            let lost = figures.into_iter().filter_map(|agent| Some(format!("{}: {}", agent.name, agent.lost?)));
            return Err(FleetError::Nothing(lost.collect::<Vec<_>>().join("; ")).into());
        }
        let (recording, mut summary) = merge_agents(&runs)?;
        summary.note_agents(figures);
        Ok((recording, summary, runs.into_iter().filter_map(|run| run.manifest).collect()))
    }

    /// Fetches the run of an agent, with times on the local clock. Returns the reason if there is none.
    async fn fetch(&mut self, index: usize) -> Option<Result<Run, String>> {
        let agent = &self.agents.states[index];
        if let Some(reason) = &agent.lost {
            return Some(Err(reason.clone()));
        }
        let Phase::Finished { bytes, .. } = agent.phase else { return None };
        let (id, name, clock) = (agent.info.id.clone(), agent.info.name.clone(), agent.clock);
        let (file, own) = (self.scratch.join(format!("{id}.bundle")), self.runs.join(&name));
        if bytes > SPOOL_BYTES_MAX {
            return Some(Err(format!("its run folder has {bytes} bytes")));
        }
        if let Err(error) = self.agents.command(index, Command::Collect).await {
            return Some(Err(error.to_string()));
        }
        let subject = subjects::up(&self.run, &id);
        let taken = self.bus.take_file(&self.run, &subject, bytes, &file, CHUNK_TIMEOUT).await;
        let read = taken.map_err(|error| error.to_string()).and_then(|()| {
            unpack(&file, &own).map_err(|error| error.to_string())?;
            let run = Run::read(&own).map_err(|error| error.to_string())?;
            let recording = Recording { started: clock.to_local(run.recording.started), ..run.recording };
            Ok(Run { label: name, recording, ..run })
        });
        Some(read.map_err(|error| format!("cannot receive its run folder: {error}")))
    }

    /// Releases the agents, and deletes the stream.
    async fn end(&mut self, ids: &[String]) {
        let envelope = Envelope { run: self.run.clone(), command: Command::Release };
        for id in ids {
            // An agent that misses this releases the run when heartbeats stop.
            let _said = self.bus.publish(subjects::commands(id), &envelope).await;
        }
        // The stream may not exist.
        let _gone = self.bus.delete_stream(&self.run).await;
        let _flushed = self.bus.flush().await;
    }
}

fn input_file(content: Content, path: &Path) -> Result<InputFile, Box<dyn Error>> {
    let metadata = std::fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let bytes = metadata.len();
    if bytes > SPOOL_BYTES_MAX {
        return Err(format!("{}: {bytes} bytes are more than an agent accepts", path.display()).into());
    }
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or("txt").to_owned();
    Ok(InputFile { content, bytes, extension })
}

/// Writes the folder of a run, then prints `before` and the run's summary. The exit code shows whether the run is
/// valid.
///
/// # Errors
/// The folder cannot be written.
pub(crate) fn write_results(
    out: Option<OutFolder>,
    recording: &Recording,
    summary: &Summary,
    merged: Vec<Manifest>,
    seed: u64,
    before: Option<String>,
) -> Result<ExitCode, Box<dyn Error>> {
    let committed = out.map_or(Ok(()), |out| {
        let manifest = Manifest { merged, ..Manifest::new(recording.started, seed) };
        let kept = folder::write(out.path(), recording, summary, &manifest);
        out.commit_after(kept)
    });
    print_summary(summary, before);
    committed?;
    Ok(if summary.validity.valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
