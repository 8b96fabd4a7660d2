//! Who may ask what. It is decided before a body is read.

use super::Api;
use super::error::ApiError;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use std::net::SocketAddr;
use std::sync::Arc;

/// Only with the token.
pub(super) async fn token(State(api): State<Arc<Api>>, request: Request, next: Next) -> Result<Response, ApiError> {
    if has_token(&api, &request) { Ok(next.run(request).await) } else { Err(unauthorized()) }
}

/// From this machine, or with the token.
pub(super) async fn local_or_token(
    State(api): State<Arc<Api>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    if peer.ip().to_canonical().is_loopback() || has_token(&api, &request) {
        Ok(next.run(request).await)
    } else {
        Err(unauthorized())
    }
}

fn has_token(api: &Api, request: &Request) -> bool {
    request.headers().get(header::AUTHORIZATION).is_some_and(|field| api.token.is_in(field.as_bytes()))
}

fn unauthorized() -> ApiError {
    ApiError::new(
        StatusCode::UNAUTHORIZED,
        "this needs the API token",
        "send `Authorization: Bearer TOKEN`; the token is in the file api.token of the cluster's directory",
    )
}
