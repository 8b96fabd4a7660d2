//! `key`: add, list, grant, revoke, roll, retire, show, remove.

// Output of secrets.
mod out;

use super::client::{Client, query};
use super::key_arguments::{NewSecretArgs, OutArgs};
use super::output::{print, print_only_copy};
use super::{GrantArgs, KeyCommand, RightArgs};
use crate::target::Target;
use config::api_types::{DoneJson, GrantJson, KeyJson, KeyPoliciesJson};
use config::files::key_file::{ALGORITHMS_HINT, TsigKey};
use config::files::secret_length::SecretLength;
use out::KeyOut;
use process::log::say;
use process::problem::{Exit, Problem};
use std::path::Path;
use tsig::KeyAlgorithm;
use wire::Name;

pub(crate) fn run(command: &KeyCommand) -> Result<(), Problem> {
    match command {
        KeyCommand::Add { name, file, algorithm, allow_weak, zones, rights, secret, target } => {
            let key = make(name.as_deref(), file.as_deref(), algorithm)?;
            check_weak(&key, allow_weak.as_deref(), file.is_none())?;
            let json = checked_json(&key, secret)?;
            output_key(&key, &secret.out, file.is_none(), || add(json, zones, rights, target))
        }
        KeyCommand::List { target } => list(target),
        KeyCommand::Roll { name, file, secret, target } => {
            let client = Client::find(target)?;
            let key = rolled(name.as_deref(), file.as_deref(), &client)?;
            check_weak_roll(&key)?;
            let json = checked_json(&key, secret)?;
            output_key(&key, &secret.out, file.is_none(), || roll(&json, &client))
        }
        KeyCommand::Show { name, secret: _, out, target } => show(name, out, target),
        KeyCommand::Grant(args) => change_grants("POST", args, "is now granted"),
        KeyCommand::Revoke(args) => change_grants("DELETE", args, "is no longer granted"),
        KeyCommand::Retire { name, target } => retire(name, target),
        KeyCommand::Remove { name, target } => remove(name, target),
    }
}

/// Adds a key to the cluster, and outputs its secret: to a file, or to the terminal if this command made it.
fn output_key(
    key: &TsigKey,
    OutArgs { out }: &OutArgs,
    is_made: bool,
    give: impl FnOnce() -> Result<(), Problem>,
) -> Result<(), Problem> {
    match out {
        Some(file) => {
            let file_out = KeyOut::begin(file, key)?;
            file_out.end(give())?;
            print(&format!("key {}: its secret is in {}", key.name, file.display()))
        }
        None => {
            give()?;
            if is_made { print_only_copy(key.to_text().trim_end()) } else { Ok(()) }
        }
    }
}

fn make(name: Option<&str>, file: Option<&Path>, algorithm: &str) -> Result<TsigKey, Problem> {
    if let Some(file) = file {
        return TsigKey::load(file);
    }
    let algorithm = KeyAlgorithm::from_mnemonic(algorithm).ok_or_else(|| {
        Problem::new(Exit::Usage, format!("cannot create a key with the algorithm `{algorithm}`"), "it is unknown")
            .hint(format!("use {ALGORITHMS_HINT}"))
    })?;
    TsigKey::make(parse_name(name.unwrap_or_default())?, algorithm)
        .map_err(|error| Problem::new(Exit::Failed, "cannot create a key", error))
}

/// RFC 8945 6: no new key has a weak algorithm. An existing key with one can be added from a file, and only if
/// `--allow-weak` names the algorithm.
fn check_weak(key: &TsigKey, allowed: Option<&str>, is_made: bool) -> Result<(), Problem> {
    let word = key.algorithm.mnemonic();
    let refused = |why: String, hint: String| {
        Err(Problem::new(Exit::Input, format!("cannot add key {}", key.name), why).hint(hint))
    };
    match (allowed, key.algorithm.is_weak()) {
        (None, false) => return Ok(()),
        (Some(_), false) if is_made => {
            let hint = "leave it out, or give the key's file with --file";
            return refused("--allow-weak is for a key from a file".to_owned(), hint.to_owned());
        }
        (Some(allowed), false) => {
            return refused(format!("its algorithm is {word}, not {allowed}"), "leave out --allow-weak".to_owned());
        }
        (Some(allowed), true) if allowed == word && !is_made => {}
        (_, true) => {
            let hint = format!(
                "use {ALGORITHMS_HINT}; for a client that supports nothing else, `--file FILE --allow-weak {word}`"
            );
            return refused(format!("{word} is weak (RFC 8945 6)"), hint);
        }
    }
    say(format_args!("warning: {word} is weak (RFC 8945 6); replace key {} as soon as its clients can", key.name));
    Ok(())
}

/// A new secret would prolong the use of a weak key (RFC 8945 6).
fn check_weak_roll(key: &TsigKey) -> Result<(), Problem> {
    if !key.algorithm.is_weak() {
        return Ok(());
    }
    let what = format!("cannot roll key {}", key.name);
    let why = format!("{} is weak (RFC 8945 6)", key.algorithm.mnemonic());
    let hint = "add a key with another name (`catamaran key add NAME`), move the clients to it, then remove this one";
    Err(Problem::new(Exit::Input, what, why).hint(hint))
}

/// Refuses a secret that is short enough to be guessed, and warns if a secret is shorter than recommended.
fn check_secret(key: &TsigKey, allow_short: bool) -> Result<(), Problem> {
    let bytes = key.secret.len();
    match SecretLength::of(bytes, key.algorithm) {
        SecretLength::Good => {}
        SecretLength::TooShort if !allow_short => {
            let what = format!("cannot accept key {}", key.name);
            let why = format!("its secret has {bytes} bytes, so it can be guessed");
            let hint = "create a new key with `catamaran key add NAME`, or use --allow-short-secret";
            return Err(Problem::new(Exit::Input, what, why).hint(hint));
        }
        SecretLength::TooShort => say(format_args!("warning: the secret has {bytes} bytes, so it can be guessed")),
        SecretLength::Short { wanted } => {
            say(format_args!("warning: the secret has {bytes} bytes; for {} use {wanted}", key.algorithm.mnemonic()));
        }
    }
    Ok(())
}

/// Checks the secret of a key, and makes the request body of the key without grants.
fn checked_json(key: &TsigKey, &NewSecretArgs { allow_short_secret, .. }: &NewSecretArgs) -> Result<KeyJson, Problem> {
    check_secret(key, allow_short_secret)?;
    Ok(KeyJson {
        name: key.name.to_string(),
        algorithm: key.algorithm.mnemonic().to_owned(),
        allow_weak: key.algorithm.is_weak().then(|| key.algorithm.mnemonic().to_owned()),
        secret: Some(data_encoding::BASE64.encode(&key.secret)),
        grants: Vec::new(),
        rolling: false,
        allow_short_secret,
    })
}

fn add(mut key: KeyJson, zones: &[String], rights: &RightArgs, target: &Target) -> Result<(), Problem> {
    for right in rights.names() {
        if zones.is_empty() {
            key.grants.push(GrantJson { zone: None, right: right.to_owned() });
        }
        for zone in zones {
            key.grants.push(GrantJson { zone: Some(parse_name(zone)?.to_string()), right: right.to_owned() });
        }
    }
    let body = serde_json::to_vec(&key).map_err(|error| Problem::new(Exit::Failed, "cannot send the key", error))?;
    let client = Client::find(target)?;
    client.change("POST", "/v1/keys", &body)?;
    // The key may have earlier grants, or rules may name it. If the node cannot answer that, only the warning is
    // omitted. The cluster already has the key, so the user must get its secret.
    if key.grants.is_empty() && is_granted_something(&client, &key.name).is_ok_and(|is_granted| !is_granted) {
        say(format_args!("warning: the key has no grants; use `key grant`, or name the key in a rule of `policy set`"));
    }
    Ok(())
}

fn is_granted_something(client: &Client, name: &str) -> Result<bool, Problem> {
    let keys: Vec<KeyJson> = client.get_json("/v1/keys")?;
    let is_this = |other: &str| other.eq_ignore_ascii_case(name);
    Ok(keys.iter().any(|key| is_this(&key.name) && !key.grants.is_empty())
        || policies(client).iter().any(|of| is_this(&of.key)))
}

/// The keys to which policy rules grant something. Nodes with older software do not support this request.
fn policies(client: &Client) -> Vec<KeyPoliciesJson> {
    client.get_json("/v1/policy/keys").unwrap_or_default()
}

fn list(target: &Target) -> Result<(), Problem> {
    let client = Client::find(target)?;
    let keys: Vec<KeyJson> = client.get_json("/v1/keys")?;
    let policies = policies(&client);
    for key in keys {
        let mut grants: Vec<String> = key
            .grants
            .iter()
            .map(|grant| format!("{} on {}", grant.right, grant.zone.as_deref().unwrap_or("all zones")))
            .collect();
        if let Some(of) = policies.iter().find(|of| of.key == key.name) {
            let zones: Vec<_> = of.zones.iter().map(|zone| zone.as_deref().unwrap_or("all zones")).collect();
            grants.push(format!("the rules of {}", zones.join(", ")));
        }
        let grants = if grants.is_empty() { "no grants".to_owned() } else { grants.join(", ") };
        let rolling = if key.rolling { ", two secrets" } else { "" };
        let weak =
            if KeyAlgorithm::from_mnemonic(&key.algorithm).is_some_and(KeyAlgorithm::is_weak) { " (weak)" } else { "" };
        print(&format!("key {} {}{weak}: {grants}{rolling}", key.name, key.algorithm))?;
    }
    Ok(())
}

/// A new secret for the algorithm that the key has.
fn rolled(name: Option<&str>, file: Option<&Path>, client: &Client) -> Result<TsigKey, Problem> {
    match file {
        Some(file) => TsigKey::load(file),
        None => {
            let name = parse_name(name.unwrap_or_default())?;
            let keys: Vec<KeyJson> = client.get_json("/v1/keys?consistent=1")?;
            let known = keys.iter().find(|key| key.name.eq_ignore_ascii_case(&name.to_string()));
            let known = known.ok_or_else(|| {
                Problem::new(Exit::Refused, format!("cannot roll key {name}"), "there is no such key")
                    .hint("see `catamaran key list`")
            })?;
            make(Some(&known.name), None, &known.algorithm)
        }
    }
}

fn roll(key: &KeyJson, client: &Client) -> Result<(), Problem> {
    let body = serde_json::to_vec(key).map_err(|error| Problem::new(Exit::Failed, "cannot send the key", error))?;
    let rolled = client.change("PUT", "/v1/keys", &body);
    rolled.map(|_| ()).map_err(|problem| problem.of(format!("cannot roll key {}", key.name)))
}

/// Key files, the newest secret first.
fn show(name: &str, OutArgs { out }: &OutArgs, target: &Target) -> Result<(), Problem> {
    let name = parse_name(name)?;
    let path = format!("/v1/keys/secret?{}", query("name", &name.to_string()));
    let keys: Vec<KeyJson> = Client::find(target)?.get_json(&path)?;
    let mut shown = String::new();
    for (number, key) in keys.iter().enumerate() {
        let algorithm = KeyAlgorithm::from_mnemonic(&key.algorithm);
        let secret = key.secret.as_ref().and_then(|secret| data_encoding::BASE64.decode(secret.as_bytes()).ok());
        let (Some(algorithm), Some(secret)) = (algorithm, secret) else {
            return Err(Problem::new(
                Exit::Failed,
                format!("cannot show key {name}"),
                "the node sent an unexpected response",
            ));
        };
        let text = TsigKey { name: name.clone(), algorithm, secret }.to_text();
        if number == 0 {
            shown.push_str(&text);
        } else {
            shown.push_str("# The previous secret, valid until `catamaran key retire`:\n");
            text.lines().for_each(|line| shown.push_str(&format!("# {line}\n")));
        }
    }
    match out {
        Some(file) => {
            out::write_for(file, &name, &shown)?;
            print(&format!("key {name}: its secret is in {}", file.display()))
        }
        None => print_only_copy(shown.trim_end()),
    }
}

/// Adds or revokes grants, one after the other.
fn change_grants(method: &str, args: &GrantArgs, what: &str) -> Result<(), Problem> {
    let client = Client::find(&args.target)?;
    let key = parse_name(&args.name)?;
    let zones = args.zones.iter().map(|zone| parse_name(zone)).collect::<Result<Vec<_>, _>>()?;
    let zones = if zones.is_empty() { vec![None] } else { zones.into_iter().map(Some).collect() };
    let mut missing = Vec::new();
    for right in args.rights.names() {
        for zone in &zones {
            let of_zone = zone.as_ref().map(|zone| format!("&{}", query("zone", &zone.to_string())));
            let path = format!(
                "/v1/grants?{}&{}{}",
                query("name", &key.to_string()),
                query("right", right),
                of_zone.unwrap_or_default()
            );
            let answer = client.change(method, &path, &[])?;
            let done: DoneJson = answer.json()?;
            let place = zone.as_ref().map_or_else(|| "all zones".to_owned(), ToString::to_string);
            match (done.changed, method) {
                (true, _) => print(&format!("key {key} {what} {right} on {place}"))?,
                (false, "POST") => print(&format!("key {key} was already granted {right} on {place}"))?,
                (false, _) => missing.push(format!("{right} on {place}")),
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let what = format!("cannot revoke: key {key} has no grant of {}", missing.join(", "));
    Err(Problem::new(Exit::Refused, what, "a grant for all zones and a grant for one zone are different grants")
        .hint("`catamaran key list` shows its grants"))
}

fn retire(name: &str, target: &Target) -> Result<(), Problem> {
    let name = parse_name(name)?;
    Client::find(target)?.change("PATCH", &format!("/v1/keys?{}", query("name", &name.to_string())), &[])?;
    print(&format!("key {name} now has one secret"))
}

fn remove(name: &str, target: &Target) -> Result<(), Problem> {
    let name = parse_name(name)?;
    Client::find(target)?.change("DELETE", &format!("/v1/keys?{}", query("name", &name.to_string())), &[])?;
    print(&format!("key {name} removed"))
}

fn parse_name(text: &str) -> Result<Name, Problem> {
    super::domain_name::domain_name(text)
}

#[cfg(test)]
mod tests {
    use super::super::client::tests::{FakeNode, FakeResponse};
    use super::*;

    #[test]
    fn an_added_key_is_output_even_if_the_next_request_fails() {
        // The node accepts the key, and answers the next request with something that is not a list of keys.
        let (node, dir) = (FakeNode::start(FakeResponse::Status(200, "")), process::testing::test_dir("key-add"));
        let target = Target { dir: dir.path().to_owned(), api: Some(node.api), token_file: None, timeout: None };
        let file = dir.path().join("k.key");
        let secret = NewSecretArgs { out: OutArgs { out: Some(file.clone()) }, allow_short_secret: false };
        let key = TsigKey::make("k.".parse().unwrap(), KeyAlgorithm::HmacSha256).unwrap();
        let json = checked_json(&key, &secret).unwrap();
        let rights = RightArgs { update: false, update_apex: false, transfer: false };
        output_key(&key, &secret.out, true, || add(json, &[], &rights, &target)).unwrap();
        assert_eq!(node.requests(), ["POST /v1/keys", "GET /v1/keys"]);
        assert_eq!(TsigKey::load(&file).unwrap(), key);
    }

    #[test]
    fn a_weak_algorithm_needs_a_key_file_and_allow_weak() {
        let key = |algorithm| TsigKey::make("k.".parse().unwrap(), algorithm).unwrap();
        let (weak, good) = (key(KeyAlgorithm::HmacMd5), key(KeyAlgorithm::HmacSha256));
        let (md5, sha1) = (Some("hmac-md5"), Some("hmac-sha1"));
        assert!(check_weak(&weak, md5, false).is_ok());
        assert!(check_weak(&good, None, false).is_ok() && check_weak(&good, None, true).is_ok());
        for (key, allowed, is_made) in
            [(&weak, md5, true), (&weak, None, true), (&weak, None, false), (&weak, sha1, false)]
        {
            assert!(check_weak(key, allowed, is_made).is_err(), "{allowed:?} {is_made}");
        }
        assert!(check_weak(&good, md5, false).is_err() && check_weak(&good, md5, true).is_err());
        assert!(check_weak_roll(&weak).is_err() && check_weak_roll(&good).is_ok());
    }
}
