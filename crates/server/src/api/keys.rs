//! `/v1/keys`

use super::consistent::Consistency;
use super::error::ApiError;
use super::parse::{parse_key_name, parse_zone};
use super::state::Api;
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use config::api_types::{DoneJson, GrantJson, KeyJson};
use config::files::key_file::ALGORITHMS_HINT;
use config::files::secret_length::SecretLength;
use config::files::token::fill_random;
use replica::io::{AdminCommand, AdminError, AdminReply, Right};
use serde::Deserialize;
use std::sync::Arc;
use tsig::KeyAlgorithm;
use wire::Name;
use zeroize::Zeroizing;
use zone::record::ZoneId;

/// The name of a key.
#[derive(Deserialize)]
pub(super) struct KeyQuery {
    name: String,
}

pub(super) async fn list(
    State(api): State<Arc<Api>>,
    query: Result<Query<Consistency>, QueryRejection>,
) -> Result<Json<Vec<KeyJson>>, ApiError> {
    query?.wait(&api).await?;
    let rights = api.handle.shared().rights();
    let keys = rights.statuses().into_iter().map(|key| KeyJson {
        name: key.name.to_string(),
        algorithm: key.algorithm.mnemonic().to_owned(),
        allow_weak: None,
        secret: None,
        rolling: key.is_rolling,
        allow_short_secret: false,
        grants: key
            .grants
            .iter()
            .map(|(zone, right)| GrantJson {
                zone: zone.as_ref().map(|zone| zone.apex.to_string()),
                right: right.label().to_owned(),
            })
            .collect(),
    });
    Ok(Json(keys.collect()))
}

/// The secrets of a key, the newest first, one object for each. The request is first written to the audit log.
pub(super) async fn show_secret(
    State(api): State<Arc<Api>>,
    query: Result<Query<KeyQuery>, QueryRejection>,
) -> Result<Json<Vec<KeyJson>>, ApiError> {
    let name = parse_key_name(&query?.name)?;
    let rights = api.handle.shared().rights();
    let known = rights.status(&name).ok_or(AdminError::KeyUnknown)?;
    let shown = api.handle.secrets(name.clone()).await.ok_or(AdminError::KeyUnknown)?;
    if shown.written.await != Ok(true) {
        let error = "cannot write the request to the audit log".to_owned();
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, error, "check the disk of the audit log"));
    }
    let of = |secret: &Zeroizing<Vec<u8>>| KeyJson {
        name: name.to_string(),
        algorithm: known.algorithm.mnemonic().to_owned(),
        allow_weak: None,
        secret: Some(data_encoding::BASE64.encode(secret)),
        grants: Vec::new(),
        rolling: known.is_rolling,
        allow_short_secret: false,
    };
    Ok(Json(shown.secrets.iter().map(of).collect()))
}

/// One grant of a key.
#[derive(Deserialize)]
pub(super) struct GrantQuery {
    name: String,
    right: String,
    /// `None`: all zones.
    zone: Option<String>,
}

/// Adds a grant to an existing key.
pub(super) async fn grant(
    State(api): State<Arc<Api>>,
    query: Result<Query<GrantQuery>, QueryRejection>,
) -> Result<Json<DoneJson>, ApiError> {
    let (key, zone, right) = parse_grant(query?.0)?;
    changed(&api, AdminCommand::Grant { key, zone, right }).await
}

/// Revokes a grant. A grant for all zones is not affected if the request names a zone.
pub(super) async fn revoke(
    State(api): State<Arc<Api>>,
    query: Result<Query<GrantQuery>, QueryRejection>,
) -> Result<Json<DoneJson>, ApiError> {
    let (key, zone, right) = parse_grant(query?.0)?;
    changed(&api, AdminCommand::Revoke { key, zone, right }).await
}

fn parse_grant(query: GrantQuery) -> Result<(Name, Option<ZoneId>, Right), ApiError> {
    let right = parse_right(&query.right)?;
    Ok((parse_key_name(&query.name)?, query.zone.as_deref().map(parse_zone).transpose()?, right))
}

fn parse_right(text: &str) -> Result<Right, ApiError> {
    match text {
        "update" => Ok(Right::Update),
        "transfer" => Ok(Right::Transfer),
        "update-apex" => Ok(Right::UpdateApex),
        other => Err(ApiError::bad_request(format!("unknown right `{other}`"), "use update, update-apex or transfer")),
    }
}

/// Adds the key and its grants, if they do not exist.
pub(super) async fn add(
    State(api): State<Arc<Api>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<(StatusCode, Json<DoneJson>), ApiError> {
    let (key, name, algorithm) = parse_key(&body?)?;
    let mut commands = Vec::new();
    if let Some(secret) = &key.secret {
        check_weak(algorithm, key.allow_weak.as_deref())?;
        let (secret, nonce) = secret_and_nonce(secret, &key, algorithm)?;
        commands.push(AdminCommand::AddKey { name: name.clone(), algorithm, secret, nonce });
    }
    for grant in &key.grants {
        let right = parse_right(&grant.right)?;
        let zone = grant.zone.as_deref().map(parse_zone).transpose()?;
        commands.push(AdminCommand::Grant { key: name.clone(), zone, right });
    }
    let (mut changed, mut is_made) = (false, false);
    for command in commands {
        let makes = matches!(command, AdminCommand::AddKey { .. });
        match api.handle.admin(command).await {
            Ok(reply) => {
                changed |= reply != AdminReply::Unchanged;
                is_made |= makes && reply != AdminReply::Unchanged;
            }
            Err(error) => {
                // The request fails, so a key that it made is removed again.
                if is_made {
                    let _ = api.handle.admin(AdminCommand::RemoveKey { name }).await;
                }
                return Err(error.into());
            }
        }
    }
    if changed {
        api.handle.everywhere().await;
    }
    Ok((if changed { StatusCode::CREATED } else { StatusCode::OK }, Json(DoneJson { changed })))
}

/// Adds a second secret to an existing key.
pub(super) async fn roll(
    State(api): State<Arc<Api>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<DoneJson>, ApiError> {
    let (key, name, algorithm) = parse_key(&body?)?;
    let secret = key
        .secret
        .as_deref()
        .ok_or_else(|| ApiError::bad_request("the new secret is missing", "send name, algorithm and secret"))?;
    // RFC 8945 6: a new secret would prolong the use of a weak key.
    if algorithm.is_weak() {
        let mnemonic = algorithm.mnemonic();
        return Err(ApiError::bad_request(
            format!("{mnemonic} is weak (RFC 8945 6)"),
            "add a key with another name, and remove this one later",
        ));
    }
    let (secret, nonce) = secret_and_nonce(secret, &key, algorithm)?;
    changed(&api, AdminCommand::RollKey { name, algorithm, secret, nonce }).await
}

/// Removes the older of two secrets.
pub(super) async fn retire(
    State(api): State<Arc<Api>>,
    query: Result<Query<KeyQuery>, QueryRejection>,
) -> Result<Json<DoneJson>, ApiError> {
    let name = parse_key_name(&query?.name)?;
    changed(&api, AdminCommand::RetireKey { name }).await
}

pub(super) async fn remove(
    State(api): State<Arc<Api>>,
    query: Result<Query<KeyQuery>, QueryRejection>,
) -> Result<Json<DoneJson>, ApiError> {
    let name = parse_key_name(&query?.name)?;
    changed(&api, AdminCommand::RemoveKey { name }).await
}

/// Executes a command, and waits for the other nodes.
pub(super) async fn changed(api: &Api, command: AdminCommand) -> Result<Json<DoneJson>, ApiError> {
    let reply = api.handle.admin(command).await?;
    if reply != AdminReply::Unchanged {
        api.handle.everywhere().await;
    }
    Ok(super::zones::done(&reply))
}

fn parse_key(body: &[u8]) -> Result<(KeyJson, Name, KeyAlgorithm), ApiError> {
    // The content type is ignored.
    let key: KeyJson = serde_json::from_slice(body).map_err(|error| {
        ApiError::bad_request(
            format!("the body is not the JSON of a key: {error}"),
            "send name, algorithm, secret and grants",
        )
    })?;
    let name = parse_key_name(&key.name)?;
    let algorithm = KeyAlgorithm::from_mnemonic(&key.algorithm).ok_or_else(|| {
        ApiError::bad_request(format!("unknown algorithm `{}`", key.algorithm), format!("use {ALGORITHMS_HINT}"))
    })?;
    Ok((key, name, algorithm))
}

/// RFC 8945 6: MD5 "MUST NOT be used" in new keys, SHA-1 is "NOT RECOMMENDED". The node accepts such a key only if
/// `allow_weak` repeats its algorithm.
fn check_weak(algorithm: KeyAlgorithm, allowed: Option<&str>) -> Result<(), ApiError> {
    if !algorithm.is_weak() || allowed.and_then(KeyAlgorithm::from_mnemonic) == Some(algorithm) {
        return Ok(());
    }
    let mnemonic = algorithm.mnemonic();
    let hint = format!("use {ALGORITHMS_HINT}; for a client that supports nothing else, set allow_weak to {mnemonic}");
    Err(ApiError::bad_request(format!("{mnemonic} is weak (RFC 8945 6)"), hint))
}

fn secret_and_nonce(secret: &str, key: &KeyJson, algorithm: KeyAlgorithm) -> Result<(Vec<u8>, [u8; 12]), ApiError> {
    let secret = data_encoding::BASE64.decode(secret.as_bytes()).map_err(|error| {
        ApiError::bad_request(format!("the secret is not base64: {error}"), "encode its bytes as in RFC 4648 4")
    })?;
    if SecretLength::of(secret.len(), algorithm) == SecretLength::TooShort && !key.allow_short_secret {
        return Err(ApiError::bad_request(
            format!("the secret has {} bytes, so it can be guessed", secret.len()),
            "use a secret of 16 bytes or more, or --allow-short-secret (\"allow_short_secret\": true)",
        ));
    }
    let mut nonce = [0; 12];
    fill_random(&mut nonce)
        .map_err(|error| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string(), "try again"))?;
    Ok((secret, nonce))
}
