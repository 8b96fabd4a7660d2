//! `GET /healthz`, `GET /v1/status`

use super::consistent::Consistency;
use super::error::ApiError;
use super::state::Api;
use crate::published::serving::label;
use crate::replica_host::event::WithZones;
use crate::tls::names::node_number;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use config::api_types::{
    CertificateJson, HealthJson, MemberJson, StatusJson, SuspectedLossJson, UnreachableJson, ZoneMemoryJson,
};
use replica::Status;
use replica::io::{Role, Serving};
use serde::Deserialize;
use std::sync::Arc;

/// `?max_staleness_ms=5000` requires answers no older than that. `?audit=true` requires a writable audit log.
#[derive(Deserialize)]
pub(super) struct HealthQuery {
    max_staleness_ms: Option<u64>,
    audit: Option<bool>,
}

/// A node without a leader is healthy, since it still answers queries. Otherwise a load balancer could drop all nodes.
pub(super) async fn health(
    State(api): State<Arc<Api>>,
    query: Result<Query<HealthQuery>, QueryRejection>,
) -> Result<(StatusCode, Json<HealthJson>), ApiError> {
    let query = query?;
    let staleness_max = query.max_staleness_ms.unwrap_or(u64::MAX);
    let needs_audit = query.audit.unwrap_or(false);
    let status = api.handle.status(WithZones::No).await.ok_or_else(ApiError::ending)?;
    let serving = api.serving.reported();
    let audit_failing = api.metrics.audit.is_failing();
    let is_audited = !(needs_audit && audit_failing);
    let healthy = serving != Serving::No && status.staleness_ms <= staleness_max && is_audited;
    let code = if healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = HealthJson {
        healthy,
        serving: label(serving).to_owned(),
        leader: status.leader.map(node_number),
        staleness_ms: status.staleness_ms,
        audit_failing,
        disk_full: status.is_disk_full,
    };
    Ok((code, Json(body)))
}

/// `?zones=false` omits the zones, for frequent polls.
#[derive(Deserialize)]
pub(super) struct StatusQuery {
    zones: Option<bool>,
}

pub(super) async fn status(
    State(api): State<Arc<Api>>,
    query: Result<Query<StatusQuery>, QueryRejection>,
    consistency: Result<Query<Consistency>, QueryRejection>,
) -> Result<Json<StatusJson>, ApiError> {
    consistency?.wait(&api).await?;
    let with_zones = if query?.zones == Some(false) { WithZones::No } else { WithZones::Yes };
    let Status {
        id,
        role,
        term,
        leader,
        commit_index,
        applied_index,
        staleness_ms,
        state_hash,
        feature_level,
        members,
        zones,
        suspected_loss,
        unreported_voters,
        is_disk_full,
        ..
    } = api.handle.status(with_zones).await.ok_or_else(ApiError::ending)?;
    let trust = api.handle.shared().trust.borrow().clone();
    let reach = &api.metrics.peer.reachability;
    let members = members
        .into_iter()
        .map(|of| MemberJson {
            node: node_number(of.member.id),
            raft_id: of.member.id,
            address: of.member.address,
            voter: of.is_voter,
            role: match (of.is_voter, of.stays_learner) {
                (true, _) => "voter",
                (false, true) => "learner",
                (false, false) => "joining",
            }
            .to_owned(),
            in_rotation: of.in_rotation,
            heard_ms: of.last_report_age_ms,
            applied_index: of.applied_index,
            feature_level: of.feature_level,
            certificate: of.credentials.map(|progress| CertificateJson {
                expires_s: progress.expires_s,
                ca: progress.issued_by,
                renewal: progress.renewal,
                data_key: progress.data_key,
                knows_next_keys: of.has_seen_pins,
            }),
            clock_ahead_ms: of.clock_ahead_ms,
            unreachable: reach.lost(of.member.id).map(|lost| UnreachableJson {
                address: lost.address,
                why: lost.why,
                for_ms: u64::try_from(lost.since.elapsed().as_millis()).unwrap_or(u64::MAX),
            }),
            zone_memory: of
                .memory
                .map(|memory| ZoneMemoryJson { used_bytes: memory.used_bytes, limit_bytes: memory.limit_bytes }),
        })
        .collect();
    Ok(Json(StatusJson {
        node: api.node,
        raft_id: id,
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        feature_level,
        role: match role {
            _ if api.handle.shared().removal.is_removed() => "removed",
            Role::Leader => "leader",
            Role::Follower => "follower",
            Role::Candidate => "candidate",
        }
        .to_owned(),
        term,
        leader: leader.map(node_number),
        commit_index,
        applied_index,
        serving: label(api.serving.reported()).to_owned(),
        dns: api.has_dns,
        staleness_ms,
        state_hash: format!("{state_hash:032x}"),
        ca_count: trust.cas.len(),
        data_key: trust.data_key,
        data_key_changes: trust.next_data_key.is_some() || trust.data_key_is_due || trust.is_sealed_before,
        members,
        zones: super::zones::describe_all(&api, &zones),
        uptime_ms: u64::try_from(api.started_at.elapsed().as_millis()).unwrap_or(u64::MAX),
        sandbox: Some(process::sandbox::state()),
        disk_full: is_disk_full,
        suspected_log_loss: suspected_loss.map(|loss| SuspectedLossJson {
            term: loss.term,
            index: (loss.index != u64::MAX).then_some(loss.index),
            cause: if loss.is_torn { "torn-record" } else { "contradicted" }.to_owned(),
            waits_for: unreported_voters.into_iter().map(node_number).collect(),
        }),
    }))
}
