//! `serve`: one node.

use super::ServeArgs;
use crate::config::Config;
use crate::problem::Problem;
use crate::stop::Stop;

pub(crate) fn run(args: &ServeArgs) -> Result<(), Problem> {
    let mut config = Config::load(&args.config)?;
    config.zones.nodes_here = args.nodes_here;
    let stop = Stop::default();
    stop.on_signals()?;
    if args.stop_with_stdin {
        stop.on_end_of_input()?;
    }
    crate::node::run(config, &stop)
}
