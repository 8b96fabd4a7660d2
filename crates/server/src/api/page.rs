//! `GET /metrics`

use super::Api;
use super::error::ApiError;
use crate::metrics::text::CONTENT_TYPE;
use crate::node::handle::WithZones;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use std::sync::Arc;

pub(super) async fn metrics(State(api): State<Arc<Api>>) -> Result<impl IntoResponse, ApiError> {
    let status = api.handle.status(WithZones::No).await.ok_or_else(ApiError::ending)?;
    let zone_count = super::zones::count(&api);
    let text = api.metrics.page(&status, api.handle.shared(), api.serving.reported(), zone_count);
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text))
}
