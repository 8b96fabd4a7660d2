//! Authorization of requests, before the body is read.

use super::error::ApiError;
use super::state::Api;
use axum::extract::{Extension, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use std::net::IpAddr;
use std::sync::Arc;

/// The origin of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Peer {
    /// Over TCP. `local` is this node's address of the connection.
    Tcp { remote: IpAddr, local: Option<IpAddr> },
    /// Over the node's Unix socket, from a process of this user.
    Socket { uid: Option<u32> },
}

impl Peer {
    fn is_local(self) -> bool {
        match self {
            Self::Tcp { remote, .. } => remote.to_canonical().is_loopback(),
            Self::Socket { .. } => true,
        }
    }

    /// Whether this user can read the token's file anyway.
    fn is_owner(self, api: &Api) -> bool {
        matches!(self, Self::Socket { uid: Some(uid) } if uid == 0 || uid == api.uid)
    }
}

/// Allows requests with the token, and requests of the node's user over the socket.
pub(super) async fn token(
    State(api): State<Arc<Api>>,
    Extension(peer): Extension<Peer>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    if peer.is_owner(&api) || has_token(&api, &request) { Ok(next.run(request).await) } else { Err(unauthorized()) }
}

/// Allows requests from this machine, and requests with the token.
pub(super) async fn local_or_token(
    State(api): State<Arc<Api>>,
    Extension(peer): Extension<Peer>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    if peer.is_local() || has_token(&api, &request) { Ok(next.run(request).await) } else { Err(unauthorized()) }
}

pub(super) fn has_token(api: &Api, request: &Request) -> bool {
    request.headers().get(header::AUTHORIZATION).is_some_and(|field| api.token.is_in(field.as_bytes()))
}

fn unauthorized() -> ApiError {
    ApiError::new(
        StatusCode::UNAUTHORIZED,
        "this request needs the API token",
        "send `Authorization: Bearer TOKEN`; the token is in the file api.token of the cluster's directory",
    )
}
