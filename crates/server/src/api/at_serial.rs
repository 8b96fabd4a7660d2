//! `GET /v1/zones/ZONE?at=SERIAL`: waits until this node shows that serial, or a newer one. Whoever changed a zone
//! through one node asks the others so, instead of guessing how long a change takes to arrive.

use super::Api;
use super::error::ApiError;
use super::types::ZoneJson;
use super::zones::describe_one;
use crate::limits::{AT_LOOK_MS, AT_WAIT_MS_MAX};
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use replica::io::AdminError;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};
use wire::Name;
use wire::number::Serial;
use zone::record::ZoneId;

/// From which serial on, and how long to wait for it.
#[derive(Deserialize)]
pub(super) struct AtQuery {
    at: Option<u32>,
    wait_ms: Option<u64>,
}

pub(super) async fn show(
    State(api): State<Arc<Api>>,
    path: Result<Path<String>, PathRejection>,
    query: Result<Query<AtQuery>, QueryRejection>,
) -> Result<Json<ZoneJson>, ApiError> {
    let Path(name) = path.map_err(|error| bad(error.body_text()))?;
    let apex: Name = name.parse().map_err(|error| bad(format!("`{name}` is no name: {error:?}")))?;
    let id = ZoneId { view: 0, apex: apex.as_ref().to_canonical() };
    let AtQuery { at, wait_ms } = query?.0;
    let until = Instant::now() + Duration::from_millis(wait_ms.unwrap_or(AT_WAIT_MS_MAX).min(AT_WAIT_MS_MAX));
    let mut published = api.handle.shared().published.subscribe();
    loop {
        // What is published from here on wakes this up, also while it looks.
        published.borrow_and_update();
        let zone = describe_one(&api, &id).ok_or(AdminError::ZoneUnknown)?;
        let (shown, wanted) = (Serial(zone.serial), at.map(Serial));
        if wanted.is_none_or(|wanted| shown == wanted || shown.is_newer_than(wanted)) {
            return Ok(Json(zone));
        }
        // However often something is published, it is looked at now and then.
        sleep(Duration::from_millis(AT_LOOK_MS)).await;
        match timeout_at(until, published.changed()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(ApiError::ending()),
            Err(_) => return Err(late(&zone)),
        }
    }
}

fn late(zone: &ZoneJson) -> ApiError {
    let what = format!("this node shows serial {} of {}", zone.serial, zone.zone);
    ApiError::new(StatusCode::GATEWAY_TIMEOUT, what, "ask again, or see `catamaran status`: the node may lag")
}

fn bad(error: String) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, error, "write it as in /v1/zones/example.org.?at=7")
}
