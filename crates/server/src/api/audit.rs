//! `/v1/audit`

use super::error::ApiError;
use super::state::Api;
use crate::audit_log::read_last;
use crate::limits::AUDIT_LINES_MAX;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Deserialize;
use std::sync::Arc;

/// Default number of lines.
const LINES: usize = 100;

/// The number of lines.
#[derive(Deserialize)]
pub(super) struct AuditQuery {
    lines: Option<usize>,
}

pub(super) async fn last(
    State(api): State<Arc<Api>>,
    query: Result<Query<AuditQuery>, QueryRejection>,
) -> Result<impl IntoResponse, ApiError> {
    let lines = query?.lines.unwrap_or(LINES).min(AUDIT_LINES_MAX);
    let path = api.audit.clone();
    let read = tokio::task::spawn_blocking(move || read_last(&path, lines)).await.map_err(|_| ApiError::ending())?;
    let text = read.map_err(|error| {
        ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("cannot read the audit log: {error}"),
            "see the node's log",
        )
    })?;
    Ok(([("content-type", "application/jsonl; charset=utf-8")], text))
}
