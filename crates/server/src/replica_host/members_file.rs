//! `data.members`: the members and their keys, as this node last knew them. A node with a damaged log or checkpoint
//! cannot read its own state, and needs this file to find the other members.

use crate::limits::MEMBERS_FILE_BYTES_MAX;
use config::files::layout::members_of;
use config::files::{Readers, read_bounded, write_atomic};
use data_encoding::HEXLOWER;
use replica::Trust;
use replica::io::{Member, NodeId};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::watch;

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct MembersJson {
    feature_level: u32,
    members: Vec<MemberJson>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct MemberJson {
    id: NodeId,
    address: String,
    /// SHA-256 of the keys that the member may use.
    pins: Vec<String>,
}

/// Keeps the file current.
pub(crate) struct MembersKeeper {
    dir: PathBuf,
    trust: watch::Receiver<Arc<Trust>>,
}

impl MembersKeeper {
    pub(crate) fn new(dir: &Path, trust: watch::Receiver<Arc<Trust>>) -> Self {
        Self { dir: dir.to_owned(), trust }
    }

    /// Runs forever.
    pub(crate) async fn run(mut self) {
        let mut written = None;
        loop {
            let now = MembersJson::of(&self.trust.borrow_and_update().clone());
            // A node that has just joined has no state yet.
            if !now.members.is_empty() && written.as_ref() != Some(&now) {
                match self.write(&now) {
                    Ok(()) => written = Some(now),
                    Err(error) => tracing::warn!(%error, "cannot write the list of members (data.members)"),
                }
            }
            if self.trust.changed().await.is_err() {
                return;
            }
        }
    }

    fn write(&self, members: &MembersJson) -> io::Result<()> {
        write_atomic(&members_of(&self.dir), &serde_json::to_vec(members)?, Readers::Owner)
    }
}

impl MembersJson {
    fn of(trust: &Trust) -> Self {
        let pins = |id| trust.pins.get(&id).into_iter().flatten().map(|pin| HEXLOWER.encode(pin)).collect();
        let member =
            |member: &Member| MemberJson { id: member.id, address: member.address.clone(), pins: pins(member.id) };
        Self { feature_level: trust.feature_level, members: trust.members.iter().map(member).collect() }
    }

    fn into_trust(self) -> Option<Trust> {
        let mut trust = Trust { feature_level: self.feature_level, ..Trust::default() };
        for MemberJson { id, address, pins } in self.members {
            let pin = |text: &String| HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok();
            let pins = pins.iter().map(pin).collect::<Option<Vec<[u8; 32]>>>()?;
            if !pins.is_empty() {
                trust.pins.insert(id, pins);
            }
            trust.members.push(Member { id, address });
        }
        Some(trust)
    }
}

/// The members in the file; `None` if it cannot be read.
pub(crate) fn read(dir: &Path) -> Option<Trust> {
    let bytes = read_bounded(&members_of(dir), MEMBERS_FILE_BYTES_MAX).ok()?;
    serde_json::from_slice::<MembersJson>(&bytes).ok()?.into_trust()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_as_written() {
        let dir = process::testing::test_dir("members");
        let data = dir.path().join("data");
        assert_eq!(read(&data), None);
        let members =
            vec![Member { id: 1 << 32 | 2, address: "a.example:53".into() }, Member { id: 3, address: "b".into() }];
        let trust = Trust { feature_level: 4, members, pins: [(3, vec![[7; 32]])].into(), ..Trust::default() };
        let keeper = MembersKeeper::new(&data, watch::channel(Arc::new(Trust::default())).1);
        keeper.write(&MembersJson::of(&trust)).unwrap();
        assert_eq!(read(&data), Some(trust));
        std::fs::write(members_of(&data), "{}").unwrap();
        assert_eq!(read(&data), None);
    }
}
