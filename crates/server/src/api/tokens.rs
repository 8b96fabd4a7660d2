//! `/v1/tokens`: join tokens. Each admits one node.

use super::consistent::Consistency;
use super::error::ApiError;
use super::state::Api;
use crate::peer::join::digest;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use config::api_types::{DoneJson, OpenTokenJson, TokenJson};
use config::files::token::random_text;
use replica::io::{AdminCommand, AdminError, AdminReply};
use replica::limits::TOKEN_LIFE_MS_MAX;
use replica::{JoinTokenStatus, token_id};
use serde::Deserialize;
use std::sync::Arc;

/// `?learner=true`: the node stays a learner.
#[derive(Deserialize)]
pub(super) struct TokenQuery {
    learner: Option<bool>,
}

/// The tokens that are neither used nor revoked.
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    query: Result<Query<Consistency>, QueryRejection>,
) -> Result<Json<Vec<OpenTokenJson>>, ApiError> {
    query?.wait(&api).await?;
    let trust = api.handle.shared().trust.borrow().clone();
    let json = |token: &JoinTokenStatus| OpenTokenJson {
        id: token_id(&token.digest),
        expires_s: token.expires_wall_ms / 1_000,
        learner: token.is_learner,
    };
    Ok(Json(trust.join_tokens.iter().map(json).collect()))
}

/// `?id=ID`: the token's id.
#[derive(Deserialize)]
pub(super) struct RevokeQuery {
    id: String,
}

/// Revokes an unused token.
pub(super) async fn revoke(
    State(api): State<Arc<Api>>,
    query: Result<Query<RevokeQuery>, QueryRejection>,
) -> Result<Json<DoneJson>, ApiError> {
    let id = query?.0.id.to_ascii_lowercase();
    let find = || api.handle.shared().trust.borrow().join_tokens.iter().find(|of| token_id(&of.digest) == id).copied();
    let unknown = || {
        let hint = "see `catamaran cluster tokens`; a used token is not listed: see `catamaran cluster status`";
        ApiError::new(StatusCode::NOT_FOUND, "there is no unused token with this id", hint)
    };
    let token = find().ok_or_else(unknown)?;
    let reply = api.handle.admin(AdminCommand::RevokeToken { digest: token.digest }).await?;
    api.handle.everywhere().await;
    // The token was used meanwhile, or the leader runs older software, which reads this command as a known token.
    if reply == AdminReply::Unchanged && find().is_some() {
        return Err(AdminError::LevelTooLow.into());
    }
    Ok(super::zones::done(&reply))
}

pub(super) async fn make(
    State(api): State<Arc<Api>>,
    query: Result<Query<TokenQuery>, QueryRejection>,
) -> Result<(StatusCode, Json<TokenJson>), ApiError> {
    let is_learner = query?.learner == Some(true);
    let secret = random_text()
        .map_err(|error| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string(), "try again"))?;
    let trust = api.handle.shared().trust.borrow().clone();
    let Some(token) = api.join.token(&trust, &secret) else {
        let hint = "use the node where the cluster was created, which has ca.key beside ca.pem. From feature level 2 \
                    on (`catamaran cluster upgrade`), every node has the key";
        return Err(ApiError::new(StatusCode::CONFLICT, "this node does not have the key of the cluster's CA", hint));
    };
    let command = AdminCommand::CreateToken { digest: digest(&secret), life_ms: TOKEN_LIFE_MS_MAX, is_learner };
    api.handle.admin(command).await?;
    Ok((StatusCode::CREATED, Json(TokenJson { token: token.to_text() })))
}
