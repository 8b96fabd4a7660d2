//! `GET /metrics`

use super::error::ApiError;
use super::state::Api;
use crate::replica_host::event::WithZones;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use metrics_text::CONTENT_TYPE;
use std::sync::Arc;

pub(super) async fn metrics(State(api): State<Arc<Api>>) -> Result<impl IntoResponse, ApiError> {
    let status = api.handle.status(WithZones::No).await.ok_or_else(ApiError::ending)?;
    let zone_count = super::zones::count(&api);
    let text = api.metrics.page(&status, api.handle.shared(), api.serving.reported(), zone_count);
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text))
}
