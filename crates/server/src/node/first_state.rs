//! What a node's data directory begins with. `up`, `init`, `join`, `restore` and `recover` make it, once; a start never
//! does: a node that lost what it voted on must not vote again, whatever else of it was brought back.

use super::disk::Writer;
use super::identity::Identity;
use super::open::replica_config;
use crate::config::Config;
use crate::files::layout::booted_of;
use crate::files::{Readers, write_atomic};
use crate::metrics::DurationHistogram;
use crate::problem::{Exit, Problem};
use replica::disk::DiskOp;
use replica::io::Member;
use replica::{OpenError, Replica};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Makes the data of a founder, or of one that joins. What a crash left of an earlier attempt is written again: nobody
/// has seen it, as there is no configuration yet.
pub(crate) fn make(config: &Config) -> Result<(), Problem> {
    check_absent(&config.dir)?;
    let identity = Identity::load(config)?;
    let failed = |why: String| {
        Problem::new(Exit::Failed, "the node's first data cannot be written", why).at(config.dir.display())
    };
    let ops = first_ops(config, &identity).map_err(|error| failed(error.to_string()))?;
    write(&config.dir, [ops]).map_err(|error| failed(error.to_string()))
}

/// That a node never had data there.
fn check_absent(dir: &Path) -> Result<(), Problem> {
    if !booted_of(dir).exists() {
        return Ok(());
    }
    Err(Problem::new(Exit::Refused, "there was a node before", "its data is never overwritten")
        .at(dir.display())
        .hint("bring its catamaran.toml back; or choose another --dir, or remove what is there if nobody needs it"))
}

/// Writes it.
pub(crate) fn write(dir: &Path, ops: impl IntoIterator<Item = Vec<DiskOp>>) -> io::Result<()> {
    let mut writer = Writer::new(dir, Arc::<DurationHistogram>::default());
    ops.into_iter().try_for_each(|ops| writer.execute_all(&ops))?;
    // Older software makes data anew where it misses this.
    write_atomic(&booted_of(dir), b"", Readers::Owner)
}

fn first_ops(config: &Config, identity: &Identity) -> Result<Vec<DiskOp>, OpenError> {
    let replica = replica_config(config, identity);
    if config.joined {
        return Ok(Replica::init_joining(&replica));
    }
    let member = |member: &crate::config::Member| Member { id: member.id, address: member.address.to_string() };
    let members: Vec<Member> = config.peer.members.iter().map(member).collect();
    Replica::init(&replica, &members)
}
