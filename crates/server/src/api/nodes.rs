//! `DELETE /v1/nodes`: a node goes for good. `POST /v1/feature-level`: no node goes back to older software.

use super::Api;
use super::error::ApiError;
use super::types::DoneJson;
use crate::node::handle::WithZones;
use crate::peer::node_number;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use replica::io::{AdminCommand, AdminError};
use serde::Deserialize;
use std::sync::Arc;

/// Which node.
#[derive(Deserialize)]
pub(super) struct NodeQuery {
    /// Its number, as in `/v1/status`.
    node: u64,
}

pub(super) async fn remove(
    State(api): State<Arc<Api>>,
    query: Result<Query<NodeQuery>, QueryRejection>,
) -> Result<Json<DoneJson>, ApiError> {
    let node = query?.node;
    let status = api.handle.status(WithZones::No).await.ok_or_else(ApiError::ending)?;
    // A number has one incarnation at a time among the members.
    let id = status.members.iter().map(|of| of.member.id).find(|id| node_number(*id) == node);
    let id = id.ok_or(AdminError::NodeUnknown)?;
    Ok(super::zones::done(&api.handle.admin(AdminCommand::RemoveNode { id }).await?))
}

pub(super) async fn raise_feature_level(State(api): State<Arc<Api>>) -> Result<Json<DoneJson>, ApiError> {
    Ok(super::zones::done(&api.handle.admin(AdminCommand::RaiseFeatureLevel).await?))
}
