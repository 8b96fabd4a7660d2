//! Starting threads and runtimes.

use process::log::AbortOnPanic;
use process::problem::{Exit, Problem};
use std::thread::JoinHandle;

/// Starts a thread that the node needs: if it panics, the process ends.
pub(crate) fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Problem> {
    let failed = |error| Problem::new(Exit::Failed, "cannot start a thread", error);
    let abort_on_panic = AbortOnPanic::new(&*name);
    let work = move || {
        let _abort_on_panic = abort_on_panic;
        work();
    };
    std::thread::Builder::new().name(name).spawn(work).map_err(failed)
}

pub(crate) fn runtime_failed(error: std::io::Error) -> Problem {
    Problem::new(Exit::Failed, "cannot start a runtime", error)
}
