//! Tests of generated hierarchies, and that they can be served.

use super::*;
use crate::serve::Emulation;
use std::collections::HashSet;
use std::path::PathBuf;

fn dir(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("catlab-synth-{name}-{}", std::process::id()))
}

#[test]
fn a_hierarchy_has_the_requested_zones_and_all_can_be_served() {
    let dir = dir("served");
    for plan in [
        SynthPlan { zone_count: 60, ..SynthPlan::default() },
        SynthPlan { zone_count: 60, depth: 6, server_count: 1, families: Families::V6, ..SynthPlan::default() },
        SynthPlan { zone_count: 5, depth: 2, root_server_count: 1, families: Families::V4, ..SynthPlan::default() },
        SynthPlan { zone_count: 2, ..SynthPlan::default() },
    ] {
        let synthesized = plan.write(&dir).unwrap();
        let folder = Folder::read(&dir).unwrap();
        assert_eq!((synthesized.zone_count, folder.zones.len()), (plan.zone_count, plan.zone_count));
        let servers: Vec<_> = folder.zones.iter().flat_map(|zone| &zone.servers).collect();
        assert_eq!(servers.iter().collect::<HashSet<_>>().len(), servers.len(), "each address once");
        assert_eq!(servers.len(), synthesized.address_count);
        let is_deepest = |zone: &&ZoneEntry| zone.name.matches('.').count() == plan.depth - 1;
        assert_eq!(folder.zones.iter().any(|zone| is_deepest(&zone)), plan.zone_count > 2, "{plan:?}");
        let emulation = Emulation::load(&dir).unwrap();
        assert_eq!(emulation.directory().zone_count(), plan.zone_count);
        assert_eq!(fs::read_to_string(dir.join(QUERIES)).unwrap().lines().count(), synthesized.query_count);
        fs::remove_dir_all(&dir).unwrap();
    }
}

#[test]
fn zones_depend_only_on_plan_and_seed() {
    let names = |seed| {
        let plan = SynthPlan { zone_count: 100, seed, ..SynthPlan::default() };
        let tree = Tree::new(&plan, plan.check().unwrap());
        (0..100).map(|number| tree.name(number)).collect::<Vec<_>>()
    };
    assert_eq!(names(1), names(1));
    assert_ne!(names(1), names(2));
}

#[test]
fn impossible_plans_are_refused() {
    let refused = |plan: SynthPlan| plan.check().unwrap_err();
    assert!(refused(SynthPlan { zone_count: 1, ..SynthPlan::default() }).contains("zones: 2 to"));
    assert!(refused(SynthPlan { depth: 1, ..SynthPlan::default() }).contains("levels"));
    assert!(refused(SynthPlan { server_count: 0, ..SynthPlan::default() }).contains("servers of a zone"));
    assert!(refused(SynthPlan { root_server_count: 14, ..SynthPlan::default() }).contains("servers of the root"));
    assert!(refused(SynthPlan { tld_count: Some(1_000), ..SynthPlan::default() }).contains("top-level domains"));
}
