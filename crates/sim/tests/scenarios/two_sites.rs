//! Two sites, and a third voter at another place that does not answer queries. Checks the claims of
//! docs/how-to/two-sites.md about the failure of a site, of the third voter, or of the connection between the sites.

use super::cluster::*;
use replica::io::{AdminCommand, AdminReply, NodeId, Serving, Verdict};

/// The nodes of the two sites, and the third voter.
struct Layout {
    sites: [&'static [NodeId]; 2],
    third: NodeId,
}

const SMALL: Layout = Layout { sites: [&[1], &[2]], third: 3 };
const LARGE: Layout = Layout { sites: [&[1, 2], &[3, 4]], third: 5 };

impl Layout {
    fn nodes(&self) -> Vec<NodeId> {
        (1..=self.third).collect()
    }

    /// A cluster with this layout in which this node leads.
    fn cluster(&self, leader: NodeId) -> Cluster {
        let mut cluster = Cluster::with_zone(self.third);
        cluster.kill(self.third);
        let mut config = cluster.config(self.third);
        config.answers_queries = false;
        cluster.start_with(self.third, config);
        cluster.run(1_000);
        if cluster.elect() != leader {
            let moved = cluster.admin(1, AdminCommand::TransferLeader { to: Some(leader) });
            cluster.run(1_000);
            assert_eq!(cluster.admin[&moved], Ok(AdminReply::Done));
        }
        assert_eq!(cluster.elect(), leader);
        cluster.run(1_000);
        cluster
    }

    /// Cuts all connections between the sites.
    fn cut_sites(&self, cluster: &mut Cluster) {
        for (&one, &other) in self.sites[0].iter().flat_map(|one| self.sites[1].iter().map(move |other| (one, other))) {
            cluster.cut.extend([(one, other), (other, one)]);
        }
    }
}

/// Checks that updates through each of these nodes are done, and soon arrive on all of them.
fn assert_updates(cluster: &mut Cluster, through: &[NodeId], last: &mut u8) {
    for &id in through {
        *last += 1;
        let request = cluster.add(id, &address(*last));
        cluster.run(2_000);
        cluster.assert_done(request);
        assert!(through.iter().all(|&id| cluster.has(id, &address(*last))), "through {id}");
    }
}

#[test]
fn cluster_survives_the_loss_of_either_site() {
    for layout in [SMALL, LARGE] {
        for leader in layout.nodes() {
            let (mut cluster, mut last) = (layout.cluster(leader), 0);
            for [gone, rest] in [layout.sites, [layout.sites[1], layout.sites[0]]] {
                gone.iter().for_each(|&id| cluster.kill(id));
                cluster.elect();
                assert_updates(&mut cluster, rest, &mut last);
                gone.iter().for_each(|&id| cluster.start(id));
                cluster.run(2_000);
                assert_updates(&mut cluster, &[gone, rest].concat(), &mut last);
                cluster.assert_same();
            }
        }
    }
}

#[test]
fn cluster_survives_the_loss_of_the_third_site() {
    for layout in [SMALL, LARGE] {
        for leader in layout.nodes() {
            let (mut cluster, mut last) = (layout.cluster(leader), 0);
            cluster.kill(layout.third);
            cluster.elect();
            let mut rest = layout.sites.concat();
            assert_updates(&mut cluster, &rest, &mut last);
            if rest.len() == 4 {
                let gone = cluster.elect();
                cluster.kill(gone);
                cluster.elect();
                rest.retain(|&id| id != gone);
                assert_updates(&mut cluster, &rest, &mut last);
            }
        }
    }
}

#[test]
fn a_site_alone_answers_and_takes_no_update() {
    for layout in [SMALL, LARGE] {
        for leader in layout.nodes() {
            let mut cluster = layout.cluster(leader);
            let done = cluster.add(1, &address(1));
            cluster.run(1_000);
            cluster.assert_done(done);
            cluster.kill(layout.third);
            layout.sites[1].iter().for_each(|&id| cluster.kill(id));
            cluster.run(5_000);
            for &id in layout.sites[0] {
                assert_ne!(cluster.replica(id).serving(), Serving::No);
                assert!(cluster.has(id, &address(1)));
                let request = cluster.add(id, &address(2));
                cluster.run(5_000);
                assert_eq!(cluster.verdict(request), Some(Verdict::NotProposed), "through {id}, {leader} led");
            }
            // With one more node at any place, the nodes continue.
            cluster.start(layout.third);
            cluster.elect();
            let there = [layout.sites[0], &[layout.third]].concat();
            assert_updates(&mut cluster, &there, &mut 2);
            assert!(there.iter().all(|&id| !cluster.has(id, &address(2))), "a refused update must not be present");
        }
    }
}

/// Both sites reach the third place, but not each other. There is no election, because a majority reaches the leader.
/// Nodes that reach the leader accept updates. Nodes at the other site answer queries and refuse updates.
#[test]
fn cluster_survives_a_cut_between_the_sites() {
    for layout in [SMALL, LARGE] {
        for leader in layout.nodes() {
            let (mut cluster, mut last) = (layout.cluster(leader), 0);
            let term = cluster.replica(leader).status().term;
            layout.cut_sites(&mut cluster);
            cluster.run(10_000);
            let is_linked = |id: &NodeId| !cluster.cut.contains(&(leader, *id));
            let (hear, others): (Vec<_>, Vec<_>) = layout.nodes().into_iter().partition(is_linked);
            assert_updates(&mut cluster, &hear, &mut last);
            for &id in &others {
                assert_ne!(cluster.replica(id).serving(), Serving::No, "{id} answers");
                let request = cluster.add(id, &address(100));
                cluster.run(5_000);
                assert_eq!(cluster.verdict(request), Some(Verdict::NotProposed), "through {id}, {leader} leads");
            }
            assert!(layout.nodes().iter().all(|&id| cluster.replica(id).status().term == term), "{leader} leads on");
            cluster.cut.clear();
            cluster.run(3_000);
            assert_eq!((cluster.elect(), cluster.replica(leader).status().term), (leader, term), "nor by the return");
            assert_updates(&mut cluster, &layout.nodes(), &mut last);
            assert!(
                layout.nodes().iter().all(|&id| !cluster.has(id, &address(100))),
                "a refused update must not be present"
            );
            // The third voter reaches all members, and may be made the leader. Then all nodes accept updates.
            layout.cut_sites(&mut cluster);
            if leader != layout.third {
                let reply = cluster.admin_ok(leader, AdminCommand::TransferLeader { to: Some(layout.third) });
                assert_eq!(reply, AdminReply::Done);
            }
            assert_updates(&mut cluster, &layout.nodes(), &mut last);
            cluster.assert_same();
        }
    }
}

/// One site reaches neither the other site nor the third place. Its nodes keep running.
#[test]
fn partitioned_site_answers_and_the_others_continue() {
    for layout in [SMALL, LARGE] {
        for leader in layout.nodes() {
            let (mut cluster, mut last) = (layout.cluster(leader), 0);
            layout.cut_sites(&mut cluster);
            for &id in layout.sites[1] {
                cluster.cut.extend([(id, layout.third), (layout.third, id)]);
            }
            cluster.run(5_000);
            let go_on = [layout.sites[0], &[layout.third]].concat();
            assert_updates(&mut cluster, &go_on, &mut last);
            for &id in layout.sites[1] {
                assert_ne!(cluster.replica(id).serving(), Serving::No, "{id} answers");
                assert!(!cluster.has(id, &address(last)));
                let request = cluster.add(id, &address(100));
                cluster.run(5_000);
                assert_eq!(cluster.verdict(request), Some(Verdict::NotProposed), "through {id}, {leader} led");
            }
            cluster.cut.clear();
            cluster.run(3_000);
            assert_updates(&mut cluster, &layout.nodes(), &mut last);
            assert!(
                layout.nodes().iter().all(|&id| !cluster.has(id, &address(100))),
                "a refused update must not be present"
            );
            cluster.assert_same();
        }
    }
}
