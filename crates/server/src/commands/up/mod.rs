//! `up`: runs a cluster on one machine, with one process for each node.
//!
//! ```text
//!   plan      the directory and the configurations
//!   ports     the ports of the nodes
//!   children  the processes
//!   setup     adds the update key and zones, through the API
//!   watch     polls the nodes: status lines and cluster.json
//! ```

pub(crate) mod children;
pub(crate) mod plan;
pub(crate) mod ports;
pub(crate) mod setup;
pub(crate) mod watch;

use crate::limits::{UP_READY_MS, UP_STOP_MS};
use children::Children;
use cli::client::Client;
use cli::node::up::UpArgs;
use plan::Plan;
use process::problem::{Exit, Problem};
use process::signals::{self, Hangup};
use process::stop::Stop;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use watch::Watch;

/// Time between polls of the nodes: until all answer, while something changes, and when all is well. Polls cost the
/// nodes time, so they are rare when all is well.
const READY_POLL_MS: u64 = 20;
const POLL_MS: u64 = 100;
const QUIET_POLL_MS: u64 = 1_000;

/// Runs until Ctrl-C, or until the last node has exited.
pub(crate) fn run(args: &UpArgs) -> Result<(), Problem> {
    // Zone files are read first, so that an error in one leaves no incomplete cluster behind.
    let zones = setup::load_zones(&args.zones)?;
    let plan = Plan::make(args)?;
    process::log::start_stdout();
    let stop = Stop::default();
    signals::handle(&stop, Hangup::Stops)?;
    let mut children = Children::start(&plan, args.supervise)?;
    let mut watch = Watch::new(&plan);
    let result = start_up(&plan, zones, &mut children, &mut watch, &stop)
        .and_then(|()| supervise_nodes(&plan, &mut children, &mut watch, &stop));
    if result.is_ok() {
        say("stopping all nodes");
    }
    children.stop(Duration::from_millis(UP_STOP_MS));
    watch.write_stopped(&children);
    result
}

/// Waits for a leader, adds key and zones, and waits until all nodes answer.
fn start_up(
    plan: &Plan,
    zones: Vec<setup::ZoneToServe>,
    children: &mut Children,
    watch: &mut Watch,
    stop: &Stop,
) -> Result<(), Problem> {
    let mut deadline = Instant::now() + Duration::from_millis(plan.ready_ms());
    let (mut done, mut under_way, mut zones) = (None, None, Some(zones));
    while !stop.wait(Duration::from_millis(READY_POLL_MS)) {
        let ended = children.poll();
        watch.poll(children);
        if let Some(problem) = children.early_exit(plan) {
            // A resumed cluster continues with one node less.
            if !plan.resumes || children.running_count() <= plan.nodes.len() / 2 {
                return Err(problem);
            }
            for line in ended {
                say(&format!("{line}\n{problem}"));
            }
        } else {
            ended.iter().for_each(|line| say(line));
        }
        if let Some(setting_up) = &under_way {
            match setup_result(setting_up)? {
                None => continue,
                Some(is_done) => (done, under_way) = (Some(is_done), None),
            }
            // Importing large zones takes long, so only time without progress counts.
            deadline = Instant::now() + Duration::from_millis(UP_READY_MS);
        }
        if Instant::now() > deadline {
            return Err(watch.not_ready());
        }
        if watch.all_agree_on_leader(children)
            && let Some(zones) = zones.take()
        {
            // Without removed nodes, which would exit before they respond.
            let members = watch.expected(children).map(|node| node.api).collect();
            under_way =
                Some(set_up(Client::for_cluster(&plan.layout, plan.connector(), members)?, plan.clone(), zones)?);
        } else if let Some(done) = done.as_ref().filter(|done| watch.all_answer(children, &done.probes)) {
            let count = watch.expected(children).count();
            say(&format!("ready: {count} nodes, leader {}", watch.leader().unwrap_or(0)));
            done.lines.iter().for_each(|line| say(line));
            return Ok(());
        }
    }
    Ok(())
}

/// Sets up key and zones in a separate thread, so that a stop does not wait for it.
fn set_up(
    client: Client,
    plan: Plan,
    zones: Vec<setup::ZoneToServe>,
) -> Result<Receiver<Result<setup::Done, Problem>>, Problem> {
    let (sender, done) = channel();
    let work = move || {
        // The send fails only after `up` was stopped.
        let _ = sender.send(setup::apply(&client, &plan, zones));
    };
    let failed = |error| Problem::new(Exit::Failed, "cannot start a thread", error);
    std::thread::Builder::new().name("setup".into()).spawn(work).map_err(failed)?;
    Ok(done)
}

/// The result of the setup thread, after a short wait. `None` while it is running.
fn setup_result(setting_up: &Receiver<Result<setup::Done, Problem>>) -> Result<Option<setup::Done>, Problem> {
    match setting_up.recv_timeout(Duration::from_millis(READY_POLL_MS)) {
        Ok(done) => done.map(Some),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => {
            Err(Problem::new(Exit::Failed, "cannot set up the cluster", "a thread panicked, which is a bug"))
        }
    }
}

/// Prints status changes until `up` is stopped.
fn supervise_nodes(plan: &Plan, children: &mut Children, watch: &mut Watch, stop: &Stop) -> Result<(), Problem> {
    let mut polled_at = Instant::now();
    while !stop.wait(Duration::from_millis(POLL_MS)) {
        let ended = children.poll();
        ended.iter().for_each(|line| say(line));
        let is_quiet = ended.is_empty() && watch.is_healthy(children);
        if is_quiet && polled_at.elapsed() < Duration::from_millis(QUIET_POLL_MS) {
            continue;
        }
        polled_at = Instant::now();
        for line in watch.poll(children) {
            say(&line);
        }
        if children.running_count() == 0 && !watch.any_answers() {
            let dir = plan.layout.dir().display().to_string();
            return Err(Problem::new(
                Exit::Failed,
                "all nodes have exited",
                "see the lines above, and DIR/node-*/node.log",
            )
            .at(&dir)
            .hint(format!("`catamaran up --dir {dir}` resumes with all data")));
        }
    }
    Ok(())
}

/// Prints a line without buffering, also into a pipe. If the reader is gone or stalls, the cluster continues.
fn say(line: &str) {
    process::log::print_unattended(line);
}
