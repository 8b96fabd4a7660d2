//! Puts the commit of the checkout into `catamaran --version`.

#[path = "build/head.rs"]
mod head;

use std::path::Path;

/// Packagers who build from a source archive name the commit in this variable.
const COMMIT: &str = "CATAMARAN_COMMIT";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build/head.rs");
    println!("cargo::rerun-if-env-changed={COMMIT}");
    // Of this workspace alone: a source archive may lie in a checkout of something else.
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
