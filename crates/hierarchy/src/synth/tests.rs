//! What is made up, and that it can be served.

use super::*;
use crate::serve::Emulation;
use std::collections::HashSet;
use std::path::PathBuf;

fn place(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("catlab-synth-{name}-{}", std::process::id()))
}

#[test]
fn a_hierarchy_has_the_zones_that_were_asked_for_and_all_can_be_served() {
    let place = place("served");
    for plan in [
        SynthPlan { zone_count: 60, ..SynthPlan::default() },
        SynthPlan { zone_count: 60, depth: 6, server_count: 1, families: Families::V6, ..SynthPlan::default() },
        SynthPlan { zone_count: 5, depth: 2, root_server_count: 1, families: Families::V4, ..SynthPlan::default() },
        SynthPlan { zone_count: 2, ..SynthPlan::default() },
    ] {
        let made = plan.write(&place).unwrap();
        let folder = Folder::read(&place).unwrap();
        assert_eq!((made.zone_count, folder.zones.len()), (plan.zone_count, plan.zone_count));
        let servers: Vec<_> = folder.zones.iter().flat_map(|zone| &zone.servers).collect();
        assert_eq!(servers.iter().collect::<HashSet<_>>().len(), servers.len(), "each address once");
        assert_eq!(servers.len(), made.address_count);
        let is_deepest = |zone: &&ZoneEntry| zone.name.matches('.').count() == plan.depth - 1;
        assert_eq!(folder.zones.iter().any(|zone| is_deepest(&zone)), plan.zone_count > 2, "{plan:?}");
        let emulation = Emulation::load(&place).unwrap();
        assert_eq!(emulation.directory().zone_count(), plan.zone_count);
        assert_eq!(fs::read_to_string(place.join(QUERIES)).unwrap().lines().count(), made.query_count);
        fs::remove_dir_all(&place).unwrap();
    }
}

#[test]
fn the_same_plan_makes_the_same_zones_and_another_seed_others() {
    let names = |seed| {
        let plan = SynthPlan { zone_count: 100, seed, ..SynthPlan::default() };
        let tree = Tree::new(&plan, plan.check().unwrap());
        (0..100).map(|number| tree.name(number)).collect::<Vec<_>>()
    };
    assert_eq!(names(1), names(1));
    assert_ne!(names(1), names(2));
}

#[test]
fn what_cannot_be_made_is_refused() {
    let refused = |plan: SynthPlan| plan.check().unwrap_err();
    assert!(refused(SynthPlan { zone_count: 1, ..SynthPlan::default() }).contains("zones: 2 to"));
    assert!(refused(SynthPlan { depth: 1, ..SynthPlan::default() }).contains("levels"));
    assert!(refused(SynthPlan { server_count: 0, ..SynthPlan::default() }).contains("servers of a zone"));
    assert!(refused(SynthPlan { root_server_count: 14, ..SynthPlan::default() }).contains("servers of the root"));
    assert!(refused(SynthPlan { tld_count: Some(1_000), ..SynthPlan::default() }).contains("top-level domains"));
}
