//! Debian's clients. Where they are missing, a test that needs them says so and is skipped; with `CI=true` it fails.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

/// Whether `tool` is there.
pub(crate) fn has(tool: &str) -> bool {
    let found =
        Command::new(tool).arg("-v").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{tool} is missing: apt-get install bind9-dnsutils");
        eprintln!("SKIPPED: {tool} is not installed (apt-get install bind9-dnsutils)");
    }
    found
}

/// Runs `dig` with a server and more.
pub(crate) fn dig(server: SocketAddr, arguments: &[&str]) -> String {
    let output = Command::new("dig")
        .args([format!("@{}", server.ip()), "-p".to_owned(), server.port().to_string()])
        .args(["+tries=3", "+time=2"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs `nsupdate`; gives what it said, `Ok` when the update was done.
pub(crate) fn nsupdate(server: SocketAddr, key: &Path, lines: &str) -> Result<String, String> {
    use std::io::Write;
    let mut child = Command::new("nsupdate")
        .arg("-k")
        .arg(key)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let script = format!("server {} {}\n{lines}\nsend\n", server.ip(), server.port());
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(said) } else { Err(said) }
}
