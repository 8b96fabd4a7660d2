//! The end of a node whose replica cannot go on: what, where, why and what to do; and then an abort where another start
//! can help or looks closer, an exit code of its own where it cannot, so that nothing starts the node over and over.
//! What a peer said never forbids a start: the next one is told of it ([`super::doubt`]), and goes on.
//!
//! Either way the process ends here and now, as by `kill -9`: nothing that a destructor would do may follow. What the
//! node acknowledged is on its disk or at the others.

use super::doubt;
use super::room::make_room;
use crate::files::layout::{doubt_of, quarantined_of};
use crate::files::read_bounded;
use crate::log;
use crate::peer::node_number;
use crate::problem::{Exit, Problem};
use replica::io::{ContradictedLog, Doubt, FatalReason, NodeId};
use std::io;
use std::path::{Path, PathBuf};

/// What to do about data that must not be voted on.
pub(super) const REPLACE: &str = "the node must not vote on this data: remove the node (`catamaran cluster remove`) \
                                  and let a new one join; the other nodes have all that was acknowledged";
/// Hint for damage that no other node can repair.
pub(super) const BEYOND_REPAIR: &str = "if the other nodes have a leader, remove this node (`catamaran cluster \
                                        remove`) and let a new one join. Otherwise make a new cluster from the \
                                        readable data (`catamaran cluster recover --accept-loss --accept-damage`), or \
                                        restore a backup";
/// What to do about what this software does not know.
pub(super) const NEWER: &str =
    "nothing is damaged: keep the directory, and start the node with the software that the other nodes run";
/// What to do when a leader contradicts the log.
const CONTRADICTED: &str = "start it again: it stores what it is sent, but votes only for nodes that have what it may \
                            have lost. Another leader (`catamaran cluster transfer-leader`) brings its log that far, \
                            and clears that up. If it ends so later too, its disk loses data: remove the node \
                            (`catamaran cluster remove`) and let a new one join. If the leader lied, remove that node, \
                            and the file data.doubt beside the data";
/// A reason that was written down is a sentence or two.
const REASON_BYTES_MAX: u64 = 1_024;

/// Who ends.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    node: u32,
    dir: PathBuf,
}

impl Ending {
    pub(crate) fn new(node: u32, dir: &Path) -> Self {
        Self { node, dir: dir.to_owned() }
    }

    /// Says why, and ends the process; peers see the reset.
    pub(crate) fn end(&self, reason: FatalReason) -> ! {
        let Told { exit, why, hint, doubt } = told(reason);
        tracing::error!(?reason, "this node cannot go on");
        let what = format!("node {} cannot go on", self.node);
        let problem = Problem::new(exit.unwrap_or(Exit::Failed), what, &why).at(self.dir.display()).hint(hint);
        let Some(exit) = exit else { log::abort(problem) };
        // This comes first, because the next start must know about the doubt.
        if let Some(doubt) = doubt
            && let Err(error) = doubt::write(&self.dir, doubt, &why).or_else(|_| {
                // On a full disk, the reserve makes room for the file.
                make_room(&self.dir)?;
                doubt::write(&self.dir, doubt, &why)
            })
        {
            tracing::error!(%error, "it cannot be written down: do not start this node again");
        }
        log::exit_at_once(exit, problem)
    }

    /// Warns that there is no leader, and that only the named nodes can show whether the log lacks entries.
    pub(crate) fn doubt_waits(&self, waits_for: &[NodeId]) {
        let nodes = waits_for.iter().map(|id| node_number(*id).to_string()).collect::<Vec<_>>().join(", ");
        let file = doubt_of(&self.dir);
        tracing::warn!(
            nodes,
            file = %file.display(),
            "no leader: the last record of this node's log was incomplete and may have held an acknowledged update. \
             Start the named nodes: any of them may have the update, and the cluster then recovers without further \
             action. If they are permanently lost, stop this node, remove the named file, and start the node again. \
             The last updates before the crash may then be lost"
        );
    }

    /// Removes the file: no acknowledged entry is missing in the log.
    pub(crate) fn doubt_cleared(&self) {
        match doubt::clear(&self.dir) {
            Ok(()) => {
                tracing::info!("no acknowledged entry is missing in the log; this node votes and campaigns again")
            }
            Err(error) => tracing::error!(%error, "the file about what the log may lack cannot be removed"),
        }
    }
}

/// What is said of a reason.
struct Told {
    /// `None`: abort.
    exit: Option<Exit>,
    why: String,
    hint: &'static str,
    /// What the next start must know of the log.
    doubt: Option<Doubt>,
}

fn told(reason: FatalReason) -> Told {
    let told = |exit, why: &str, hint| Told { exit, why: why.to_owned(), hint, doubt: None };
    match reason {
        FatalReason::DiskHung => told(
            None,
            "a write to its log has hung for ten seconds; aborting",
            "look at the disk; the node goes on from what is on it when it is started again",
        ),
        FatalReason::Damaged => told(
            None,
            "what it read back from its own files is not what it wrote; aborting",
            "start it again: a start reads all of them, and says where they are damaged if it is the disk",
        ),
        FatalReason::MemoryFull => told(
            None,
            "the memory that is reserved for zones is full at an entry that the cluster has committed; aborting",
            "start it again: a start holds no former versions of zones, and says so if they do not fit even then",
        ),
        FatalReason::ApplyPanicked { index } => Told {
            exit: None,
            why: format!("this software panicked at entry {index}, which the cluster committed; aborting"),
            hint: "this is a bug, please report it. Start it again: a start comes to the same entry, and says what to \
                   do if it panics there again",
            doubt: None,
        },
        FatalReason::CarryOutPanicked => told(
            None,
            "this software panicked at a change when it led; the change is in no log, the leadership was handed over; \
             aborting",
            "this is a bug, please report it. Start it again: it comes back from what is on its disk",
        ),
        FatalReason::EntryUnknown => {
            told(Some(Exit::Unappliable), "the cluster has committed what this software does not know", NEWER)
        }
        FatalReason::LogLost(said) => contradicted(
            said,
            &format!(
                "acknowledged entries up to {}, and its log ends with {}: the disk lost them, or an older copy of the \
                 directory was put in its place, or node {} lies",
                said.index,
                said.last_index,
                node_number(said.by)
            ),
        ),
        FatalReason::LogDiverged(said) => contradicted(
            said,
            &format!("has another entry {} than the cluster has committed: a bug, or it lies", said.index),
        ),
    }
}

/// What is said, and noted for the next start, when a leader contradicted the log.
fn contradicted(said: ContradictedLog, what: &str) -> Told {
    let ContradictedLog { by, term, count, doubt, .. } = said;
    Told {
        exit: Some(Exit::Contradicted),
        why: format!("node {}, the leader of term {term}, said {count} times that this node {what}", node_number(by)),
        hint: CONTRADICTED,
        doubt: Some(doubt),
    }
}

/// Why the data must not be voted on, if that was written down.
pub(crate) fn quarantined(dir: &Path) -> io::Result<Option<String>> {
    match read_bounded(&quarantined_of(dir), REASON_BYTES_MAX) {
        Ok(why) => Ok(Some(String::from_utf8_lossy(&why).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Output};

    const ALL: [(FatalReason, Option<Exit>); 8] = [
        (FatalReason::DiskHung, None),
        (FatalReason::Damaged, None),
        (FatalReason::MemoryFull, None),
        (FatalReason::ApplyPanicked { index: 77 }, None),
        (FatalReason::CarryOutPanicked, None),
        (FatalReason::EntryUnknown, Some(Exit::Unappliable)),
        (FatalReason::LogLost(said(false)), Some(Exit::Contradicted)),
        (FatalReason::LogDiverged(said(true)), Some(Exit::Contradicted)),
    ];

    const fn said(is_diverged: bool) -> ContradictedLog {
        let doubt = Doubt { term: 5, index: 1_000, is_diverged, is_torn: false };
        ContradictedLog { by: 1 << 32 | 4, term: 5, index: 1_000, last_index: 60, count: 21, doubt }
    }

    const CHILD: &str = "CATAMARAN_TEST_ENDING";

    /// The end of a process of its own: the test runs itself.
    fn end(place: usize, dir: &Path) -> Output {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "node::ending::tests::each_reason_ends_as_it_should", "--nocapture"])
            .env(CHILD, format!("{place} {}", dir.display()))
            .output()
            .unwrap()
    }

    #[test]
    fn each_reason_ends_as_it_should() {
        if let Ok(child) = std::env::var(CHILD) {
            let (place, dir) = child.split_once(' ').unwrap();
            Ending::new(3, Path::new(dir)).end(ALL[place.parse::<usize>().unwrap()].0);
        }
        for (place, (reason, exit)) in ALL.into_iter().enumerate() {
            let dir = crate::test_dir(&format!("ending-{place}"));
            let data = dir.path().join("data");
            let output = end(place, &data);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), exit.map(|exit| exit as i32), "{reason:?}: {said}");
            let signal = if exit.is_none() { Some(libc::SIGABRT) } else { None };
            assert_eq!(output.status.signal(), signal, "{reason:?}");
            assert_eq!(Exit::is_final(output.status.code()), exit == Some(Exit::Unappliable), "{reason:?}");
            for part in ["error: node 3 cannot go on", &format!("where: {}", data.display()), "why: ", "try: "] {
                assert!(said.contains(part), "{reason:?}: {said}");
            }
            // Nothing is written that keeps the node from a start; what a leader said is noted, with its numbers.
            assert_eq!(quarantined(&data).unwrap(), None, "{reason:?}");
            let written = doubt::read(&data).unwrap();
            let expected = match reason {
                FatalReason::LogLost(said) | FatalReason::LogDiverged(said) => Some(said.doubt),
                _ => None,
            };
            assert_eq!(written.as_ref().map(|written| written.doubt), expected, "{reason:?}");
            assert!(written.is_none_or(|written| said.contains(&written.why)), "{reason:?}");
            if expected.is_some() {
                for part in ["node 4, the leader of term 5, said 21 times", "1000", "data.doubt"] {
                    assert!(said.contains(part), "{reason:?}: {said}");
                }
            }
        }
    }

    #[test]
    fn the_unit_does_not_start_a_node_whose_end_is_final() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/install.md");
        let page = std::fs::read_to_string(page).unwrap();
        let prevented = page.lines().find_map(|line| line.strip_prefix("RestartPreventExitStatus=")).unwrap();
        let prevented: Vec<i32> = prevented.split(' ').map(|code| code.parse().unwrap()).collect();
        assert_eq!(prevented, (0..=255).filter(|code| Exit::is_final(Some(*code))).collect::<Vec<_>>());
    }
}
