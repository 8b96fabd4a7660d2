//! Puts the commit of the checkout into `catamaran --version`.

#[path = "build/head.rs"]
mod head;

use std::path::Path;

/// Environment variable with the commit, for builds from a source archive.
const COMMIT: &str = "CATAMARAN_COMMIT";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build/head.rs");
    println!("cargo::rerun-if-env-changed={COMMIT}");
    // Only this workspace's checkout counts: a source archive may lie inside another repository.
    let head = head::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    for file in head.iter().flat_map(|head| &head.files) {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    let given = std::env::var(COMMIT).ok().filter(|commit| !commit.is_empty());
    let version = env!("CARGO_PKG_VERSION");
    match given.or(head.map(|head| head.commit)) {
        Some(commit) => println!("cargo::rustc-env=CATAMARAN_VERSION={version} ({commit})"),
        None => println!("cargo::rustc-env=CATAMARAN_VERSION={version}"),
    }
}
