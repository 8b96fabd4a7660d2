//! `/v1/audit`

use super::Api;
use super::error::ApiError;
use crate::limits::AUDIT_LINES_MAX;
use crate::node::audit_log::read_last;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Deserialize;
use std::sync::Arc;

/// Lines that are given when no number is asked for.
const LINES: usize = 100;

/// How much of it.
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
            format!("the audit log cannot be read: {error}"),
            "see the log",
        )
    })?;
    Ok(([("content-type", "application/jsonl; charset=utf-8")], text))
}
