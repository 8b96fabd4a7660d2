//! `GET /v1/zones/ZONE?at=SERIAL`: waits until this node serves this serial or a newer one. With `&everywhere=1`, waits
//! until all nodes that the leader hears serve it. Clients use it after an update, instead of a fixed pause.

use super::error::ApiError;
use super::parse::{parse_flag, parse_zone};
use super::state::Api;
use super::zones::describe_one;
use crate::limits::{AT_WAIT_MS_MAX, AT_WAITING_MAX};
use crate::replica_host::event::WithZones;
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use config::api_types::ZoneJson;
use replica::io::AdminError;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};
use wire::number::Serial;
use zone::record::ZoneId;

/// Interval between checks of the serial, while a request waits for it.
const AT_POLL_MS: u64 = 5;

/// The serial, and how long to wait for it.
#[derive(Deserialize)]
pub(super) struct AtQuery {
    at: Option<u32>,
    wait_ms: Option<u64>,
    everywhere: Option<String>,
}

pub(super) async fn show(
    State(api): State<Arc<Api>>,
    path: Result<Path<String>, PathRejection>,
    query: Result<Query<AtQuery>, QueryRejection>,
) -> Result<Json<ZoneJson>, ApiError> {
    let Path(name) =
        path.map_err(|error| ApiError::bad_request(error.body_text(), "write it as in /v1/zones/example.org.?at=7"))?;
    let id = parse_zone(&name)?;
    let Query(AtQuery { at, wait_ms, everywhere }) = query?;
    let is_everywhere = parse_flag("everywhere", everywhere.as_deref())?;
    let until = Instant::now() + Duration::from_millis(wait_ms.unwrap_or(AT_WAIT_MS_MAX).min(AT_WAIT_MS_MAX));
    let mut published = api.handle.shared().published.subscribe();
    let mut permit = None;
    loop {
        // From here on, each new version wakes this task.
        published.borrow_and_update();
        let zone = describe_one(&api, &id).ok_or(AdminError::ZoneUnknown)?;
        let (shown, wanted) = (Serial(zone.serial), at.map(Serial));
        let is_shown = wanted.is_none_or(|wanted| shown == wanted || shown.is_newer_than(wanted));
        if permit.is_none() && (!is_shown || is_everywhere) {
            permit = Some(api.serial_wait_permits.try_acquire().map_err(|_| too_many_waiting())?);
        }
        if is_shown {
            if is_everywhere {
                wait_everywhere(&api, &id, &zone, until).await?;
            }
            return Ok(Json(zone));
        }
        // Bounds how often this polls, however often versions are published.
        sleep(Duration::from_millis(AT_POLL_MS)).await;
        match timeout_at(until, published.changed()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(ApiError::ending()),
            Err(_) => return Err(late(&zone)),
        }
    }
}

/// Waits until all nodes serve what this node serves now.
async fn wait_everywhere(api: &Api, id: &ZoneId, zone: &ZoneJson, until: Instant) -> Result<(), ApiError> {
    let mut everywhere = api.handle.shared().everywhere.subscribe();
    // Read after the zone, so this index is not lower than that of the zone.
    let shown = api.handle.status(WithZones::No).await.ok_or_else(ApiError::ending)?.applied_index;
    let is_leased = api.limits.is_leased(id);
    let reached = everywhere.wait_for(|known| known.shows(shown, is_leased));
    match timeout_at(until, reached).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) => Err(ApiError::ending()),
        Err(_) => {
            let what = format!("serial {} of {} is served by this node, but not by every node", zone.serial, zone.zone);
            let hint = "try again, or see `catamaran cluster status`: a node may lag, or there is no leader";
            Err(ApiError::new(StatusCode::GATEWAY_TIMEOUT, what, hint))
        }
    }
}

fn too_many_waiting() -> ApiError {
    let what = format!("{AT_WAITING_MAX} requests already wait for a serial on this node, which is the limit");
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, what, "try again in a second, or use another node")
}

fn late(zone: &ZoneJson) -> ApiError {
    let what = format!("this node serves serial {} of {}", zone.serial, zone.zone);
    ApiError::new(StatusCode::GATEWAY_TIMEOUT, what, "try again, or see `catamaran status`: the node may lag")
}
