//! Sends the same updates to catamaran and to the peers that support updates. Every difference must be explained.
//!
//! By default some of them; `CATAMARAN_TEST_FULL=1` runs all. `UPDATES=20000 SEED=1` sends this many random updates.
//! `STEPS=1080 ROUND=10` replays this many steps of the root zone's history and compares the whole zone every ten
//! steps.
use compare::updates::{History, HistoryCounts, KINDS, Plan, Tally, generate, key, run, run_history, start_all};
use std::path::PathBuf;
use testbed::Kind;
use wire::name::Name;

/// A number from the environment; without it, `full` with `CATAMARAN_TEST_FULL=1`, else `default`.
fn number(variable: &str, default: usize, full: usize) -> usize {
    let configured = std::env::var(variable).ok().and_then(|text| text.parse().ok());
    configured.unwrap_or(if skip::is_full_run() { full } else { default })
}

/// The installed servers; `None` without catamaran.
fn installed() -> Option<Vec<Kind>> {
    let (there, missing): (Vec<Kind>, Vec<Kind>) = KINDS.into_iter().partition(|kind| kind.program().is_some());
    for kind in missing {
        skip::peer(kind.label());
    }
    there.contains(&Kind::Catamaran).then_some(there)
}

#[test]
fn generated_updates() {
    let Some(kinds) = installed() else { return };
    let folder = std::env::temp_dir().join(format!("catlab-updates-{}", std::process::id()));
    let apexes: Vec<Name> = (0..8).map(|index| format!("z{index}.test.").parse().unwrap()).collect();
    let zones: Vec<_> =
        apexes.iter().enumerate().map(|(index, apex)| (apex.clone(), generate::zone(apex, index))).collect();
    let mut servers = start_all(&kinds, &folder, &zones).unwrap();
    let count = number("UPDATES", 1_000, 20_000);
    let plan = Plan { key: key().unwrap(), apexes, count, seed: number("SEED", 1, 1) as u64 };
    let mut tally = Tally::default();
    let outcome = run(&plan, &mut servers, &mut tally);
    drop(servers);
    for (_, difference) in tally.unexplained.iter().take(number("SHOWN", 20, 20)) {
        println!("{difference}\n");
    }
    println!("{tally}");
    let _cleared = std::fs::remove_dir_all(&folder);
    outcome.unwrap();
    assert_eq!(tally.unexplained_count, 0);
    for kind in kinds {
        assert_eq!(tally.compared[kind.label()], count, "{}", kind.label());
    }
    // Catamaran is modelled exactly: nothing about it needs an explanation.
    assert_eq!(tally.equal["catamaran"], count);
    assert!(
        tally.changing * 3 > count && tally.rcodes.len() >= 6,
        "too few updates change something: {:?}",
        tally.rcodes
    );
}

#[test]
fn history_of_the_root_zone() {
    let Some(kinds) = installed() else { return };
    let data = std::env::var_os("CATAMARAN_DATA").map_or_else(|| PathBuf::from("../../../shared/data"), PathBuf::from);
    let read = |file: &str| compare::recorded::read_whole(&data.join("zones").join(file)).ok();
    let (Some(base), Some(steps)) = (read("roothistory-base.zone.xz"), read("roothistory-diffs.patch.xz")) else {
        return skip::data("the history of the root zone");
    };
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let history = History::read(&text(base), &text(steps)).unwrap();
    println!("{} records, {} steps", history.base.records.len(), history.steps.len());
    let folder = std::env::temp_dir().join(format!("catlab-history-{}", std::process::id()));
    let mut servers = start_all(&kinds, &folder, &[(Name::root(), history.base.clone())]).unwrap();
    let (steps, round) = (number("STEPS", 300, 1_080), number("ROUND", 15, 1));
    let outcome = run_history(&history, &key().unwrap(), steps, round, &mut servers);
    drop(servers);
    let _cleared = std::fs::remove_dir_all(&folder);
    let counts = outcome.unwrap();
    println!("{counts:?}");
    let steps = steps.min(history.steps.len());
    for kind in kinds {
        assert_eq!(counts[kind.label()], HistoryCounts { steps, zones: steps.div_ceil(round) }, "{}", kind.label());
    }
}
