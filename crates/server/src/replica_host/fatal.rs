//! Ends the process of a node whose replica cannot continue, and prints what happened, where, why, and what to do. The
//! process aborts if a restart can help or examines the data more closely. Otherwise it exits with a code that service
//! managers do not restart.
//!
//! The process ends immediately, as by `kill -9`, and no destructor runs. Acknowledged updates are on its disk or on
//! other nodes.

use super::room::make_room;
use super::suspected_loss;
use crate::tls::names::node_number;
use config::files::layout::{quarantined_of, suspected_loss_of};
use config::files::read_optional;
use process::log;
use process::problem::{Exit, Problem};
use replica::io::{ContradictedLog, FatalReason, NodeId, SuspectedLoss};
use std::io;
use std::path::{Path, PathBuf};

/// Hint for data that the node must not vote on.
pub(super) const REPLACE: &str = "the node must not vote on this data: remove the node (`catamaran cluster remove`) \
                                  and let a new one join; the other nodes have all that was acknowledged";
/// Hint for damage that no other node can repair.
pub(crate) const BEYOND_REPAIR: &str = "if the other nodes have a leader, remove this node (`catamaran cluster \
                                        remove`) and let a new one join. Otherwise make a new cluster from the \
                                        readable data (`catamaran cluster recover --accept-loss --accept-damage`), or \
                                        restore a backup";
/// Hint for data that this software does not know.
pub(crate) const NEWER: &str =
    "nothing is damaged: keep the directory, and start the node with the version that the other nodes run";
/// Hint for a log that a leader contradicts.
const CONTRADICTED: &str = "start it again: it stores new entries, but votes only for nodes that have the entries it \
                            may have lost, until its log has them again. Another leader (`catamaran cluster \
                            transfer-leader`) can help. If it exits for this reason again, its disk loses data: \
                            remove the node (`catamaran cluster remove`) and let a new one join. If the leader is \
                            wrong, remove that node, and the file data.doubt beside the data";
/// Maximum length of the stored reason. It is one or two sentences.
const REASON_BYTES_MAX: u64 = 1_024;

/// Ends the process of this node.
#[derive(Clone, Debug)]
pub(crate) struct FatalExit {
    node: u32,
    dir: PathBuf,
}

impl FatalExit {
    pub(crate) fn new(node: u32, dir: &Path) -> Self {
        Self { node, dir: dir.to_owned() }
    }

    /// Prints the reason and ends the process. Peers see a connection reset.
    pub(crate) fn exit(&self, reason: FatalReason) -> ! {
        let Report { exit, why, hint, loss } = report_of(reason);
        tracing::error!(?reason, "this node cannot continue");
        let what = format!("node {} cannot continue", self.node);
        let problem = Problem::new(exit.unwrap_or(Exit::Failed), what, &why).at(self.dir.display()).hint(hint);
        let Some(exit) = exit else { log::abort(problem) };
        // This comes first, because the next start must know about the loss.
        if let Some(loss) = loss
            && let Err(error) = suspected_loss::write(&self.dir, loss, &why).or_else(|_| {
                // On a full disk, the reserve makes room for the file.
                make_room(&self.dir)?;
                suspected_loss::write(&self.dir, loss, &why)
            })
        {
            tracing::error!(%error, "cannot write data.doubt: do not start this node again");
        }
        log::exit_at_once(exit, problem)
    }

    /// Warns that there is no leader, and that only the named nodes can show whether the log lacks entries.
    pub(crate) fn loss_unresolved(&self, unreported_voters: &[NodeId]) {
        let nodes = unreported_voters.iter().map(|id| node_number(*id).to_string()).collect::<Vec<_>>().join(", ");
        let file = suspected_loss_of(&self.dir);
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
    pub(crate) fn loss_resolved(&self) {
        match suspected_loss::clear(&self.dir) {
            Ok(()) => {
                tracing::info!("no acknowledged entry is missing in the log; this node votes and campaigns again")
            }
            Err(error) => {
                tracing::error!(%error, "cannot remove data.doubt, the file about entries that the log may lack")
            }
        }
    }
}

/// How the process ends for a reason, and what it prints.
struct Report {
    /// `None`: abort.
    exit: Option<Exit>,
    why: String,
    hint: &'static str,
    /// Entries that the log may lack, for the next start.
    loss: Option<SuspectedLoss>,
}

fn report_of(reason: FatalReason) -> Report {
    let report = |exit, why: &str, hint| Report { exit, why: why.to_owned(), hint, loss: None };
    match reason {
        FatalReason::DiskHung => report(
            None,
            "a write to its log has hung for ten seconds; aborting",
            "check the disk, then start the node again: it continues with the data on the disk",
        ),
        FatalReason::Damaged => report(
            None,
            "its own files do not contain what it wrote; aborting",
            "start it again: a start reads all files, and reports damage by the disk",
        ),
        FatalReason::MemoryFull => report(
            None,
            "the memory reserved for zones is full at a committed entry; aborting",
            "start it again: a start needs no memory for former versions of zones, and reports zones that do not fit",
        ),
        FatalReason::ApplyPanicked { index } => Report {
            exit: None,
            why: format!("this software panicked at entry {index}, which the cluster committed; aborting"),
            hint: "this is a bug, please report it. Start it again: if it panics there again, it prints what to do",
            loss: None,
        },
        FatalReason::CarryOutPanicked => report(
            None,
            "this software panicked at a change while it was the leader; the change is in no log, and another node \
             leads; aborting",
            "this is a bug, please report it. Start it again: it continues with the data on its disk",
        ),
        FatalReason::EntryUnknown => report(
            Some(Exit::Unappliable),
            "the cluster has committed an entry that this software does not know",
            NEWER,
        ),
        FatalReason::LogLost(log) => contradicted(
            log,
            &format!(
                "acknowledged entries up to {}, and its log ends with {}: the disk lost them, or the directory is an \
                 older copy, or node {} is wrong",
                log.index,
                log.last_index,
                node_number(log.by)
            ),
        ),
        FatalReason::LogDiverged(log) => contradicted(
            log,
            &format!("has another entry {} than the cluster has committed: a bug, or that node is wrong", log.index),
        ),
    }
}

/// The report for a log that a leader contradicted.
fn contradicted(log: ContradictedLog, what: &str) -> Report {
    let ContradictedLog { by, term, count, loss, .. } = log;
    Report {
        exit: Some(Exit::Contradicted),
        why: format!(
            "node {}, the leader of term {term}, reported {count} times that this node {what}",
            node_number(by)
        ),
        hint: CONTRADICTED,
        loss: Some(loss),
    }
}

/// Why the node must not vote on its data, if an earlier run stored that.
pub(crate) fn quarantined(dir: &Path) -> io::Result<Option<String>> {
    let why = read_optional(&quarantined_of(dir), REASON_BYTES_MAX)?;
    Ok(why.map(|why| String::from_utf8_lossy(&why).into_owned()))
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
        (FatalReason::LogLost(contradicted_log(false)), Some(Exit::Contradicted)),
        (FatalReason::LogDiverged(contradicted_log(true)), Some(Exit::Contradicted)),
    ];

    const fn contradicted_log(is_diverged: bool) -> ContradictedLog {
        let loss = SuspectedLoss { term: 5, index: 1_000, is_diverged, is_torn: false };
        ContradictedLog { by: 1 << 32 | 4, term: 5, index: 1_000, last_index: 60, count: 21, loss }
    }

    const CHILD: &str = "CATAMARAN_TEST_FATAL";

    /// Ends a child process, which runs this test again, for one reason.
    fn end(index: usize, dir: &Path) -> Output {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "replica_host::fatal::tests::each_reason_ends_as_it_should", "--nocapture"])
            .env(CHILD, format!("{index} {}", dir.display()))
            .output()
            .unwrap()
    }

    #[test]
    fn each_reason_ends_as_it_should() {
        if let Ok(child) = std::env::var(CHILD) {
            let (index, dir) = child.split_once(' ').unwrap();
            FatalExit::new(3, Path::new(dir)).exit(ALL[index.parse::<usize>().unwrap()].0);
        }
        for (index, (reason, exit)) in ALL.into_iter().enumerate() {
            let dir = process::testing::test_dir(&format!("fatal-{index}"));
            let data = dir.path().join("data");
            let output = end(index, &data);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), exit.map(|exit| exit as i32), "{reason:?}: {stderr}");
            let signal = if exit.is_none() { Some(libc::SIGABRT) } else { None };
            assert_eq!(output.status.signal(), signal, "{reason:?}");
            assert_eq!(Exit::is_final(output.status.code()), exit == Some(Exit::Unappliable), "{reason:?}");
            for part in ["error: node 3 cannot continue", &format!("where: {}", data.display()), "why: ", "try: "] {
                assert!(stderr.contains(part), "{reason:?}: {stderr}");
            }
            // The node may start again. A contradiction by a leader is stored with its numbers.
            assert_eq!(quarantined(&data).unwrap(), None, "{reason:?}");
            let written = suspected_loss::read(&data).unwrap();
            let expected = match reason {
                FatalReason::LogLost(log) | FatalReason::LogDiverged(log) => Some(log.loss),
                _ => None,
            };
            assert_eq!(written.as_ref().map(|written| written.loss), expected, "{reason:?}");
            assert!(written.is_none_or(|written| stderr.contains(&written.why)), "{reason:?}");
            if expected.is_some() {
                for part in ["node 4, the leader of term 5, reported 21 times", "1000", "data.doubt"] {
                    assert!(stderr.contains(part), "{reason:?}: {stderr}");
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
