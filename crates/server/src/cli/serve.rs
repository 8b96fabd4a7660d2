//! `serve`: one node.

use super::{LogLevel, ServeArgs};
use crate::config::Config;
use crate::files::tighten;
use crate::log;
use crate::node::Prepared;
use crate::node::reload::Source;
use crate::problem::Problem;
use crate::signals::{self, Hangup};
use crate::stop::Stop;
use std::sync::mpsc::sync_channel;

pub(crate) fn run(args: &ServeArgs, level: Option<LogLevel>) -> Result<(), Problem> {
    let mut config = Config::load(&args.config)?;
    config.zones.nodes_here = args.nodes_here;
    log::set_level(level.or(config.log_level).unwrap_or_default().into());
    config.peer.also_at.clone_from(&args.peer_addresses);
    tighten::node(&args.config, &config.dir);
    // Before the first thread: a thread that ran already would keep what the others give up.
    let node = Prepared::new(config, &args.config)?;
    let stop = Stop::default();
    let (hangup, hangups) = sync_channel(1);
    signals::handle(&stop, Hangup::Reloads(hangup))?;
    if args.stop_with_stdin {
        stop.on_end_of_input()?;
    }
    node.run(&stop, Source { file: args.config.clone(), level, hangups })
}
