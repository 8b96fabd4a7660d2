//! `serve`: one node.

use super::ServeArgs;
use crate::config::Config;
use crate::files::tighten;
use crate::problem::Problem;
use crate::stop::Stop;

pub(crate) fn run(args: &ServeArgs) -> Result<(), Problem> {
    let mut config = Config::load(&args.config)?;
    config.zones.nodes_here = args.nodes_here;
    config.peer.also_at.clone_from(&args.peer_addresses);
    tighten::node(&args.config, &config.dir);
    // Before the first thread: a thread that ran already would keep what the others give up.
    let node = crate::node::Prepared::new(config)?;
    let stop = Stop::default();
    stop.on_signals()?;
    if args.stop_with_stdin {
        stop.on_end_of_input()?;
    }
    node.run(&stop)
}
