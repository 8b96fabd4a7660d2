//! `key`: add, list, remove.

use super::client::{Client, query};
use super::{KeyCommand, Target};
use crate::api::types::{GrantJson, KeyJson};
use crate::files::key_file::{Algorithm, TsigKey};
use crate::problem::{Exit, Problem};
use std::io::Write;
use std::path::Path;
use wire::Name;

pub(crate) fn run(command: &KeyCommand) -> Result<(), Problem> {
    match command {
        KeyCommand::Add { name, file, algorithm, zones, update, transfer, target } => {
            let key = make(name.as_deref(), file.as_deref(), algorithm)?;
            add(&key, zones, *update, *transfer, target)?;
            if file.is_none() { print(key.to_text().trim_end()) } else { Ok(()) }
        }
        KeyCommand::List { target } => list(target),
        KeyCommand::Remove { name, target } => remove(name, target),
    }
}

fn make(name: Option<&str>, file: Option<&Path>, algorithm: &str) -> Result<TsigKey, Problem> {
    if let Some(file) = file {
        return TsigKey::load(file);
    }
    let algorithm = Algorithm::from_mnemonic(algorithm).ok_or_else(|| {
        Problem::new(Exit::Usage, format!("`{algorithm}` is no algorithm"), "it is not known")
            .hint("hmac-sha256, hmac-sha384 or hmac-sha512")
    })?;
    TsigKey::make(parse_name(name.unwrap_or_default())?, algorithm)
        .map_err(|error| Problem::new(Exit::Failed, "a key cannot be made", error))
}

fn add(key: &TsigKey, zones: &[String], update: bool, transfer: bool, target: &Target) -> Result<(), Problem> {
    let rights = [(update, "update"), (transfer, "transfer")];
    let mut grants = Vec::new();
    for (_, right) in rights.into_iter().filter(|(wanted, _)| *wanted) {
        if zones.is_empty() {
            grants.push(GrantJson { zone: None, right: right.to_owned() });
        }
        for zone in zones {
            grants.push(GrantJson { zone: Some(parse_name(zone)?.to_string()), right: right.to_owned() });
        }
    }
    if grants.is_empty() {
        eprintln!("warning: the key is granted nothing; add --update or --transfer");
    }
    let body = KeyJson {
        name: key.name.to_string(),
        algorithm: key.algorithm.mnemonic().to_owned(),
        secret: Some(data_encoding::BASE64.encode(&key.secret)),
        grants,
    };
    let body =
        serde_json::to_vec(&body).map_err(|error| Problem::new(Exit::Failed, "the key cannot be sent", error))?;
    Client::find(target)?.change("POST", "/v1/keys", &body).map(|_| ())
}

fn list(target: &Target) -> Result<(), Problem> {
    let keys: Vec<KeyJson> = Client::find(target)?.get_json("/v1/keys")?;
    for key in keys {
        let grants: Vec<String> = key
            .grants
            .iter()
            .map(|grant| format!("{} on {}", grant.right, grant.zone.as_deref().unwrap_or("all zones")))
            .collect();
        let grants = if grants.is_empty() { "granted nothing".to_owned() } else { grants.join(", ") };
        print(&format!("key {} {}: {grants}", key.name, key.algorithm))?;
    }
    Ok(())
}

fn remove(name: &str, target: &Target) -> Result<(), Problem> {
    let name = parse_name(name)?;
    Client::find(target)?.change("DELETE", &format!("/v1/keys?{}", query("name", &name.to_string())), &[])?;
    print(&format!("key {name} removed"))
}

fn parse_name(text: &str) -> Result<Name, Problem> {
    text.parse().map_err(|error| Problem::new(Exit::Usage, format!("`{text}` is no name"), format!("{error:?}")))
}

fn print(line: &str) -> Result<(), Problem> {
    writeln!(std::io::stdout().lock(), "{line}").map_err(|error| Problem::new(Exit::Failed, "cannot print", error))
}
