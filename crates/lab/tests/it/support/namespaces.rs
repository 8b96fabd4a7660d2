//! What tests with namespaces need from the machine.

use std::path::Path;

/// Whether namespaces can be created here. If not, prints a skip.
pub(crate) fn can_make_namespaces() -> bool {
    let name = format!("c{:06}", std::process::id() % 1_000_000);
    static PROBE: std::sync::OnceLock<Result<(), String>> = std::sync::OnceLock::new();
    let probed = PROBE.get_or_init(|| links::Pair::make(&name).map(drop).map_err(|error| error.to_string()));
    if let Err(error) = probed {
        skip::permission(format!("making network namespaces: {error}"));
    }
    probed.is_ok()
}

/// Whether a program is installed. If not, prints its name.
pub(crate) fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(name).exists());
    if !found {
        skip::peer(name);
    }
    found
}

/// Whether a network namespace with this name exists.
pub(crate) fn has_namespace(name: &str) -> bool {
    Path::new("/var/run/netns").join(name).exists()
}
