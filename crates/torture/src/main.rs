//! `cargo xtask torture`: real nodes under faults, judged by porcupine and by our own checks.
//!
//! ```text
//!   rows --> faults --> cluster (net, disk, node)
//!   load (client, watch) --> history --> judge, checker --> summary
//! ```

// What is asked for.
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

// The clients, and what they saw.
mod client;
mod history;
mod load;
mod watch;

// What goes wrong, and what nodes may do then.
mod expectations;
mod faults;

// Whether it was right.
mod checker;
mod doctored;
mod judge;

// One run, all runs, and the end.
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
