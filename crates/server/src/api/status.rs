//! `GET /healthz`, `GET /v1/status`

use super::Api;
use super::error::ApiError;
use super::types::{HealthJson, MemberJson, StatusJson};
use crate::peer::node_number;
use crate::service::serving::label;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use replica::Status;
use replica::io::{Role, Serving};
use std::sync::Arc;

pub(super) async fn health(State(api): State<Arc<Api>>) -> Result<(StatusCode, Json<HealthJson>), ApiError> {
    let status = api.handle.status().await.ok_or_else(ApiError::ending)?;
    let serving = api.serving.get();
    let healthy = serving == Serving::Yes && status.leader.is_some();
    let code = if healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = HealthJson {
        healthy,
        serving: label(serving).to_owned(),
        leader: status.leader.map(node_number),
        staleness_ms: known(status.staleness_ms),
    };
    Ok((code, Json(body)))
}

/// Milliseconds, but for the number that stands for "never".
fn known(staleness_ms: u64) -> Option<u64> {
    (staleness_ms < u64::MAX).then_some(staleness_ms)
}

pub(super) async fn status(State(api): State<Arc<Api>>) -> Result<Json<StatusJson>, ApiError> {
    let Status { id, role, term, leader, commit_index, applied_index, staleness_ms, state_hash, members, .. } =
        api.handle.status().await.ok_or_else(ApiError::ending)?;
    let members = members
        .into_iter()
        .map(|of| MemberJson {
            node: node_number(of.member.id),
            raft_id: of.member.id,
            address: of.member.address,
            voter: of.is_voter,
            applied_index: of.applied_index,
        })
        .collect();
    Ok(Json(StatusJson {
        node: api.node,
        raft_id: id,
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        role: match role {
            Role::Leader => "leader",
            Role::Follower => "follower",
            Role::Candidate => "candidate",
        }
        .to_owned(),
        term,
        leader: leader.map(node_number),
        commit_index,
        applied_index,
        serving: label(api.serving.get()).to_owned(),
        staleness_ms: known(staleness_ms),
        state_hash: format!("{state_hash:032x}"),
        members,
        zones: super::zones::all(&api),
        uptime_ms: u64::try_from(api.started_at.elapsed().as_millis()).unwrap_or(u64::MAX),
    }))
}
