//! The machines that ran the loads.

use crate::results::CellResult;
use report::Manifest;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// The machines of all run folders, without duplicates. This machine if no run folder names one.
pub(super) fn machines(folder: &Path, cells: &[CellResult]) -> Vec<String> {
    let found = described(&manifests(folder, cells));
    if found.is_empty() { vec![this_machine()] } else { found }
}

/// The manifests of all run folders that have one. A run folder without a manifest still has its results.
pub(crate) fn manifests(folder: &Path, cells: &[CellResult]) -> Vec<Manifest> {
    let Ok(entries) = std::fs::read_dir(folder.join("cells")) else { return Vec::new() };
    let runs: BTreeSet<&String> = cells.iter().flat_map(|result| result.runs.values()).collect();
    let paths = entries.filter_map(Result::ok).flat_map(|cell| {
        let manifest = move |run: &&String| cell.path().join(run).join("manifest.json");
        runs.iter().map(manifest).collect::<Vec<_>>()
    });
    paths.filter_map(|path| serde_json::from_slice(&std::fs::read(path).ok()?).ok()).collect()
}

/// The machines of manifests, without duplicates.
pub(crate) fn described(manifests: &[Manifest]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for manifest in manifests.iter().filter(|manifest| !manifest.kernel.is_empty()) {
        let machine = describe(manifest);
        if !found.contains(&machine) {
            found.push(machine);
        }
    }
    found
}

fn this_machine() -> String {
    format!("{} (where this page was written)", describe(&Manifest::new(UNIX_EPOCH, 0)))
}

/// Describes a machine without its name, because pages are published.
fn describe(manifest: &Manifest) -> String {
    let Manifest { kernel, cpu, cpu_count, memory_bytes, .. } = manifest;
    let cores = if *cpu_count == 1 { "core" } else { "cores" };
    let memory = *memory_bytes as f64 / 1e9;
    format!("{cpu_count} {cores} of {cpu}, Linux {kernel}, {memory:.1} GB of memory")
}
