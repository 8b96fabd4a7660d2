//! `POST /v1/tokens`: a token with which one node may join.

use super::Api;
use super::error::ApiError;
use super::types::TokenJson;
use crate::files::token::random_text;
use crate::peer::join::{JoinToken, digest};
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use replica::io::AdminCommand;
use serde::Deserialize;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long a token is good.
const TOKEN_LIFE: Duration = Duration::from_secs(3_600);

/// What a token tells its bearer about this node; `None` on a node that cannot issue certificates.
pub(crate) struct JoinOffer(pub(crate) Option<JoinToken>);

/// `?learner=true`: its bearer stays a learner.
#[derive(Deserialize)]
pub(super) struct TokenQuery {
    learner: Option<bool>,
}

pub(super) async fn make(
    State(api): State<Arc<Api>>,
    query: Result<Query<TokenQuery>, QueryRejection>,
) -> Result<(StatusCode, Json<TokenJson>), ApiError> {
    let is_learner = query?.learner == Some(true);
    let Some(offer) = &api.join.0 else {
        let hint = "ask the node where the cluster was made: it has ca.key beside ca.pem";
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            "this node does not hold the key of the cluster's authority",
            hint,
        ));
    };
    let secret = random_text()
        .map_err(|error| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string(), "try again"))?;
    let expires = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + TOKEN_LIFE;
    let expires_wall_ms = u64::try_from(expires.as_millis()).unwrap_or(u64::MAX);
    let command = AdminCommand::CreateToken { digest: digest(&secret), expires_wall_ms, is_learner };
    api.handle.admin(command).await?;
    let token = JoinToken { secret, ..offer.clone() };
    Ok((StatusCode::CREATED, Json(TokenJson { token: token.to_text() })))
}
