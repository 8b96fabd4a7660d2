//! HAProxy: DNS over TLS and over TCP to DNS over TCP. It has no UDP.

use super::error::PeerError;
use super::setup::{Encryption, Setup};
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Seconds until an idle connection is closed, as in Debian's configuration. HAProxy itself has no default.
const IDLE_SECONDS: u32 = 50;
/// Time limit in seconds to connect to a backend, as in Debian's configuration.
const CONNECT_SECONDS_MAX: u32 = 5;

pub(super) fn command(program: &Path, setup: &Setup) -> Result<Command, PeerError> {
    let (address, ip, connections_max) = (setup.address, setup.address.ip(), setup.connections());
    let idle_s = setup.idle_s.unwrap_or(IDLE_SECONDS);
    let mut text = format!("global\n  maxconn {connections_max}\n");
    if let Some(threads) = setup.threads {
        let _written = writeln!(text, "  nbthread {threads}");
    }
    let _written = write!(
        text,
        "defaults
  mode tcp
  balance leastconn
  timeout connect {CONNECT_SECONDS_MAX}s
  timeout client {idle_s}s
  timeout server {idle_s}s
  default_backend dns
frontend tcp
  bind {address}
"
    );
    if let Some((encryption, dot)) = setup.encryption.as_ref().and_then(|own| Some((own, own.dot?))) {
        let file = certificate_and_key(setup, encryption)?;
        let _written = write!(text, "frontend dot\n  bind {ip}:{dot} ssl crt {}\n", file.display());
    }
    text.push_str("backend dns\n");
    for (index, backend) in setup.backends.iter().enumerate() {
        let _written = writeln!(text, "  server backend{index} {backend} check inter 1s fall 1 rise 1");
    }
    text.push_str(&setup.lines);
    let config = setup.write("haproxy.cfg", &text)?;
    let mut command = Command::new(program);
    // One process, in the foreground.
    command.arg("-db").arg("-f").arg(config);
    Ok(command)
}

/// A file with the certificate and its key. Only the user may read it.
fn certificate_and_key(setup: &Setup, encryption: &Encryption) -> Result<PathBuf, PeerError> {
    let path = setup.folder.join("certificate.pem");
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error| PeerError::Folder(path, error)
    };
    let mut file = std::fs::File::options();
    let mut file = file.create(true).truncate(true).write(true).mode(0o600).open(&path).map_err(at(&path))?;
    for part in [&encryption.certificate, &encryption.key] {
        let text = std::fs::read(part).map_err(at(part))?;
        file.write_all(&text).and_then(|()| file.write_all(b"\n")).map_err(at(&path))?;
    }
    Ok(path)
}
