//! What tests in namespaces of their own need of a machine.

/// Whether namespaces can be made here; a test says that it is skipped, and fails with `CI=true`.
pub(crate) fn can_make_namespaces() -> bool {
    let name = format!("c{:06}", std::process::id() % 1_000_000);
    static PROBE: std::sync::OnceLock<Result<(), String>> = std::sync::OnceLock::new();
    let probed = PROBE.get_or_init(|| links::Pair::make(&name).map(drop).map_err(|error| error.to_string()));
    if let Err(error) = probed {
        println!("skipped: no namespaces can be made here: {error}");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{error}");
    }
    probed.is_ok()
}

/// Whether a program is there; one that is not is named.
pub(crate) fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(name).exists());
    if !found {
        println!("skipped: {name} is not installed");
    }
    found
}
