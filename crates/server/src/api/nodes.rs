//! `/v1/nodes`: removes, promotes, demotes, replaces or moves a node. `POST /v1/leader`: transfers the leadership.
//! `POST /v1/feature-level`: raises the feature level, after which no node can run older software.

use super::error::ApiError;
use super::state::Api;
use crate::replica_host::event::WithZones;
use crate::tls::names::node_number;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use config::address::PeerAddress;
use config::api_types::DoneJson;
use replica::io::{AdminCommand, AdminError, NodeId};
use serde::Deserialize;
use std::sync::Arc;

/// The node, by its number as in `/v1/status`.
#[derive(Deserialize)]
pub(super) struct NodeQuery {
    node: u64,
}

/// Whether a node gets a vote.
#[derive(Deserialize)]
pub(super) struct VoteQuery {
    node: u64,
    votes: bool,
}

/// The node to remove, and the learner that replaces it.
#[derive(Deserialize)]
pub(super) struct ReplaceQuery {
    node: u64,
    by: u64,
}

/// The new address of a node for its peers.
#[derive(Deserialize)]
pub(super) struct MoveQuery {
    node: u64,
    address: PeerAddress,
    /// Move the node even if it does not answer at the address.
    force: Option<bool>,
}

/// The new leader; without it, the node with the longest log.
#[derive(Deserialize)]
pub(super) struct LeaderQuery {
    node: Option<u64>,
}

pub(super) async fn remove(
    State(api): State<Arc<Api>>,
    query: Result<Query<NodeQuery>, QueryRejection>,
) -> Result<Json<DoneJson>, ApiError> {
    let id = api.id_of(query?.node).await?;
    Ok(super::zones::done(&api.handle.admin(AdminCommand::RemoveNode { id }).await?))
}

pub(super) async fn set_vote(
    State(api): State<Arc<Api>>,
    query: Result<Query<VoteQuery>, QueryRejection>,
) -> Result<Json<DoneJson>, ApiError> {
    let Query(VoteQuery { node, votes }) = query?;
    let id = api.id_of(node).await?;
    Ok(super::zones::done(&api.handle.admin(AdminCommand::SetVote { id, votes }).await?))
}

pub(super) async fn replace(
    State(api): State<Arc<Api>>,
    query: Result<Query<ReplaceQuery>, QueryRejection>,
) -> Result<Json<DoneJson>, ApiError> {
    let Query(ReplaceQuery { node, by }) = query?;
    let (gone, new) = (api.id_of(node).await?, api.id_of(by).await?);
    Ok(super::zones::done(&api.handle.admin(AdminCommand::ReplaceNode { gone, new }).await?))
}

pub(super) async fn move_to(
    State(api): State<Arc<Api>>,
    query: Result<Query<MoveQuery>, QueryRejection>,
) -> Result<Json<DoneJson>, ApiError> {
    let Query(MoveQuery { node, address, force }) = query?;
    if !address.is_reachable() {
        let hint = "use a host name or an IP address, and a port";
        return Err(ApiError::bad_request(format!("other nodes cannot connect to {address}"), hint));
    }
    let id = api.id_of(node).await?;
    // A wrong address would cut the node off from the others, and could cost the majority.
    if let (Some(check), false) = (&api.peer_check, force == Some(true))
        && let Err(error) = check.verify(id, &address).await
    {
        let why = format!("node {node} does not answer at {address}: {error}");
        let hint = "start the node there first, or use --force if only other nodes can connect to it";
        return Err(ApiError::new(StatusCode::CONFLICT, why, hint));
    }
    Ok(super::zones::done(&api.handle.admin(AdminCommand::MoveNode { id, address: address.to_string() }).await?))
}

pub(super) async fn transfer_leader(
    State(api): State<Arc<Api>>,
    query: Result<Query<LeaderQuery>, QueryRejection>,
) -> Result<Json<DoneJson>, ApiError> {
    let to = match query?.node {
        Some(node) => Some(api.id_of(node).await?),
        None => None,
    };
    Ok(super::zones::done(&api.handle.admin(AdminCommand::TransferLeader { to }).await?))
}

impl Api {
    /// The raft id of a node. A number has one incarnation at a time among the members.
    async fn id_of(&self, node: u64) -> Result<NodeId, ApiError> {
        let status = self.handle.status(WithZones::No).await.ok_or_else(ApiError::ending)?;
        let id = status.members.iter().map(|of| of.member.id).find(|id| node_number(*id) == node);
        Ok(id.ok_or(AdminError::NodeUnknown)?)
    }
}

pub(super) async fn raise_feature_level(State(api): State<Arc<Api>>) -> Result<Json<DoneJson>, ApiError> {
    Ok(super::zones::done(&api.handle.admin(AdminCommand::RaiseFeatureLevel).await?))
}
