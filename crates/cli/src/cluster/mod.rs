//! `cluster`: members, leader, backups, certificates and versions of a cluster.

mod backup;
mod members;
mod rotate;
mod status;

use super::client::Client;
use crate::node::NodeCommands;
use crate::node::restore::{RecoverArgs, RestoreArgs};
use crate::target::Target;
use clap::Subcommand;
use config::address::PeerAddress;
use config::api_types::DoneJson;
use process::problem::Problem;
use std::path::PathBuf;
use std::time::Duration;

pub(super) const EXAMPLES: &str = "\
Examples:
  catamaran cluster status
  catamaran cluster add                 print a join token for one node
  catamaran cluster add --learner       print a join token for a node without a vote
  catamaran cluster tokens              list the unused tokens
  catamaran cluster revoke-token ID     revoke an unused token
  catamaran cluster promote 4           give learner 4 a vote
  catamaran cluster replace 2 4         remove node 2 and give its vote to learner 4
  catamaran cluster move 3 ns3.example.net:5380
  catamaran cluster remove 2
  catamaran cluster transfer-leader 3
  catamaran cluster backup db.backup    write zones, keys and settings to one file
  catamaran cluster rotate              replace the certificates between nodes
  catamaran cluster upgrade             after all nodes run the new version";

const STATUS_EXAMPLES: &str = "\
Examples:
  catamaran cluster status
  catamaran cluster status --json

Every change needs a majority of the voters. A learner answers queries like other nodes, but has no vote. A joining node
becomes a voter once it has caught up. The lag is in log entries. `certificate` is the day on which the node's
certificate expires. The node renews it when four months are left.";

const ADD_EXAMPLES: &str = "\
Examples:
  catamaran cluster add
  catamaran cluster add --learner

The token admits one node, and expires after one hour. On the machine of the new node, run:
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

The node votes once it has caught up with the log.";

const DEMOTE_EXAMPLES: &str = "\
Examples:
  catamaran cluster demote 4

The node answers queries and accepts updates as before, but no longer votes.";

const REPLACE_EXAMPLES: &str = "\
Examples:
  catamaran cluster replace 2 4

For a node that is dead, or whose machine will be removed. Add the new node first (`cluster add --learner`, `join`), and
wait until `cluster status` shows no lag. The number of voters never drops.";

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

For a node that will not come back, or whose data is damaged or lost. More than half of the remaining voters must be
reachable. To replace the node, see `catamaran join --help`. The new node gets a new number.";

const TRANSFER_EXAMPLES: &str = "\
Examples:
  catamaran cluster transfer-leader       to the reachable voter with the longest log
  catamaran cluster transfer-leader 3     to this voter

Succeeds once the named voter, or any other one, leads. A learner is refused. If the voter does not answer or catch up,
the command fails and the leader stays. Updates wait during the transfer, usually for some milliseconds. None is lost
or refused.";

const ROTATE_EXAMPLES: &str = "\
Examples:
  catamaran cluster rotate                give every node a new key and certificate
  catamaran cluster rotate --ca           replace the CA; the old CA is no longer accepted
  catamaran cluster rotate --data-key     replace the key that seals secrets in log, checkpoints and
                                          backups, and that makes DNS cookies and TLS tickets
  catamaran cluster rotate --api-token    replace the API token; copy its file to the other machines

No node restarts. Once a node uses its new key, the others refuse the old one and close connections that use it. A new
CA is introduced in steps, and each step waits until every node is ready. If a node is down, run the command again
later, and it continues. The data key is also replaced when a node is removed. Keep the old key with the backups that it
decrypts. docs/how-to/rotate-keys.md lists what to run after a theft.";

const UPGRADE_EXAMPLES: &str = "\
Examples:
  catamaran cluster upgrade      after all nodes run the new version";

const BACKUP_EXAMPLES: &str = "\
Examples:
  catamaran cluster backup /backup/monday
  catamaran cluster backup /backup/monday --with-data-key

Writes one consistent file with a checksum, from any node. It contains everything that was acknowledged before. The
cluster keeps running. Secrets in the file are sealed with the cluster's data.key.";

const RESTORE_EXAMPLES: &str = "\
Examples:
  catamaran cluster restore monday --data-key monday.key --dir new --dns 192.0.2.1:53 --peer 10.0.0.1:5380

Creates a new cluster of one node. Other nodes can join it. It has the zones, keys, grants and remembered updates of the
backup. Nodes of the old cluster cannot join. With --old-node, the new node stops the old nodes that it can reach.

Serials jump ahead by 1,073,741,824, so that secondaries accept the zones even if the backup lacks some changes.
Zones with `--serial unixtime` or `date` jump from now. To keep serials readable, give a smaller --serial-gap
that still exceeds the number of changes since the backup. To restore the same backup again, give a larger one.";

const RECOVER_EXAMPLES: &str = "\
Examples:
  catamaran cluster recover node-2/catamaran.toml --accept-loss --dir new --dns 192.0.2.1:53 --peer 10.0.0.1:5380

Use this when more than half of the voters are permanently lost. Updates that only they had are lost, acknowledged or
not. Compare `applied` in the last `catamaran status` of the remaining nodes, and take the node with the highest value.
The command reads the old data and marks it, so that its node does not start again. Serials jump ahead as with
`cluster restore`. A node with damaged data (exit code 9) or a removed node needs --accept-damage: prefer any other
remaining node. The command then reads a damaged log up to the first lost entry, and prints which entries are lost.

Nodes of the old cluster cannot join the new one, but a majority of them can still run the old cluster. The new node
stops each old node that it can reach (exit code 7). Keep the other old nodes from starting. To try a recovery while
the old cluster keeps running, add --rehearsal.";

/// `cluster ...`
#[derive(Subcommand, Debug)]
pub(crate) enum ClusterCommand {
    /// List the nodes, their roles and their replication lag.
    #[command(after_help = STATUS_EXAMPLES)]
    Status {
        /// Print the leader's view as JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Print a join token for one node.
    #[command(after_help = ADD_EXAMPLES)]
    Add {
        /// Add a node that answers queries and accepts updates, but has no vote until it is promoted.
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
    /// Revoke an unused join token.
    #[command(after_help = REVOKE_TOKEN_EXAMPLES)]
    RevokeToken {
        /// Id of the token, as shown by `catamaran cluster tokens`.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        id: Option<String>,
        /// Revoke all unused tokens.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Turn a learner into a voter.
    #[command(after_help = PROMOTE_EXAMPLES)]
    Promote {
        /// Number of the node, as shown by `catamaran cluster status`.
        node: u64,
        #[command(flatten)]
        target: Target,
    },
    /// Turn a voter into a learner.
    #[command(after_help = DEMOTE_EXAMPLES)]
    Demote {
        /// Number of the node, as shown by `catamaran cluster status`.
        node: u64,
        #[command(flatten)]
        target: Target,
    },
    /// Remove a node and give its vote to a learner, in one step.
    #[command(after_help = REPLACE_EXAMPLES)]
    Replace {
        /// Number of the node to remove.
        node: u64,
        /// Number of the learner that gets the vote.
        by: u64,
        #[command(flatten)]
        target: Target,
    },
    /// Set the address of a node.
    #[command(after_help = MOVE_EXAMPLES)]
    Move {
        /// Number of the node, as shown by `catamaran cluster status`.
        node: u64,
        /// The address that the other nodes connect to.
        #[arg(value_name = "HOST:PORT")]
        address: PeerAddress,
        /// Move the node even if it does not answer at the new address.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Remove a node permanently.
    #[command(after_help = REMOVE_EXAMPLES)]
    Remove {
        /// Number of the node, as shown by `catamaran cluster status`.
        node: u64,
        #[command(flatten)]
        target: Target,
    },
    /// Transfer the leadership to another voter.
    #[command(after_help = TRANSFER_EXAMPLES)]
    TransferLeader {
        /// Number of the voter. Default: the reachable voter with the longest log.
        node: Option<u64>,
        #[command(flatten)]
        target: Target,
    },
    /// Write a backup of the cluster to one file.
    #[command(after_help = BACKUP_EXAMPLES)]
    Backup {
        /// Path of the backup file.
        file: PathBuf,
        /// Also write the data key, to FILE.key. With both files, all TSIG secrets can be read.
        #[arg(long)]
        with_data_key: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Create a new cluster of one node from a backup.
    #[command(after_help = RESTORE_EXAMPLES)]
    Restore(RestoreArgs),
    /// Create a new cluster from one node of a cluster that lost its majority.
    #[command(after_help = RECOVER_EXAMPLES)]
    Recover(RecoverArgs),
    /// Replace certificates between nodes, the CA, the data key or the API token.
    #[command(after_help = ROTATE_EXAMPLES)]
    Rotate {
        /// Replace the CA. Afterwards, certificates of the old CA are refused.
        #[arg(long, conflicts_with = "data_key")]
        ca: bool,
        /// Replace the key that seals secrets in log, checkpoints and backups, and that makes cookies and tickets.
        #[arg(long)]
        data_key: bool,
        /// Write a new API token to the file that this command reads. The nodes on this machine use it immediately.
        #[arg(long, conflicts_with_all = ["ca", "data_key"])]
        api_token: bool,
        /// Time limit for each step.
        #[arg(long, value_name = "SECONDS", default_value_t = 30)]
        wait: u64,
        #[command(flatten)]
        target: Target,
    },
    /// Enable the features of the version that all nodes run. Afterwards, nodes cannot be downgraded.
    #[command(after_help = UPGRADE_EXAMPLES)]
    Upgrade {
        #[command(flatten)]
        target: Target,
    },
}

pub(crate) fn run(command: &ClusterCommand, node: &impl NodeCommands) -> Result<(), Problem> {
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
        ClusterCommand::Backup { file, with_data_key, target } => {
            backup::run(file, *with_data_key, target, |file, keys| node.verify_backup(file, keys))
        }
        ClusterCommand::Restore(args) => node.restore(args),
        ClusterCommand::Recover(args) => node.recover(args),
        ClusterCommand::Rotate { api_token: true, target, .. } => rotate::api_token(target),
        ClusterCommand::Rotate { ca, data_key, api_token: false, wait, target } => {
            let rotate = match (ca, data_key) {
                (true, _) => rotate::ca,
                (_, true) => rotate::data_key,
                _ => rotate::certificates,
            };
            rotate(Duration::from_secs(*wait), target)
        }
        ClusterCommand::Upgrade { target } => upgrade(target),
    }
}

fn upgrade(target: &Target) -> Result<(), Problem> {
    let client = Client::find(target)?;
    let done =
        client.change("POST", "/v1/feature-level", &[]).map_err(|problem| problem.of("cannot upgrade the cluster"))?;
    let done: DoneJson = done.json()?;
    let levels = client.nodes().iter().filter_map(|&node| client.status(node, false).ok());
    // A lagging node may still report the previous level.
    let level = levels.map(|of| of.feature_level).max();
    let level = level.map_or_else(|| "the newest".to_owned(), |level| level.to_string());
    let result = if done.changed { "the cluster is now at feature level" } else { "the cluster was already at" };
    super::output::print(&format!("{result} {level}"))
}
