//! Two builds in one cluster: nodes change to this software and back while clients continue.
//!
//! The previous build is of commit a117470898dc, the last one of feature level 2 (`docs/internals/decisions/0013`).
//! Every later build must work beside it until `cluster upgrade`. `cargo xtask test --full` builds it into
//! `target/peers`. Without it the test is skipped, and fails with `--full`.

use crate::support::cluster::{CATAMARAN, Cluster, wait_for};
use crate::support::nodes::{Nodes, config};
use crate::support::tools::{is_full, missing};
use crate::updates::{Stream, assert_on_every_node};
use std::path::{Path, PathBuf};

/// The previous build. If it is missing, reports the test as skipped.
fn previous() -> Option<PathBuf> {
    let path = std::env::var_os("CATAMARAN_PREVIOUS").map(PathBuf::from).filter(|path| path.exists());
    if path.is_none() && is_full("the build before this one") {
        missing("the build before this one", "a clone that has commit a117470898dc (git fetch --unshallow)");
    }
    path
}

/// A cluster whose nodes run one build or the other, and every update that was acknowledged to clients.
struct MixedCluster {
    cluster: Cluster,
    nodes: Nodes,
    acknowledged: Vec<String>,
    steps: u64,
}

impl MixedCluster {
    /// A cluster founded by the previous build. The log is so small that each node writes checkpoints all the time.
    fn new(program: &Path) -> Self {
        let mut cluster = Cluster::start_program("upgrade", 3, program);
        assert_eq!(cluster.end("TERM"), Some(0));
        for id in cluster.ids() {
            let text = std::fs::read_to_string(config(&cluster, id)).unwrap();
            let small = format!("{text}\n[log]\ncheckpoint_bytes = 65536\nkeep_entries = 50\nkeep_bytes = 65536\n");
            std::fs::write(config(&cluster, id), small).unwrap();
        }
        let mut nodes = Nodes::default();
        cluster.ids().for_each(|id| nodes.start_program(&cluster, id, program));
        Self { cluster, nodes, acknowledged: Vec::new(), steps: 0 }
    }

    /// Replaces a node's build while clients send updates through every node. Afterwards all nodes have the same state,
    /// with every update that was ever acknowledged.
    fn replace(&mut self, id: u64, program: &Path) {
        self.steps += 1;
        let prefix = |through| format!("u{}-{through}", self.steps);
        let streams: Vec<Stream> =
            self.cluster.ids().map(|through| Stream::start(&self.cluster, through, &prefix(through))).collect();
        let go_on = || {
            let before: Vec<usize> = streams.iter().map(Stream::acknowledged).collect();
            wait_for("acknowledged updates", || {
                let more = |(stream, before): (&Stream, &usize)| stream.acknowledged() >= before + 50;
                streams.iter().zip(&before).all(more).then_some(())
            });
        };
        go_on();
        self.nodes.stop(id);
        self.nodes.start_program(&self.cluster, id, program);
        go_on();
        self.acknowledged.extend(streams.into_iter().flat_map(Stream::finish));
        self.cluster.settle();
        assert_on_every_node(&self.cluster, &self.acknowledged);
    }

    fn replace_all(&mut self, program: &Path) {
        self.cluster.ids().for_each(|id| self.replace(id, program));
    }

    /// The cluster's feature level, as reported by each node.
    fn levels(&self) -> Option<Vec<u64>> {
        self.cluster.ids().map(|id| self.cluster.status(id)?["feature_level"].as_u64()).collect()
    }
}

/// The feature level of this software.
const LEVEL: u64 = 5;

#[test]
fn an_upgrade_a_downgrade_and_another_upgrade_lose_nothing() {
    let Some(previous) = previous() else { return };
    let this = Path::new(CATAMARAN);
    let mut mixed = MixedCluster::new(&previous);
    mixed.replace_all(this);
    let levels = mixed.levels().expect("all nodes report their level");
    let level = levels[0];
    assert!(level < LEVEL && levels == [level; 3], "the level rises only by command: {levels:?}");
    // This software has written checkpoints and logs by now. The previous build reads them.
    let written = mixed.cluster.metric(1, "catamaran_checkpoints_written_total");
    assert!(written >= 1, "{written} checkpoints written by node 1 in this build");
    mixed.replace_all(&previous);
    mixed.replace_all(this);
    let files = |mixed: &MixedCluster, name: &str| -> Vec<String> {
        let file = |id| std::fs::read_to_string(mixed.cluster.dir.join(format!("node-{id}/{name}"))).unwrap();
        mixed.cluster.ids().map(file).collect()
    };
    let differ = |now: &[String], then: &[String]| now.iter().zip(then).all(|(now, then)| now != then);
    let before = files(&mixed, "node.pem");
    let upgraded = mixed.cluster.run(&["cluster", "upgrade"]);
    assert!(upgraded.status.success(), "{}", String::from_utf8_lossy(&upgraded.stderr));
    wait_for("the level of all nodes", || (mixed.levels()? == [LEVEL; 3]).then_some(()));
    // From level 3 on, the state pins the keys of nodes, and certificates contain the whole member id.
    if level < 3 {
        wait_for("other certificates", || differ(&files(&mixed, "node.pem"), &before).then_some(()));
    }
    let before = files(&mixed, "node.key");
    let rotated = mixed.cluster.run(&["cluster", "rotate", "--wait", "40"]);
    assert!(rotated.status.success(), "{}", String::from_utf8_lossy(&rotated.stderr));
    assert!(differ(&files(&mixed, "node.key"), &before), "a key is the same after `rotate`");
    mixed.replace(2, this);
    let violations: u64 =
        mixed.cluster.ids().map(|id| mixed.cluster.metric(id, "catamaran_invariant_violations_total")).sum();
    assert_eq!(violations, 0);
    mixed.cluster.ids().for_each(|id| mixed.nodes.stop(id));
}
