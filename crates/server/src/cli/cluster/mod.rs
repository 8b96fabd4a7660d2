//! `cluster`: who belongs to it and who leads it; its state taken away, and another cluster made of it.

mod backup;
mod members;
mod restore;
mod rotate;
mod status;

use super::client::Client;
use super::{InitArgs, Target};
use crate::api::types::DoneJson;
use crate::config::address::PeerAddress;
use crate::problem::{Exit, Problem};
use clap::Subcommand;
use replica::limits::SERIAL_GAP_MAX;
use replica::update::serial::SerialGap;
use std::path::PathBuf;
use std::time::Duration;

pub(super) const EXAMPLES: &str = "\
Examples:
  catamaran cluster status
  catamaran cluster add                 print a token with which one node may join
  catamaran cluster add --learner       for a node that answers and never votes
  catamaran cluster tokens              list the unused tokens
  catamaran cluster revoke-token ID     revoke one of them
  catamaran cluster promote 4           give learner 4 a vote
  catamaran cluster replace 2 4         node 2 goes, learner 4 gets its vote, in one step
  catamaran cluster move 3 ns3.example.net:5380
  catamaran cluster remove 2
  catamaran cluster transfer-leader 3
  catamaran cluster backup db.backup    everything, as one file
  catamaran cluster rotate              new certificates between nodes
  catamaran cluster upgrade             once all nodes run the new version, and none is to go back";

const STATUS_EXAMPLES: &str = "\
Examples:
  catamaran cluster status
  catamaran cluster status --json

A voter counts for the majority that every change needs; a learner answers like all others and counts for nothing;
a node that is joining becomes a voter once it has caught up. The lag is in entries of the log. The last column is the
day on which the node's certificate ends: it renews it itself, when a third of its year is left.";

const ADD_EXAMPLES: &str = "\
Examples:
  catamaran cluster add
  catamaran cluster add --learner

Prints a token that is good for one node and for one hour. On the machine of the new node:
  catamaran join --token-file - --dir /var/lib/catamaran --dns 192.0.2.4:53 --peer 10.0.0.4:5380";

const TOKENS_EXAMPLES: &str = "\
Examples:
  catamaran cluster tokens

Shows the id and the expiry of each token. The id is for `cluster revoke-token`; a node cannot join with it.";

const REVOKE_TOKEN_EXAMPLES: &str = "\
Examples:
  catamaran cluster revoke-token 5f1d09a3c2b7
  catamaran cluster revoke-token --all

Use it for a token that was sent to the wrong place. A node that has already joined stays: see `cluster remove`.";

const PROMOTE_EXAMPLES: &str = "\
Examples:
  catamaran cluster promote 4

It votes once it has caught up with the log.";

const DEMOTE_EXAMPLES: &str = "\
Examples:
  catamaran cluster demote 4

It answers queries and takes updates as before, and counts for no majority.";

const REPLACE_EXAMPLES: &str = "\
Examples:
  catamaran cluster replace 2 4

For a node that is dead, or on a machine that is to go. Add the new one first (`cluster add --learner`, `join`), and
wait until `cluster status` shows no lag. At no time are there fewer voters than before.";

const MOVE_EXAMPLES: &str = "\
Examples:
  catamaran cluster move 3 10.1.0.3:5380
  catamaran cluster move 3 ns3.example.net:5380

For a node whose address changed without a change of its configuration, as behind NAT. A node that starts with another
`peer.listen` or `peer.advertise` announces that address itself, which replaces the one given here. A name is resolved
at each connection. If all nodes have moved at once, see --peer-address in `catamaran serve --help`.";

const REMOVE_EXAMPLES: &str = "\
Examples:
  catamaran cluster remove 2

For a node that will not come back, or not with its data: damaged or lost. More than half of the voters that remain must
answer. A new node takes its place: see `catamaran join --help`. It gets a number of its own.";

const TRANSFER_EXAMPLES: &str = "\
Examples:
  catamaran cluster transfer-leader       to the voter with the longest log of those that answer
  catamaran cluster transfer-leader 3     to this voter

Ends well once another, or that one, leads. A learner is refused; a voter that does not answer or catch up does not take
over, and the command says that the leadership did not move. Updates wait meanwhile, some milliseconds when it does
answer; none is lost or refused.";

const ROTATE_EXAMPLES: &str = "\
Examples:
  catamaran cluster rotate                every node gets another key and certificate
  catamaran cluster rotate --authority    another authority issues them; the old one is accepted no more
  catamaran cluster rotate --data-key     another key seals secrets in log, checkpoints and backups,
                                          and makes DNS cookies and TLS tickets
  catamaran cluster rotate --api-token    another token opens the API; copy its file to the other machines

No node restarts. Once a node shows its new key, the others refuse the old one and cut connections that
show it. A new authority comes in steps, each of which waits until every node is ready. If one is down, run
the command again later: it goes on. The data key is also replaced when a node is removed; keep the old key
with the backups that it opens. docs/operating.md says what to run when something was stolen.";

const UPGRADE_EXAMPLES: &str = "\
Examples:
  catamaran cluster upgrade      once all nodes run the new version, and none is to go back";

const BACKUP_EXAMPLES: &str = "\
Examples:
  catamaran cluster backup /backup/monday
  catamaran cluster backup /backup/monday --with-data-key

One consistent file with a checksum, from any node, of all that was acknowledged before; the cluster goes on meanwhile.
Secrets in it are sealed under the cluster's data.key.";

const RESTORE_EXAMPLES: &str = "\
Examples:
  catamaran cluster restore monday --data-key monday.key --dir new --dns 192.0.2.1:53 --peer 10.0.0.1:5380

Makes a new cluster of one node; others join it. Zones, keys, grants and what was executed are those of the backup;
nodes of the old cluster cannot join. With --old-node, the new node ends the old nodes that it can reach.

Serials jump ahead by 1,073,741,824, so that secondaries accept the zones even if the backup lacks some changes.
Zones with `--serial unixtime` or `date` jump from now. To keep serials readable, give a smaller --serial-gap
that still exceeds the number of changes since the backup. To restore the same backup again, give a larger one.";

const RECOVER_EXAMPLES: &str = "\
Examples:
  catamaran cluster recover node-2/catamaran.toml --accept-loss --dir new --dns 192.0.2.1:53 --peer 10.0.0.1:5380

For when more than half of the voters are gone for good. What only they had is lost, acknowledged or not: compare
`applied` in the last `catamaran status` of the nodes that are left, and take the one that is furthest. The command
reads the old data and marks it, so that its node does not start again. Serials jump ahead as with `cluster restore`.
A node with damaged data (exit code 9) or a removed node needs --accept-damage: prefer any other node that is left. A
damaged log is then read up to the first lost entry, and the command prints which entries are lost.

Nodes of the old cluster cannot join the new one, but a majority of them can still run the old cluster. The new node
ends each old node that it can reach (exit code 7). Keep the other old nodes from starting. To try a recovery while
the old cluster keeps running, add --rehearsal.";

/// `cluster ...`
#[derive(Subcommand, Debug)]
pub(crate) enum ClusterCommand {
    /// Say who belongs to the cluster, who votes, who lags.
    #[command(after_help = STATUS_EXAMPLES)]
    Status {
        /// As JSON, as the leader has it.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Print a token with which one node may join.
    #[command(after_help = ADD_EXAMPLES)]
    Add {
        /// It answers and takes updates, and has no vote until it is promoted.
        #[arg(long)]
        learner: bool,
        #[command(flatten)]
        target: Target,
    },
    /// List the join tokens that are neither used nor revoked.
    #[command(after_help = TOKENS_EXAMPLES)]
    Tokens {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Revoke a join token that was not used.
    #[command(after_help = REVOKE_TOKEN_EXAMPLES)]
    RevokeToken {
        /// Id of the token, as in `catamaran cluster tokens`.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        id: Option<String>,
        /// Revoke all open tokens.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Give a learner a vote.
    #[command(after_help = PROMOTE_EXAMPLES)]
    Promote {
        /// Number of the node, as in `catamaran cluster status`.
        node: u64,
        #[command(flatten)]
        target: Target,
    },
    /// Take a voter's vote away: it becomes a learner.
    #[command(after_help = DEMOTE_EXAMPLES)]
    Demote {
        /// Number of the node, as in `catamaran cluster status`.
        node: u64,
        #[command(flatten)]
        target: Target,
    },
    /// Remove a node and give its vote to a learner, in one step.
    #[command(after_help = REPLACE_EXAMPLES)]
    Replace {
        /// Who goes.
        node: u64,
        /// The learner that gets the vote.
        by: u64,
        #[command(flatten)]
        target: Target,
    },
    /// Set the address of a node.
    #[command(after_help = MOVE_EXAMPLES)]
    Move {
        /// Number of the node, as in `catamaran cluster status`.
        node: u64,
        /// The address that the other nodes connect to.
        #[arg(value_name = "HOST:PORT")]
        address: PeerAddress,
        /// Move the node even if it does not answer at the new address
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Remove a node, for good.
    #[command(after_help = REMOVE_EXAMPLES)]
    Remove {
        /// Number of the node, as in `catamaran cluster status`.
        node: u64,
        #[command(flatten)]
        target: Target,
    },
    /// Hand the leadership over to another voter.
    #[command(after_help = TRANSFER_EXAMPLES)]
    TransferLeader {
        /// A voter's number; when none is given, the one with the longest log of those that answer.
        node: Option<u64>,
        #[command(flatten)]
        target: Target,
    },
    /// Write everything to one file.
    #[command(after_help = BACKUP_EXAMPLES)]
    Backup {
        /// The file to make.
        file: PathBuf,
        /// Write the data key beside it, to FILE.key: whoever has both can read all TSIG secrets.
        #[arg(long)]
        with_data_key: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Make a new cluster of one node from a backup.
    #[command(after_help = RESTORE_EXAMPLES)]
    Restore {
        /// The backup.
        file: PathBuf,
        /// The data key of the cluster that it comes from.
        #[arg(long, value_name = "FILE")]
        data_key: PathBuf,
        /// Configuration of a stopped node of the old cluster. The new node then ends each node of the old cluster
        /// that it can reach.
        #[arg(long, value_name = "FILE")]
        old_node: Option<PathBuf>,
        /// How far serials jump ahead of those in the backup [default: 1073741824]
        #[arg(long, value_name = "N", value_parser = serial_gap)]
        serial_gap: Option<SerialGap>,
        #[command(flatten)]
        new: InitArgs,
    },
    /// Make a new cluster of one node from the last node of one that lost its majority.
    #[command(after_help = RECOVER_EXAMPLES)]
    Recover {
        /// Configuration of that node, which must not run.
        config: PathBuf,
        /// What the lost nodes acknowledged and this one has not is lost.
        #[arg(long, required = true)]
        accept_loss: bool,
        /// Take it also if it had been removed from the cluster, or was ended since its log lacks, or contradicts, what
        /// the cluster had acknowledged.
        #[arg(long)]
        accept_damage: bool,
        /// Leave the nodes of the old cluster alone. By default, the new node ends each of them that it can reach.
        #[arg(long)]
        rehearsal: bool,
        /// How far serials jump ahead of those in the node's data [default: 1073741824]
        #[arg(long, value_name = "N", value_parser = serial_gap)]
        serial_gap: Option<SerialGap>,
        #[command(flatten)]
        new: InitArgs,
    },
    /// Give all nodes new certificates for the connections between them.
    #[command(after_help = ROTATE_EXAMPLES)]
    Rotate {
        /// Let another authority issue them; those of the old one are refused from then on.
        #[arg(long, conflicts_with = "data_key")]
        authority: bool,
        /// Replace the key that seals secrets in log, checkpoints and backups, and that makes cookies and tickets.
        #[arg(long)]
        data_key: bool,
        /// Put another API token into the file that this command reads; the nodes of this machine take it at once.
        #[arg(long, conflicts_with_all = ["authority", "data_key"])]
        api_token: bool,
        /// How long nodes have for each step.
        #[arg(long, value_name = "SECONDS", default_value_t = 30)]
        wait: u64,
        #[command(flatten)]
        target: Target,
    },
    /// Let the cluster use what the software that all its nodes run is capable of. From then on no node can go back to
    /// the version before.
    #[command(after_help = UPGRADE_EXAMPLES)]
    Upgrade {
        #[command(flatten)]
        target: Target,
    },
}

pub(crate) fn run(command: &ClusterCommand) -> Result<(), Problem> {
    match command {
        ClusterCommand::Status { json, target } => status::run(*json, target),
        ClusterCommand::Add { learner, target } => members::add(target, *learner),
        ClusterCommand::Tokens { json, target } => members::tokens(*json, target),
        ClusterCommand::RevokeToken { id, all: _, target } => members::revoke_tokens(id.as_deref(), target),
        ClusterCommand::Promote { node, target } => members::set_vote(*node, true, target),
        ClusterCommand::Demote { node, target } => members::set_vote(*node, false, target),
        ClusterCommand::Replace { node, by, target } => members::replace(*node, *by, target),
        ClusterCommand::Move { node, address, force, target } => members::move_to(*node, address, *force, target),
        ClusterCommand::Remove { node, target } => members::remove(*node, target),
        ClusterCommand::TransferLeader { node, target } => members::transfer_leader(*node, target),
        ClusterCommand::Backup { file, with_data_key, target } => backup::run(file, *with_data_key, target),
        ClusterCommand::Restore { file, data_key, old_node, serial_gap, new } => {
            restore::restore(file, data_key, old_node.as_deref(), serial_gap.unwrap_or_default(), new)
        }
        ClusterCommand::Recover { config, accept_loss: _, accept_damage, rehearsal, serial_gap, new } => {
            restore::recover(config, (*accept_damage, *rehearsal), serial_gap.unwrap_or_default(), new)
        }
        ClusterCommand::Rotate { api_token: true, target, .. } => rotate::api_token(target),
        ClusterCommand::Rotate { authority, data_key, api_token: false, wait, target } => {
            let rotate = match (authority, data_key) {
                (true, _) => rotate::authority,
                (_, true) => rotate::data_key,
                _ => rotate::certificates,
            };
            rotate(Duration::from_secs(*wait), target)
        }
        ClusterCommand::Upgrade { target } => upgrade(target),
    }
}

/// Reads `--serial-gap`.
fn serial_gap(text: &str) -> Result<SerialGap, String> {
    let gap = text.parse().ok().and_then(SerialGap::new);
    gap.ok_or_else(|| format!("give a number from 1 to {SERIAL_GAP_MAX}: a larger step would go back (RFC 1982)"))
}

fn upgrade(target: &Target) -> Result<(), Problem> {
    let client = Client::find(target)?;
    let done = client
        .change("POST", "/v1/feature-level", &[])
        .map_err(|problem| problem.of("the cluster was not upgraded"))?;
    let done: DoneJson = serde_json::from_slice(&done.body)
        .map_err(|error| Problem::new(Exit::Failed, "the answer cannot be read", error))?;
    let levels = client.nodes().iter().filter_map(|&node| client.status(node, false).ok());
    // A lagging node may still report the previous level.
    let level = levels.map(|of| of.feature_level).max();
    let level = level.map_or_else(|| "the newest".to_owned(), |level| level.to_string());
    let said = if done.changed { "the cluster is now at feature level" } else { "the cluster was already at" };
    super::output::print(&format!("{said} {level}"))
}
