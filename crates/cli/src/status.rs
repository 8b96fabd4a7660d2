//! `status`: one line for each node and zone.

use super::client::Client;
use crate::target::Target;
use clap::Args;
use config::api_types::{StatusJson, SuspectedLossJson};
use config::files::cluster_json::ClusterJson;
use config::files::layout::Layout;
use process::problem::{Exit, Problem};
use std::io::Write;
use std::net::SocketAddr;

/// Arguments of `status`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  catamaran status\n  catamaran status --dir /var/lib/catamaran --json")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Print the status of each node as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &StatusArgs) -> Result<(), Problem> {
    let client = Client::find(&args.target)?;
    let responses: Vec<(SocketAddr, Response)> =
        client.nodes().iter().map(|&node| (node, client.status(node, true))).collect();
    let mut out = std::io::stdout().lock();
    let written = if args.json {
        let found: Vec<&StatusJson> = responses.iter().filter_map(|(_, response)| response.as_ref().ok()).collect();
        serde_json::to_string_pretty(&found).map_err(std::io::Error::from).and_then(|text| writeln!(out, "{text}"))
    } else {
        let known = ClusterJson::load(&Layout::new(&args.target.dir).cluster_json()).ok();
        responses
            .iter()
            .try_for_each(|(node, response)| match removed(*node, response, &responses, known.as_ref()) {
                Some(number) => writeln!(out, "node {number}: removed from the cluster; its directory can be deleted"),
                None => writeln!(out, "{}", line(*node, response, known.as_ref())),
            })
            .and_then(|()| zones(&mut out, &responses))
    };
    super::output::done(written)?;
    if responses.iter().any(|(_, response)| response.as_ref().is_ok_and(|status| status.leader.is_some())) {
        Ok(())
    } else {
        let why = "no node answers, or none knows a leader";
        Err(Problem::new(Exit::Unreachable, "the cluster accepts no changes", why)
            .hint("more than half of the voters must run and reach each other"))
    }
}

type Response = Result<StatusJson, String>;

/// The number of a node that does not answer because it was removed from the cluster. A node that knows a leader
/// reports the members. `cluster.json` of `up` keeps removed nodes.
fn removed(
    node: SocketAddr,
    response: &Response,
    responses: &[(SocketAddr, Response)],
    known: Option<&ClusterJson>,
) -> Option<u64> {
    let number = known?.nodes.iter().find(|of| response.is_err() && of.api == node)?.id;
    let statuses =
        responses.iter().filter_map(|(_, response)| response.as_ref().ok()).filter(|status| status.leader.is_some());
    let newest = statuses.max_by_key(|status| status.applied_index)?;
    newest.members.iter().all(|member| member.node != number).then_some(number)
}

fn line(node: SocketAddr, response: &Response, known: Option<&ClusterJson>) -> String {
    match response {
        Err(why) => match known.and_then(|known| known.nodes.iter().find(|of| of.api == node)) {
            Some(of) => format!("node {} at {node}: does not answer ({why})", of.id),
            None => format!("{node}: does not answer ({why})"),
        },
        Ok(status) => format!(
            "node {}: {}, term {}, leader {}, commit {}, applied {}, serving {}{}, staleness {} ms, level {}, hash \
             {}{}{}",
            status.node,
            status.role,
            status.term,
            status.leader.map_or("none".to_owned(), |id| id.to_string()),
            status.commit_index,
            status.applied_index,
            status.serving,
            if status.dns { "" } else { " (no DNS)" },
            status.staleness_ms,
            status.feature_level,
            &status.state_hash[..status.state_hash.len().min(12)],
            if status.disk_full { DISK_FULL } else { "" },
            status.suspected_log_loss.as_ref().map_or_else(String::new, loss),
        ),
    }
}

const DISK_FULL: &str =
    "\n  its disk is full. It still answers queries. Free some space, then it accepts updates again";

/// Entries that may be missing in a node's log, and the nodes that can resolve this.
fn loss(loss: &SuspectedLossJson) -> String {
    let nodes = loss.waits_for.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let wait = if nodes.is_empty() { String::new() } else { format!("; to elect a leader, start node {nodes}") };
    format!(
        "\n  its log may lack acknowledged entries, so it votes only for nodes that have them{wait} (see the node's \
         log)"
    )
}

/// The zones of the node with the highest applied index.
fn zones(out: &mut impl Write, responses: &[(SocketAddr, Response)]) -> std::io::Result<()> {
    let best =
        responses.iter().filter_map(|(_, response)| response.as_ref().ok()).max_by_key(|status| status.applied_index);
    for zone in best.into_iter().flat_map(|status| &status.zones) {
        writeln!(out, "{}", super::zone::line(zone))?;
    }
    Ok(())
}
