//! Signals of a process that runs until it is stopped.
//!
//! | signal | `serve` | `up` | `ddns` |
//! |---|---|---|---|
//! | SIGTERM, SIGINT | stops in order | stops in order | stops in order |
//! | SIGHUP | reloads its files | stops in order, because its terminal is gone | ignored |
//! | SIGUSR1, SIGUSR2 | ignored | ignored | ignored |
//!
//! By default each of them would end the process at once, without a handover of the leadership.

use crate::problem::{Exit, Problem};
use crate::protect::is_hangup_ignored;
use crate::stop::Stop;
use std::io;
use std::sync::mpsc::SyncSender;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The effect of SIGHUP.
pub enum Hangup {
    /// Nothing.
    Ignored,
    /// Stops the process in order, unless it was started with `nohup`.
    Stops,
    /// Sends a message, and the receiver reloads. Further signals add no message while one is queued.
    Reloads(SyncSender<()>),
}

/// Starts the signal thread. SIGTERM and SIGINT (Ctrl-C) order a stop; `hangup` defines the effect of SIGHUP.
pub fn handle(stop: &Stop, hangup: Hangup) -> Result<(), Problem> {
    let failed = |error: io::Error| Problem::new(Exit::Failed, "cannot wait for signals", error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let entered = runtime.enter();
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let hangup = match hangup {
        Hangup::Stops if is_hangup_ignored() => Hangup::Ignored,
        hangup => hangup,
    };
    let mut hung_up = match hangup {
        Hangup::Ignored => None,
        _ => Some(signal(SignalKind::hangup()).map_err(failed)?),
    };
    drop(entered);
    let stop = stop.clone();
    let wait = move || {
        runtime.block_on(async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => break,
                    _ = terminate.recv() => break,
                    () = next(&mut hung_up) => match &hangup {
                        Hangup::Reloads(sender) => drop(sender.try_send(())),
                        _ => break,
                    },
                }
            }
            stop.order();
        });
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).map(|_| ()).map_err(failed)
}

/// Waits for the next signal; forever if there is no handler.
async fn next(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}
