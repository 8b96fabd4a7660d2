//! Memory for many zones.

use super::{can_make_namespaces, catlab, ended, has_program, synthesized};
use crate::support::Folder;
use hierarchy::synth::{QUERIES, SynthPlan};

/// The memory limit of the process, in KiB.
const RESIDENT_KIB_MAX: u64 = 2 << 20;

/// The parent of the script is `catlab` itself.
const SCRIPT: &str = "dig +short @127.0.0.1 $0 A; grep VmHWM /proc/$PPID/status";

fn resident_kib(zone_count: usize) -> Option<u64> {
    if !can_make_namespaces() || !has_program("unbound") || !has_program("dig") {
        return None;
    }
    let folder = Folder::new(&format!("hierarchy-size-{zone_count}"));
    let tree = synthesized(&folder, SynthPlan { zone_count, ..SynthPlan::default() });
    let questions = std::fs::read_to_string(tree.join(QUERIES)).unwrap();
    let name = questions.lines().last().unwrap().strip_suffix(" A").unwrap();
    let output = catlab(&["hierarchy", "run", tree.to_str().unwrap(), "--resolver", "unbound"])
        .args(["--", "sh", "-c", SCRIPT, name])
        .output()
        .unwrap();
    let (code, text, error) = ended(&output);
    assert_eq!(code, 0, "{text}{error}");
    let [address, resident] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}{error}") };
    assert!(address.parse::<std::net::IpAddr>().is_ok(), "{name}: {text}{error}");
    let kib = resident.split_whitespace().nth(1).unwrap().parse().unwrap();
    println!("{zone_count} zones: {kib} KiB at most");
    Some(kib)
}

#[test]
fn a_hundred_thousand_zones_take_no_more_than_two_gibibytes() {
    // Without `CATAMARAN_TEST_FULL=1`: 1,000 zones in 5 % of the memory. The program itself takes most of that.
    let (zone_count, share) = if skip::is_full_run() { (100_000, 1) } else { (1_000, 20) };
    if let Some(kib) = resident_kib(zone_count) {
        assert!(kib > 1_000 && kib <= RESIDENT_KIB_MAX / share, "{kib} KiB");
    }
}
