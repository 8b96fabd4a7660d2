//! `serve`: one node.

use crate::run::Prepared;
use crate::run::reload::Source;
use cli::node::serve::ServeArgs;
use config::Config;
use config::files::tighten;
use config::log_level::LogLevel;
use process::log;
use process::problem::Problem;
use process::signals::{self, Hangup};
use process::stop::Stop;
use std::sync::mpsc::sync_channel;

pub(crate) fn run(args: &ServeArgs, level: Option<LogLevel>) -> Result<(), Problem> {
    let mut config = Config::load(&args.config)?;
    config.zones.nodes_here = args.nodes_here;
    log::set_level(level.or(config.log_level).unwrap_or_default().into());
    config.peer.extra_addresses.clone_from(&args.peer_addresses);
    tighten::node(&args.config, &config.dir);
    // Before the first thread: threads that already run would not be confined.
    let node = Prepared::new(config, &args.config)?;
    let stop = Stop::default();
    let (hangup, hangups) = sync_channel(1);
    signals::handle(&stop, Hangup::Reloads(hangup))?;
    if args.stop_with_stdin {
        stop.on_end_of_input()?;
    }
    node.run(&stop, Source { file: args.config.clone(), level, hangups })
}
