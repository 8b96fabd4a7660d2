//! Creates the first contents of a data directory. `up`, `init`, `join`, `restore` and `recover` do this once. A start
//! never does: a node that lost its votes must not vote again, even if its other files were restored.

use super::disk::Writer;
use super::identity::Identity;
use super::open::replica_config;
use crate::metrics::DurationHistogram;
use config::Config;
use config::files::layout::booted_of;
use config::files::{Readers, write_atomic};
use process::problem::{Exit, Problem};
use replica::disk::DiskOp;
use replica::io::Member;
use replica::{OpenError, Replica};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Creates the data of the first node, or of a joining node. Leftovers of a crashed attempt are overwritten: no other
/// node has seen them, because there was no configuration yet.
pub(crate) fn make(config: &Config) -> Result<(), Problem> {
    check_absent(&config.dir)?;
    let identity = Identity::load(config)?;
    let failed =
        |why: String| Problem::new(Exit::Failed, "cannot write the node's first data", why).at(config.dir.display());
    let ops = first_ops(config, &identity).map_err(|error| failed(error.to_string()))?;
    write(&config.dir, [ops]).map_err(|error| failed(error.to_string()))
}

/// Checks that no node had data in this directory.
fn check_absent(dir: &Path) -> Result<(), Problem> {
    if !booted_of(dir).exists() {
        return Ok(());
    }
    Err(Problem::new(Exit::Refused, "a node has used this directory before", "its data is never overwritten")
        .at(dir.display())
        .hint("restore its catamaran.toml; or choose another --dir; or remove the files if you no longer need them"))
}

/// Writes the data.
pub(crate) fn write(dir: &Path, ops: impl IntoIterator<Item = Vec<DiskOp>>) -> io::Result<()> {
    let mut writer = Writer::new(dir, Arc::<DurationHistogram>::default());
    ops.into_iter().try_for_each(|ops| writer.execute_all(&ops))?;
    // Older software creates new data if this file is missing.
    write_atomic(&booted_of(dir), b"", Readers::Owner)
}

fn first_ops(config: &Config, identity: &Identity) -> Result<Vec<DiskOp>, OpenError> {
    let replica = replica_config(config, identity);
    if config.joined {
        return Ok(Replica::init_joining(&replica));
    }
    let member = |member: &config::Member| Member { id: member.id, address: member.address.to_string() };
    let members: Vec<Member> = config.peer.members.iter().map(member).collect();
    Replica::init(&replica, &members)
}
