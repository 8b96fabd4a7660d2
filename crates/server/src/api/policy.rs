//! `/v1/policy`, `/v1/policy/check`

use super::error::ApiError;
use super::parse::{parse_flag, parse_key_name, parse_name, parse_zone};
use super::state::Api;
use crate::published::rights::Rights;
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use config::api_types::POLICY_REVISION;
use config::api_types::{DecisionJson, DoneJson, KeyPoliciesJson};
use policy::text::parse_policy;
use policy::{Decision, Requestor, RuleList};
use replica::io::AdminCommand;
use serde::Deserialize;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, PoisonError};
use wire::Name;
use wire::number::Rtype;
use zone::record::ZoneId;
use zone::text::scan_rtype;

/// The policy of a zone, or the one for all zones.
#[derive(Deserialize)]
pub(super) struct PolicyQuery {
    zone: Option<String>,
}

impl PolicyQuery {
    fn id(&self) -> Result<Option<ZoneId>, ApiError> {
        self.zone.as_deref().map(parse_zone).transpose()
    }
}

/// The update to check.
#[derive(Deserialize)]
pub(super) struct CheckQuery {
    key: String,
    name: String,
    r#type: String,
    /// Source address of the update.
    source: Option<String>,
    /// Whether it is sent over TCP.
    tcp: Option<String>,
}

/// The policy to set, and the revision that it is based on.
#[derive(Deserialize)]
pub(super) struct SetQuery {
    #[serde(flatten)]
    of: PolicyQuery,
    expect: Option<String>,
}

pub(super) async fn show(
    State(api): State<Arc<Api>>,
    query: Result<Query<PolicyQuery>, QueryRejection>,
) -> Result<impl IntoResponse, ApiError> {
    let zone = query?.id()?;
    let policy = api.handle.shared().rights().policy(zone.as_ref()).cloned().unwrap_or_default();
    let (revision, kind) = (policy.revision().to_string(), "text/plain; charset=utf-8".to_owned());
    Ok(([(POLICY_REVISION, revision), ("content-type", kind)], policy.to_string()))
}

/// Lists the keys to which policy rules grant something. `GET /v1/keys` lists direct grants only.
pub(super) async fn keys(State(api): State<Arc<Api>>) -> Json<Vec<KeyPoliciesJson>> {
    let rights = api.handle.shared().rights();
    let of = |key: &Name| -> Vec<Option<String>> {
        rights.granting_policies(key).map(|zone| zone.map(|zone| zone.apex.to_string())).collect()
    };
    let keys =
        rights.statuses().into_iter().map(|key| KeyPoliciesJson { key: key.name.to_string(), zones: of(&key.name) });
    Json(keys.filter(|of| !of.zones.is_empty()).collect())
}

pub(super) async fn set(
    State(api): State<Arc<Api>>,
    query: Result<Query<SetQuery>, QueryRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<DoneJson>, ApiError> {
    let SetQuery { of, expect } = query?.0;
    let zone = of.id()?;
    let expected = expect
        .map(|text| text.parse().map_err(|why| ApiError::bad_request(format!("`{text}` is not a revision"), why)));
    let wrong =
        |why: String| ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, why, "correct the rules; nothing was changed");
    let body = body?;
    let text = std::str::from_utf8(&body).map_err(|_| wrong("the rules are not UTF-8".to_owned()))?;
    let policy = parse_policy(text).map_err(|error| wrong(error.to_string()))?;
    let command = AdminCommand::SetPolicy { zone, policy: Arc::new(policy), expected: expected.transpose()? };
    super::keys::changed(&api, command).await
}

pub(super) async fn check(
    State(api): State<Arc<Api>>,
    query: Result<Query<CheckQuery>, QueryRejection>,
) -> Result<Json<DecisionJson>, ApiError> {
    let query = query?;
    let (key, name) = (parse_key_name(&query.key)?, parse_name(&query.name, "www.example.org.")?);
    let unknown = || {
        ApiError::bad_request(format!("unknown type `{}`", query.r#type), "use type=AAAA or type=TYPE65, for example")
    };
    let rtype = scan_rtype(query.r#type.as_bytes()).ok_or_else(unknown)?;
    let source = match &query.source {
        None => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        Some(text) => text.parse().map_err(|_| {
            ApiError::bad_request(format!("`{text}` is not an address"), "use source=192.0.2.1, for example")
        })?,
    };
    let is_connected = parse_flag("tcp", query.tcp.as_deref())?;
    let requestor = Requestor { key: key.as_ref(), source, is_connected };
    let zone = {
        let mut reader = api.zones.lock().unwrap_or_else(PoisonError::into_inner);
        let zone = reader.pin().find(name.as_ref()).map(|zone| zone.id());
        reader.offline();
        zone
    };
    let no_zone = || {
        ApiError::new(
            StatusCode::NOT_FOUND,
            format!("{name} is not in a zone of this cluster"),
            "see `catamaran zone list`",
        )
    };
    Ok(Json(decide(&api.handle.shared().rights(), requestor, &zone.ok_or_else(no_zone)?, &name, rtype)))
}

/// The decision, with the rule that made it.
fn decide(rights: &Rights, requestor: Requestor<'_>, zone: &ZoneId, name: &Name, rtype: Rtype) -> DecisionJson {
    let key = requestor.key.to_name();
    let evaluator = rights.rules(&key, zone).evaluator(requestor);
    let decision = evaluator.decide(name.as_ref(), rtype);
    let by = match decision {
        Decision::Granted { by, .. } | Decision::Denied { by } | Decision::Unanswered { by } => Some(by),
        Decision::Unmatched | Decision::Protected | Decision::Never => None,
    };
    let limits = evaluator.limits();
    DecisionJson {
        zone: zone.apex.to_string(),
        granted: decision.is_granted(),
        why: decision.to_string(),
        rule: by.and_then(|by| evaluator.rule(by)).map(ToString::to_string),
        list: by.map(|by| {
            match by.list {
                RuleList::Zone => "zone",
                RuleList::AllZones => "all-zones",
                RuleList::Grants => "grants",
            }
            .to_owned()
        }),
        number: by.map(|by| by.number),
        records_max: match decision {
            Decision::Granted { records_max, .. } => records_max.map(std::num::NonZeroU16::get),
            _ => None,
        },
        limits: limits.numbers().into_iter().filter_map(|(name, max)| max.map(|max| (name.to_owned(), max))).collect(),
        key_known: rights.status(&key).is_some(),
    }
}
