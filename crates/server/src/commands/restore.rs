//! `cluster restore` and `cluster recover`: create a new cluster of one node, from a backup or from an old node.

use super::backup_file::source;
use super::init;
use crate::audit_log;
use crate::peer::supersede::{self, OldCluster};
use crate::replica_host::data_key::to_replica;
use crate::replica_host::disk::StartReads;
use crate::replica_host::fatal::quarantined;
use crate::replica_host::identity::Identity;
use crate::replica_host::open::{is_damage, replica_config};
use crate::replica_host::{first_state, suspected_loss};
use crate::sys::clock;
use crate::tls::names::node_number;
use crate::tls::session::PeerFiles;
use cli::node::init::InitArgs;
use cli::node::restore::{RecoverArgs, RestoreArgs};
use cli::output::{counted, print};
use cli::target::program;
use config::Config;
use config::files::cluster_id;
use config::files::data_key::{DataKeyFile, DataKeys};
use config::files::layout::{Layout, audit_of, cluster_id_of};
use config::files::token::fill_random;
use process::problem::{Exit, Problem};
use replica::io::{ActionRecord, NodeId};
use replica::update::serial::SerialGap;
use replica::{Backup, DataKey, Founder, Founding, Replica, RestoreFailure, Restored, RestoredZone};
use std::io;
use std::path::{Path, PathBuf};

/// The origin of the new cluster's state, for its audit log.
struct Origin {
    action: &'static str,
    /// The source of the state.
    from: String,
    /// Whether the source may be a node that was removed from its cluster.
    accepts_removed: bool,
    /// How far serials jump ahead.
    serial_gap: SerialGap,
    /// The old member that the data came from, and its files. The new node uses them to notify the other old members.
    old: Option<(NodeId, PeerFiles)>,
}

/// Hint for damage that the user did not accept.
const ACCEPT_DAMAGE: &str = "start the node while other nodes run: it fetches the damaged parts from them. If that is \
                             not possible, use another remaining node, or a backup. If only this node remains, add \
                             --accept-damage: the new cluster gets everything before the first lost entry";
/// Hint when no intact checkpoint is left.
const NOTHING_INTACT: &str = "no checkpoint in the directory is intact: use another remaining node, or a backup";
/// Zones whose serials are printed, so that an operator can compare them with those of the secondaries.
const ZONES_PRINTED_MAX: usize = 10;

pub(super) fn restore(args: &RestoreArgs) -> Result<(), Problem> {
    let (file, old_node) = (args.file.as_path(), args.old_node.as_deref());
    let old_key = read_key(&args.data_key)?;
    let (disk, name) = source(file)?;
    let damaged = |error| Problem::new(Exit::Input, "cannot read the backup", error).at(file.display());
    let backup = Backup::open(&disk, &name).map_err(damaged)?;
    let old = old_node.map(|config| Config::load(config).map(|old| (config, old))).transpose()?;
    // Locks the directory of the old node: that node is not running, and its files are complete.
    let identity = old.as_ref().map(|(_, old)| Identity::load(old)).transpose()?;
    let notify = old.as_ref().zip(identity.as_ref());
    let notify = notify.map(|((_, old), identity)| (old.raft_id(), identity.peer_files.clone()));
    let (action, from, serial_gap) = ("cluster restore", "backup".to_owned(), gap(args.serial_gap));
    let origin = Origin { action, from, accepts_removed: false, serial_gap, old: notify };
    create_cluster(&args.new, &old_key, &origin, |founder| Replica::restore(&disk, &backup, founder))?;
    old.map_or(Ok(()), |(config, old)| mark_old_nodes(config, &old, &args.new.dir))
}

pub(super) fn recover(args: &RecoverArgs) -> Result<(), Problem> {
    let (config, accept_damage, is_rehearsal) = (args.config.as_path(), args.accept_damage, args.rehearsal);
    let old = Config::load(config)?;
    // Locks the directory: a running node cannot be the source.
    let identity = Identity::load(&old)?;
    let unreadable =
        |error: io::Error| Problem::new(Exit::Input, "cannot import the old state", error).at(old.dir.display());
    let loss = suspected_loss::read(&old.dir).map_err(unreadable)?.map(|written| written.why);
    let damage = quarantined(&old.dir).map_err(unreadable)?.or(loss);
    if let Some(why) = damage.as_ref().filter(|_| !accept_damage) {
        return Err(Problem::new(Exit::Quarantined, "cannot use this node: it stopped because of damaged data", why)
            .at(old.dir.display())
            .hint("use another remaining node, or a backup. If only this node remains, add --accept-damage"));
    }
    let disk = StartReads::new(&old.dir);
    let (old_config, old_key) =
        (replica_config(&old, &identity), replica_key(&identity.data_keys, &old.data_key_file)?);
    let accepted = if damage.is_some() { " accepted=damage" } else { "" };
    let from = format!("node-{}{accepted}", node_number(old_config.id));
    let notify = (!is_rehearsal).then(|| (old_config.id, identity.peer_files.clone()));
    let (action, serial_gap) = ("cluster recover", gap(args.serial_gap));
    let origin = Origin { action, from, accepts_removed: accept_damage, serial_gap, old: notify };
    create_cluster(&args.new, &old_key, &origin, |founder| {
        Replica::recover(&disk, &old_config, founder, accept_damage)
    })?;
    if is_rehearsal {
        return print("this was a rehearsal: the old cluster was not changed, and can keep running");
    }
    mark_old_nodes(config, &old, &args.new.dir)
}

/// How far serials jump ahead.
fn gap(given: Option<u32>) -> SerialGap {
    given.and_then(SerialGap::new).unwrap_or_default()
}

// `--serial-gap` accepts the steps that the replica accepts.
const _: () = assert!(cli::limits::SERIAL_GAP_MAX == replica::limits::SERIAL_GAP_MAX);
// `cluster status` shows the clocks that a node warns about.
const _: () = assert!(cli::limits::CLOCK_DIFFERENCE_MS_MAX == replica::limits::CLOCK_DIFFERENCE_MS_MAX);

/// Marks the directories of the old cluster, and prints how its nodes are stopped.
fn mark_old_nodes(config: &Path, old: &Config, new: &Path) -> Result<(), Problem> {
    let marked = mark_old(config, old, new);
    print(&format!(
        "marked {marked} directories of the old cluster: their nodes will not start. The new node stops each other old \
         node that it can reach. Stop the remaining old nodes yourself"
    ))
}

/// Marks the directory of the old node, and those of the same cluster beside it. Returns how many were marked.
fn mark_old(config: &Path, old: &Config, new: &Path) -> usize {
    let id = |config: &Config| std::fs::read(cluster_id_of(&config.peer.ca_file)).ok();
    let beside = config.parent().and_then(Path::parent).map(|dir| Layout::new(dir).configs()).unwrap_or_default();
    let others = beside.iter().filter_map(|file| Config::load(file).ok()).filter(|other| id(other) == id(old));
    let others = others.map(|other| other.dir).filter(|dir| *dir != old.dir && dir.exists());
    let why = format!("the cluster in {} was made from this cluster and replaces it", new.display());
    let mark = |dir: &PathBuf| match supersede::mark(dir, &why) {
        Ok(()) => true,
        Err(error) => {
            let dir = dir.display();
            process::log::say(format_args!("warning: cannot mark {dir}: {error}; do not start its node again"));
            false
        }
    };
    others.chain([old.dir.clone()]).filter(mark).count()
}

fn read_key(file: &Path) -> Result<DataKey, Problem> {
    let keys = DataKeyFile::new(file, None).load().map_err(|error| {
        Problem::new(Exit::Input, "cannot read the data key", error).at(file.display()).hint(
            "use the file that `cluster backup --with-data-key` wrote beside the backup, or the data.key of a node of \
             the old cluster with the wrapping.key of that node in the same directory",
        )
    })?;
    replica_key(&keys, file)
}

fn replica_key(keys: &DataKeys, file: &Path) -> Result<DataKey, Problem> {
    let none = || Problem::new(Exit::Input, "cannot read the data key", "the file has no key").at(file.display());
    to_replica(keys).ok_or_else(none)
}

/// Refuses a directory that has the identity of a cluster or node: the new cluster needs its own.
fn check_absent(layout: &Layout) -> Result<(), Problem> {
    let Some(there) = layout.identities().into_iter().next() else { return Ok(()) };
    Err(Problem::new(Exit::Refused, "cannot create a cluster", "the directory has files of another cluster")
        .at(there.display())
        .hint("choose another --dir, or move these files elsewhere if no node needs them"))
}

/// Creates the files and the first state of a new cluster.
fn create_cluster(
    args: &InitArgs,
    old_key: &DataKey,
    origin: &Origin,
    state: impl FnOnce(Founder<'_>) -> Result<(Restored, Founding), RestoreFailure>,
) -> Result<(), Problem> {
    let layout = Layout::new(&args.dir);
    check_absent(&layout)?;
    let is_new = !args.dir.exists();
    let make = || {
        let (files, config) = init::prepare(args)?;
        let restored = write_state(&config.clone().based(files.dir()), args, old_key, origin, state)?;
        init::finish(&files, &config)?;
        Ok((files, restored))
    };
    let (files, restored) = make().inspect_err(|_: &Problem| {
        // Remove only what this command made: `check_absent` found none of these files.
        if is_new {
            let _ = std::fs::remove_dir_all(&args.dir);
        }
        for file in layout.identities() {
            let _ = if file.is_dir() { std::fs::remove_dir_all(&file) } else { std::fs::remove_file(&file) };
        }
    })?;
    let program = program();
    let text = format!(
        "created a cluster of one node in {}: {}, {}, up to entry {} of the old cluster\n\
         {}{}nodes of the old cluster cannot join. Run the new cluster with:\n  {program} serve --config {}\n\
         to add a node, print a join token with:\n  {program} cluster add --dir {}\n",
        args.dir.display(),
        counted(restored.zones.len(), "zone"),
        counted(restored.key_count, "key"),
        restored.applied.0,
        lost(restored.lost),
        serials(&restored.zones),
        files.config().display(),
        args.dir.display(),
    );
    print(text.trim_end())
}

/// Describes the lost entries.
fn lost(lost: Option<(u64, u64)>) -> String {
    lost.map_or_else(String::new, |(first, last)| {
        format!("entries {first} to {last} of the old cluster are lost: entry {first} is damaged\n")
    })
}

/// Lists old and new serials of the first zones, then the number of the other zones.
fn serials(zones: &[RestoredZone]) -> String {
    let mut text = String::new();
    for zone in zones.iter().take(ZONES_PRINTED_MAX) {
        let (apex, from, to) = (&zone.zone.apex, zone.serial_from.0, zone.serial_to.0);
        text += &if from == to {
            format!("  {apex} stays at serial {from}: it is presigned, so load a newer version of it\n")
        } else {
            format!("  {apex} moves from serial {from} to {to}\n")
        };
    }
    if let Some(others @ 1..) = zones.len().checked_sub(ZONES_PRINTED_MAX) {
        text += &format!("  and {others} more zones\n");
    }
    text
}

fn write_state(
    config: &Config,
    args: &InitArgs,
    old_key: &DataKey,
    origin: &Origin,
    state: impl FnOnce(Founder<'_>) -> Result<(Restored, Founding), RestoreFailure>,
) -> Result<Restored, Problem> {
    let identity = Identity::load(config)?;
    let new_config = replica_config(config, &identity);
    let mut random = Ok(());
    let mut nonce = || {
        let mut bytes = [0; 12];
        if let Err(error) = fill_random(&mut bytes) {
            random = Err(error);
        }
        bytes
    };
    let founder = Founder {
        config: &new_config,
        address: advertised_by(args)?,
        old_key,
        serial_gap: origin.serial_gap,
        now_s: clock::now().wall_ms / 1_000,
        nonce: &mut nonce,
    };
    let (restored, founding) = state(founder).map_err(|error| match error {
        RestoreFailure::RemovedMember => removed("the other nodes have since replaced the data key"),
        RestoreFailure::Open(error) if is_damage(&error) => {
            let problem = Problem::new(Exit::Quarantined, "the old state is damaged", error);
            problem.hint(if origin.accepts_removed { NOTHING_INTACT } else { ACCEPT_DAMAGE })
        }
        error => Problem::new(Exit::Input, "cannot import the old state", error),
    })?;
    let failed =
        |error: io::Error| Problem::new(Exit::Failed, "cannot write the new state", error).at(config.dir.display());
    random.map_err(failed)?;
    if restored.was_removed && !origin.accepts_removed {
        return Err(removed("its data lacks what the other nodes did since"));
    }
    // The record is written before the state, so every such cluster has its record.
    let log = audit_of(&config.dir);
    audit_log::begin(&log, origin.record(&restored, new_config.cluster_id)).map_err(failed)?;
    if let Some((from, files)) = &origin.old {
        let members = restored.members.iter().cloned().map(Into::into).collect();
        let old = OldCluster { from: *from, by: cluster_id::to_text(new_config.cluster_id), members };
        supersede::leave(&config.dir, &old, files).map_err(failed)?;
    }
    first_state::write(&config.dir, founding).map_err(|error| {
        let _ = std::fs::remove_file(&log);
        failed(error)
    })?;
    Ok(restored)
}

fn advertised_by(args: &InitArgs) -> Result<String, Problem> {
    Ok(init::PeerAddresses::of(&args.peer)?.advertised().to_string())
}

impl Origin {
    /// The audit record of the first entry of the new cluster.
    fn record(&self, restored: &Restored, new: [u8; 16]) -> ActionRecord {
        let [old, new] = [restored.cluster_id, new].map(cluster_id::to_text);
        let nodes: Vec<String> = restored.members.iter().map(|member| node_number(member.id).to_string()).collect();
        let subject = format!(
            "old={old} new={new} through={} nodes={} from={}{}{} {}",
            restored.applied.0,
            nodes.join(","),
            self.from,
            if restored.was_removed { " accepted=removed" } else { "" },
            restored.lost.map_or_else(String::new, |(first, last)| format!(" lost={first}-{last}")),
            operator(),
        );
        ActionRecord { index: restored.founded, time_ms: clock::now().wall_ms, action: self.action, subject }
    }
}

fn removed(why: &str) -> Problem {
    Problem::new(Exit::Refused, "cannot use this node: it was removed from its cluster", why).hint(
        "use a remaining node, or a backup. If only this node remains, add --accept-damage, with the data key that it \
         had",
    )
}

/// The user that runs the command, for the audit log.
fn operator() -> String {
    let uid = process::user::effective_user();
    let sudo = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse::<u32>().ok());
    sudo.map_or_else(|| format!("uid={uid}"), |sudo| format!("uid={uid} sudo_uid={sudo}"))
}
