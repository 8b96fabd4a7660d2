//! `cargo xtask torture`: runs real nodes under faults. Porcupine and our own checks verify the results.
//!
//! ```text
//!   rows --> faults --> cluster (net, disk, node)
//!   load (client, watch) --> history --> verdict, checker --> summary
//! ```

// The command line.
mod arguments;
mod limits;
mod rows;

// The machines: networks, disks and processes.
mod api;
mod cluster;
mod disk;
mod net;
mod node;
mod system;

// The clients, and the history of their operations.
mod client;
mod history;
mod load;
mod shared;
mod watch;

// The faults, and the allowed behavior of nodes.
mod expectations;
mod faults;

// The checks.
mod checker;
mod doctored;
mod verdict;

// One run, all runs, and the summary.
mod campaign;
mod interrupt;
mod run;
mod summary;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = arguments::Arguments::parse();
    if arguments.list {
        for row in rows::ROWS {
            println!("{:<18} {} nodes: {}", row.name, row.nodes, row.what);
        }
        return ExitCode::SUCCESS;
    }
    match campaign::start(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("torture: {reason}");
            ExitCode::FAILURE
        }
    }
}
