//! `/v1/zones`, `/v1/zone`

use super::consistent::Consistency;
use super::error::ApiError;
use super::parse::parse_zone;
use super::state::Api;
use crate::replica_host::event::WithZones;
use crate::sys::priority::give_way_to_all;
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use config::api_types::{DoneJson, OptionsJson, ZoneJson};
use config::api_types::{RECORDS_TYPE, ZONE_HASH};
use config::files::zone_load::{load_records, load_text, print_line};
use replica::ZoneStatus;
use replica::io::{
    AckOption, AdminCommand, AdminError, AdminReply, BrokenLimit, Contents, LimitsChange, OptionsChange, Replacement,
    SerialPolicyOption, StaleOption, ZoneLimits, ZoneOptions, broken_limit,
};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use wire::Rtype;
use zone::record::{RecordList, RecordRef, ZoneId};
use zone::set::Zone;
use zone::text::print_rtype;

/// Size of a zone from which on its unused memory is returned to the system at once.
const TRIM_BYTES_MIN: usize = 1 << 20;

/// The zone, its options, and the hash of the version that the client compared with.
#[derive(Deserialize)]
pub(super) struct ZoneQuery {
    zone: String,
    base: Option<String>,
    serial_policy: Option<String>,
    stale: Option<String>,
    ack: Option<String>,
    ttl_max: Option<u32>,
    rrset_records_max: Option<u32>,
    records_max: Option<u32>,
}

impl ZoneQuery {
    fn options(&self) -> OptionsJson {
        OptionsJson {
            serial_policy: self.serial_policy.clone(),
            stale: self.stale.clone(),
            ack: self.ack.clone(),
            ttl_max: self.ttl_max,
            rrset_records_max: self.rrset_records_max,
            records_max: self.records_max,
        }
    }

    fn id(&self) -> Result<ZoneId, ApiError> {
        parse_zone(&self.zone)
    }
}

/// All zones that this node serves, with the options in `statuses`.
pub(super) fn describe_all(api: &Api, statuses: &[ZoneStatus]) -> Vec<ZoneJson> {
    if statuses.is_empty() {
        return Vec::new();
    }
    let options: BTreeMap<&ZoneId, ZoneOptions> = statuses.iter().map(|zone| (&zone.id, zone.options)).collect();
    let mut reader = api.zones.lock().unwrap_or_else(PoisonError::into_inner);
    let zones = reader.pin().zones().map(|zone| describe(&zone, options.get(&zone.id()).copied())).collect();
    reader.offline();
    zones
}

/// One zone that this node serves.
pub(super) fn describe_one(api: &Api, id: &ZoneId) -> Option<ZoneJson> {
    let mut reader = api.zones.lock().unwrap_or_else(PoisonError::into_inner);
    let zone = reader.pin().zone(id).map(|zone| describe(&zone, None));
    reader.offline();
    zone
}

pub(super) fn count(api: &Api) -> usize {
    let mut reader = api.zones.lock().unwrap_or_else(PoisonError::into_inner);
    let count = reader.pin().zone_count();
    reader.offline();
    count
}

fn describe(zone: &Zone<'_>, options: Option<ZoneOptions>) -> ZoneJson {
    ZoneJson {
        zone: zone.apex().to_string(),
        serial: zone.serial().map_or(0, |serial| serial.0),
        records: zone.record_count(),
        presigned: zone.is_presigned(),
        hash: hash_text(zone),
        options: options.map_or_else(OptionsJson::default, show_options),
    }
}

fn hash_text(zone: &Zone<'_>) -> String {
    format!("{:032x}", zone.hash())
}

fn show_options(options: ZoneOptions) -> OptionsJson {
    let serial_policy = match options.serial_policy {
        SerialPolicyOption::Increment => "increment",
        SerialPolicyOption::UnixTime => "unixtime",
        SerialPolicyOption::Date => "date",
    };
    let stale = match options.stale {
        StaleOption::Serve => "serve",
        StaleOption::Expire => "expire",
    };
    let ack = match options.ack {
        AckOption::Majority => "majority",
        AckOption::AllLive => "all-live",
    };
    let [serial_policy, stale, ack] = [serial_policy, stale, ack].map(|name| Some(name.to_owned()));
    let named = |limit: u32| (limit > 0).then_some(limit);
    OptionsJson {
        serial_policy,
        stale,
        ack,
        ttl_max: named(options.limits.ttl_max_s),
        rrset_records_max: named(options.limits.rrset_records_max),
        records_max: named(options.limits.records_max),
    }
}

/// The options in the request.
fn parse_options(wanted: &OptionsJson) -> Result<OptionsChange, ApiError> {
    let unknown = |text: &str, hint: &str| ApiError::bad_request(format!("unknown option `{text}`"), hint);
    let serial_policy = match wanted.serial_policy.as_deref() {
        None => None,
        Some("increment") => Some(SerialPolicyOption::Increment),
        Some("unixtime") => Some(SerialPolicyOption::UnixTime),
        Some("date") => Some(SerialPolicyOption::Date),
        Some(other) => return Err(unknown(other, "serial_policy is increment, unixtime or date")),
    };
    let stale = match wanted.stale.as_deref() {
        None => None,
        Some("serve") => Some(StaleOption::Serve),
        Some("expire") => Some(StaleOption::Expire),
        Some(other) => return Err(unknown(other, "stale is serve or expire")),
    };
    let ack = match wanted.ack.as_deref() {
        None => None,
        Some("majority") => Some(AckOption::Majority),
        Some("all-live") => Some(AckOption::AllLive),
        Some(other) => return Err(unknown(other, "ack is majority or all-live")),
    };
    let limits = LimitsChange {
        ttl_max_s: wanted.ttl_max,
        rrset_records_max: wanted.rrset_records_max,
        records_max: wanted.records_max,
    };
    Ok(OptionsChange { serial_policy, stale, ack, limits })
}

pub(super) async fn list(
    State(api): State<Arc<Api>>,
    consistency: Result<Query<Consistency>, QueryRejection>,
) -> Result<Json<Vec<ZoneJson>>, ApiError> {
    consistency?.wait(&api).await?;
    let status = api.handle.status(WithZones::Yes).await.ok_or_else(ApiError::ending)?;
    Ok(Json(describe_all(&api, &status.zones)))
}

pub(super) async fn set_options(
    State(api): State<Arc<Api>>,
    query: Result<Query<ZoneQuery>, QueryRejection>,
) -> Result<Json<DoneJson>, ApiError> {
    let query = query?;
    let zone = query.id()?;
    let change = parse_options(&query.options())?;
    Ok(done(&api.handle.admin(AdminCommand::SetZoneOptions { zone, change }).await?))
}

pub(super) async fn export(
    State(api): State<Arc<Api>>,
    query: Result<Query<ZoneQuery>, QueryRejection>,
    consistency: Result<Query<Consistency>, QueryRejection>,
) -> Result<impl IntoResponse, ApiError> {
    let id = query?.id()?;
    consistency?.wait(&api).await?;
    let frozen = api.handle.frozen().await.ok_or_else(ApiError::ending)?;
    // A large zone takes long to print, so other threads continue meanwhile.
    let printed = blocking(move || {
        let set = frozen.set();
        let zone = set.zone(&id)?;
        Some((hash_text(&zone), print(&zone)))
    });
    let unknown = || ApiError::from(AdminError::ZoneUnknown);
    let (hash, text) = printed.await?.ok_or_else(unknown)?;
    Ok(([(ZONE_HASH, hash), ("content-type", "text/dns; charset=utf-8".to_owned())], text))
}

/// The zone as a zone file: first the SOA, as parsers expect, then the rest in canonical order.
fn print(zone: &Zone<'_>) -> String {
    let is_apex_soa = |record: &RecordRef<'_>| record.rtype == Rtype::SOA && record.owner == zone.apex();
    let (mut first, mut rest) = (String::new(), String::new());
    for record in zone.records() {
        print_line(record, if is_apex_soa(&record) { &mut first } else { &mut rest });
    }
    first + &rest
}

pub(super) async fn add(
    State(api): State<Arc<Api>>,
    query: Result<Query<ZoneQuery>, QueryRejection>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<(StatusCode, Json<DoneJson>), ApiError> {
    let query = query?;
    let zone = query.id()?;
    let options = parse_options(&query.options())?.of(ZoneOptions::default());
    let records = parse(&zone, &headers, body?).await?;
    let (id, bytes) = (zone.clone(), records.as_bytes().len());
    let contents = blocking(move || {
        check_limits(&records, options.limits)?;
        Contents::new(&id, records).map_err(ApiError::from)
    });
    let contents = contents.await??;
    let reply = api.handle.admin(AdminCommand::AddZone { zone, options, contents }).await;
    give_back(bytes).await;
    let reply = reply?;
    Ok((StatusCode::CREATED, done(&reply)))
}

pub(super) async fn replace(
    State(api): State<Arc<Api>>,
    query: Result<Query<ZoneQuery>, QueryRejection>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<DoneJson>, ApiError> {
    let query = query?;
    let zone = query.id()?;
    let base = query.base.as_deref().and_then(|text| u128::from_str_radix(text, 16).ok());
    let base_hash = base.ok_or_else(|| {
        ApiError::bad_request(
            "the hash of the replaced version is missing",
            format!("add &base=HASH, from the {ZONE_HASH} field of the export"),
        )
    })?;
    let records = parse(&zone, &headers, body?).await?;
    let frozen = api.handle.frozen().await.ok_or_else(ApiError::ending)?;
    let (id, bytes) = (zone.clone(), records.as_bytes().len());
    let limits = api.handle.zone_options(&zone).await.unwrap_or_default().limits;
    // A large zone takes long to compare, so the replica continues meanwhile.
    let compared = blocking(move || {
        let set = frozen.set();
        let old = set.zone(&id).ok_or(AdminError::ZoneUnknown)?;
        if old.hash() != base_hash {
            return Err(AdminError::ZoneChanged.into());
        }
        check_limits(&records, limits)?;
        Replacement::new(&old, records).map_err(ApiError::from)
    });
    let replacement = compared.await??;
    let reply = api.handle.admin(AdminCommand::ReplaceZone { zone, replacement }).await;
    give_back(bytes).await;
    Ok(done(&reply?))
}

/// Refuses records that break the limits of their zone.
fn check_limits(records: &RecordList, limits: ZoneLimits) -> Result<(), ApiError> {
    broken_limit(records, limits).map_or(Ok(()), |BrokenLimit { limit, most, rrset }| {
        let mut why = String::new();
        if let Some((owner, rtype)) = rrset {
            why = format!("{owner} ");
            print_rtype(rtype, &mut why);
            why.push_str(": ");
        }
        why.push_str(&format!("{}: at most {most}", limit.text()));
        let hint = "change the zone file, or the limit with `catamaran zone set` (0 removes it)";
        Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, why, hint))
    })
}

pub(super) async fn remove(
    State(api): State<Arc<Api>>,
    query: Result<Query<ZoneQuery>, QueryRejection>,
) -> Result<Json<DoneJson>, ApiError> {
    let zone = query?.id()?;
    Ok(done(&api.handle.admin(AdminCommand::RemoveZone { zone }).await?))
}

pub(super) fn done(reply: &AdminReply) -> Json<DoneJson> {
    Json(DoneJson { changed: *reply != AdminReply::Unchanged })
}

/// The records in a body, which is a zone file or of [`RECORDS_TYPE`]. Its apex must be the zone of the request.
async fn parse(zone: &ZoneId, headers: &HeaderMap, body: Bytes) -> Result<RecordList, ApiError> {
    let wrong = |why: String| {
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, why, "correct the zone file; nothing was changed")
    };
    let is_records = headers.get(CONTENT_TYPE).is_some_and(|named| named == RECORDS_TYPE);
    let loaded = blocking(move || {
        if is_records {
            return load_records(body.into()).map_err(|problem| problem.why);
        }
        match std::str::from_utf8(&body) {
            Ok(text) => load_text(text, "body").map_err(|problem| problem.why),
            Err(error) => Err(format!("the body is not UTF-8: {error}")),
        }
    });
    let loaded = loaded.await?.map_err(wrong)?;
    if loaded.apex != zone.apex {
        return Err(wrong(format!("the zone in the body is {}, not {}", loaded.apex, zone.apex)));
    }
    Ok(loaded.records)
}

/// Runs slow work on another thread, so that it does not delay other requests.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    let work = || {
        give_way_to_all();
        work()
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| ApiError::ending())
}

/// Returns memory to the system after a large zone. Small amounts are reused.
async fn give_back(bytes: usize) {
    if bytes >= TRIM_BYTES_MIN {
        let _ = blocking(crate::sys::memory::trim).await;
    }
}
