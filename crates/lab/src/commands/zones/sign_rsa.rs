//! `catlab zones sign-rsa`: signs one zone with RSA keys of several sizes, by the tools of BIND.

use super::marks::read_marked;
use crate::out_folder::Force;
use clap::Args;
use hierarchy::sign::is_made_by_signing;
use hierarchy::write_zone;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use wire::Name;
use zone::Record;

/// Ends `--help`.
pub(super) const EXAMPLES: &str = "Examples:
  catlab zones sign-rsa root.zone --zsk-bits 1024,2048,4096 --out signed
  catlab zones sign-rsa example.org.zone --origin example.org. --zsk-bits 2048 --out signed

Writes signed/zsk-1024.zone and so on. Each has new keys, an NSEC chain, and signatures that are valid for a year.
Existing DNSSEC records are removed, except DS. Needs dnssec-keygen and dnssec-signzone of BIND (on Debian:
apt install bind9-utils).

Exit code 0: signed; 2: failed.";

/// Validity of signatures in seconds: a year.
const VALIDITY_S: u32 = 31_536_000;

#[derive(Args)]
pub(crate) struct SignRsaArguments {
    /// Zone file, not compressed.
    file: PathBuf,
    /// Apex of the zone.
    #[arg(long, value_name = "NAME", default_value = ".")]
    origin: Name,
    /// Sizes of the zone-signing keys in bits. The zone is signed once with each.
    #[arg(
        long,
        value_name = "BITS",
        required = true,
        value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1_024..=4_096)
    )]
    zsk_bits: Vec<u32>,
    /// Size of the key-signing key in bits.
    #[arg(
        long,
        value_name = "BITS",
        default_value_t = 2_048,
        value_parser = clap::value_parser!(u32).range(1_024..=4_096)
    )]
    ksk_bits: u32,
    /// Output folder. It is created.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    force: Force,
}

/// Signs the zone.
pub(super) fn sign(arguments: &SignRsaArguments) -> Result<bool, Box<dyn Error>> {
    let SignRsaArguments { file, origin, zsk_bits, ksk_bits, out, force } = arguments;
    let files: Vec<PathBuf> = zsk_bits.iter().map(|bits| out.join(format!("zsk-{bits}.zone"))).collect();
    if let Some(path) = files.iter().find(|path| path.exists() && !force.force) {
        return Err(format!("{} exists; add --force to replace it", path.display()).into());
    }
    let (loaded, _) = read_marked(file, origin)?;
    let records: Vec<Record> = loaded.records.iter().map(|record| record.to_record()).collect();
    let unsigned = records.iter().filter(|record| !is_made_by_signing(record.rtype));
    fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
    for (bits, path) in zsk_bits.iter().zip(&files) {
        // Keys of an earlier run would sign too.
        let work = out.join(format!("work-{bits}"));
        remove_folder(&work)?;
        fs::create_dir_all(&work)?;
        let plain = work.join("unsigned.zone");
        write_zone(&plain, "not signed", unsigned.clone().map(|record| (record, None)))?;
        let signed = sign_with([*ksk_bits, *bits], &origin.to_string(), &work, &plain);
        let kept = signed.and_then(|signed| Ok(fs::rename(signed, path)?));
        remove_folder(&work)?;
        kept?;
        println!("{}: signed with a ZSK of {bits} bits", path.display());
    }
    Ok(true)
}

/// Signs a file with new keys of these sizes, a KSK and a ZSK. Returns the result, which is in the folder `work`.
fn sign_with(bits: [u32; 2], apex: &str, work: &Path, plain: &Path) -> Result<PathBuf, Box<dyn Error>> {
    for (bits, role) in bits.into_iter().zip([&["-f", "KSK"][..], &[]]) {
        let mut command = tool("dnssec-keygen");
        command.arg("-K").arg(work).args(["-a", "RSASHA256", "-b", &bits.to_string(), "-n", "ZONE"]);
        run(command.args(role).arg(apex))?;
    }
    let signed = work.join("signed.zone");
    let mut command = tool("dnssec-signzone");
    command.args(["-S", "-x", "-P", "-N", "keep", "-O", "full", "-e", &format!("+{VALIDITY_S}"), "-o", apex]);
    run(command.arg("-K").arg(work).arg("-d").arg(work).arg("-f").arg(&signed).arg(plain))?;
    Ok(signed)
}

fn remove_folder(folder: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A tool of BIND.
fn tool(name: &str) -> Command {
    Command::new(testbed::installed(name).unwrap_or_else(|| name.into()))
}

/// Runs a tool of BIND.
fn run(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("{program} is not installed; on Debian: apt install bind9-utils"),
        _ => format!("{program}: {error}"),
    })?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program} failed: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::number::Rtype;

    #[test]
    fn signatures_have_the_size_of_the_key() {
        if testbed::installed("dnssec-signzone").is_none() {
            skip::peer("dnssec-signzone");
            return;
        }
        let folder = std::env::temp_dir().join(format!("catlab-sign-rsa-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("example.zone");
        fs::write(
            &file,
            "$ORIGIN example.\n@ 60 SOA ns h 1 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.1\nold 60 NSEC ns A\n",
        )
        .unwrap();
        let mut arguments = SignRsaArguments {
            file,
            origin: "example.".parse().unwrap(),
            zsk_bits: vec![1_024, 2_048],
            ksk_bits: 2_048,
            out: folder.join("signed"),
            force: Force::default(),
        };
        assert!(sign(&arguments).unwrap());
        for (bits, bytes) in [(1_024, 128), (2_048, 256)] {
            let path = folder.join(format!("signed/zsk-{bits}.zone"));
            let (loaded, _) = read_marked(&path, &arguments.origin).unwrap();
            let records: Vec<Record> = loaded.records.iter().map(|record| record.to_record()).collect();
            // The fixed fields of an RRSIG (RFC 4034 3.1), the signer `example.`, and the signature.
            let is_of_zsk = |record: &&Record| record.rtype == Rtype::RRSIG && record.rdata[..2] == [0, 1];
            let signature = records.iter().find(is_of_zsk).unwrap();
            assert_eq!(signature.rdata.len(), 18 + 9 + bytes);
            assert!(!records.iter().any(|record| record.owner.to_string() == "old.example."));
        }
        let error = sign(&arguments).unwrap_err().to_string();
        assert!(error.contains("--force"), "{error}");
        arguments.force.force = true;
        assert!(sign(&arguments).unwrap());
        fs::remove_dir_all(folder).unwrap();
    }
}
