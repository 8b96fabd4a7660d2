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

use super::client::Client;
use crate::limits::{UP_READY_MS, UP_STOP_MS};
use crate::problem::{Exit, Problem};
use crate::signals::{self, Hangup};
use crate::stop::Stop;
use children::Children;
use clap::Args;
use plan::Plan;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use watch::Watch;

const EXAMPLES: &str = "\
Examples:
  catamaran up                                   run three nodes with a built-in zone, example.test
  catamaran up --zone example.org.zone           serve a zone file; the owner of its SOA is the origin
  catamaran up --zone example.org=db.example     serve a zone file with this origin
  catamaran up --zone root.zone.xz --nodes 5     read a compressed file (.xz, .zst or .gz)
  catamaran up --dir /var/lib/catamaran          resume the cluster in this directory
  catamaran up --dot-port 8530 --doh-port 8440 --doq-port 8530
                                                 also serve TLS, HTTPS and QUIC; the CA is DIR/ca.pem

All nodes answer DNS on 127.0.0.1:PORT and [::1]:PORT. Node i also answers on PORT+i. The ports for TLS, HTTPS and QUIC
work in the same way. Their certificates are for localhost, 127.0.0.1 and ::1. Node i serves the API on
127.0.0.1:API_PORT+i. Ctrl-C stops all nodes.";

/// Arguments of `up`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UpArgs {
    /// Number of nodes [default: 3 in a new directory, else the number in the directory]. 3 nodes tolerate one failure,
    /// 5 tolerate two.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=crate::limits::UP_NODES_MAX))]
    pub(crate) nodes: Option<u64>,
    /// Directory of the cluster. If it has a cluster, that cluster is resumed, else a new one is created.
    #[arg(long, default_value = "./catamaran-data", value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Zone file to serve: `FILE` or `ORIGIN=FILE`. Can be given several times. Existing zones are not changed. A
    /// relative $INCLUDE is resolved from the including file's directory.
    #[arg(long = "zone", value_name = "[ORIGIN=]FILE")]
    pub(crate) zones: Vec<String>,
    /// Port for DNS. All nodes share it, and node i also listens on PORT+i.
    #[arg(long, default_value_t = 5300)]
    pub(crate) port: u16,
    /// Port for DNS over TLS. All nodes share it, and node i also listens on DOT_PORT+i [default: closed].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) dot_port: Option<u16>,
    /// Port for DNS over HTTPS (HTTP/2, path /dns-query). Node i also listens on DOH_PORT+i [default: closed].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) doh_port: Option<u16>,
    /// Port for DNS over QUIC. Node i also listens on DOQ_PORT+i [default: closed]. It uses UDP, so it may equal
    /// --dot-port.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) doq_port: Option<u16>,
    /// Base port of the API. Node i listens on API_PORT+i.
    #[arg(long, default_value_t = 8053)]
    pub(crate) api_port: u16,
    /// Restart a node when it exits, unless it would exit again at once (exit codes 7, 8 and 9).
    #[arg(long)]
    pub(crate) supervise: bool,
}

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
    crate::log::start_stdout();
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
            under_way = Some(set_up(Client::for_plan(plan, members)?, plan.clone(), zones)?);
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
    crate::log::print_unattended(line);
}
