//! `POST /v1/certificates`: gives every node a new certificate. `POST /v1/ca`: the next step of replacing the
//! CA. `POST /v1/data-key`: replaces the data key.
//!
//! Each step depends on the current state. So the state is read after a leader with a majority has confirmed that this
//! node is up to date. If a concurrent request has made the same step, this one has no effect.

use super::error::ApiError;
use super::state::Api;
use crate::tls::ca::Ca;
use crate::tls::names::node_number;
use crate::trust::data_keys::begin;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use config::api_types::{CaStepJson, RenewalJson};
use config::files::token::fill_random;
use replica::Trust;
use replica::io::{AdminCommand, AdminError, CredentialProgress, ReadIndexError, TrustCommand};
use serde::Deserialize;
use std::io;
use std::sync::Arc;

/// `?begin=true`: begins a replacement if none is running.
#[derive(Deserialize)]
pub(super) struct StepQuery {
    begin: Option<bool>,
}

pub(super) async fn renew(State(api): State<Arc<Api>>) -> Result<Json<RenewalJson>, ApiError> {
    let number = api.trust().await?.renewal + 1;
    api.handle.admin(AdminCommand::Trust(TrustCommand::Renew { number })).await?;
    Ok(Json(RenewalJson { number }))
}

pub(super) async fn begin_data_key(State(api): State<Arc<Api>>) -> Result<Json<RenewalJson>, ApiError> {
    let trust = api.trust().await?;
    // A running replacement is continued.
    if let Some((number, _)) = trust.next_data_key {
        return Ok(Json(RenewalJson { number }));
    }
    let failed = |error: io::Error| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string(), "try again");
    let command = begin(&trust, &api.data_key_file).map_err(failed)?;
    let number = trust.data_key + 1;
    match api.handle.admin(AdminCommand::Trust(command)).await {
        // Busy: a concurrent request has begun a replacement.
        Ok(_) | Err(AdminError::RotationBusy) => Ok(Json(RenewalJson { number })),
        Err(error) => Err(error.into()),
    }
}

pub(super) async fn step(
    State(api): State<Arc<Api>>,
    query: Result<Query<StepQuery>, QueryRejection>,
) -> Result<Json<CaStepJson>, ApiError> {
    let begin = query?.begin == Some(true);
    let trust = api.trust().await?;
    let newest = trust.cas.iter().map(|of| of.number).max().unwrap_or(0);
    let (command, did, waits_for) = match trust.cas.iter().find(|of| of.number != newest) {
        None if !begin => return Ok(Json(CaStepJson { did: None, waits_for: Vec::new(), done: true })),
        None => (add(newest + 1)?, "a new CA was added; every node will accept it", Vec::new()),
        Some(_) if trust.issuer != newest => {
            let behind = behind(&trust, |progress| progress.accepts >= newest);
            (TrustCommand::UseCa { number: newest }, "the new CA now issues certificates", behind)
        }
        Some(old) => {
            let behind = behind(&trust, |progress| progress.issued_by == newest);
            (TrustCommand::RemoveCa { number: old.number }, "the old CA is no longer accepted", behind)
        }
    };
    let done = matches!(command, TrustCommand::RemoveCa { .. });
    let not_yet = |waits_for| Ok(Json(CaStepJson { did: None, waits_for, done: false }));
    if !waits_for.is_empty() {
        return not_yet(waits_for);
    }
    match api.handle.admin(AdminCommand::Trust(command)).await {
        Ok(_) => Ok(Json(CaStepJson { did: Some(did.to_owned()), waits_for: Vec::new(), done })),
        // The leader knows a node that this node does not know yet.
        Err(AdminError::MembersBehind) => not_yet(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// The command that adds a new CA.
fn add(number: u32) -> Result<TrustCommand, ApiError> {
    let failed = |error: io::Error| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string(), "try again");
    let ca = Ca::make().map_err(failed)?;
    let mut nonce = [0; 12];
    fill_random(&mut nonce).map_err(failed)?;
    let (certificate, key) = (ca.cert_der().to_vec(), ca.key_der());
    Ok(TrustCommand::AddCa { number, certificate, key, nonce })
}

/// The node numbers of the members that have not reported this.
fn behind(trust: &Trust, is_so: impl Fn(&CredentialProgress) -> bool) -> Vec<u64> {
    let behind = trust.members.iter().filter(|member| !trust.credentials.get(&member.id).is_some_and(&is_so));
    behind.map(|member| node_number(member.id)).collect()
}

impl Api {
    /// The current certificates and CAs of the cluster.
    async fn trust(&self) -> Result<Arc<Trust>, ApiError> {
        let late = |error| match error {
            ReadIndexError::TimedOut => {
                let what = "no leader with a majority confirmed in time that this node is up to date; nothing was done";
                let hint = "use another node; check in `catamaran status` whether this node lags or there is no leader";
                ApiError::new(StatusCode::SERVICE_UNAVAILABLE, what, hint)
            }
            ReadIndexError::Busy => error.into(),
        };
        if !replica::planted!(RotationWithoutRead) {
            self.handle.read_index().await.ok_or_else(ApiError::ending)?.map_err(late)?;
        }
        let trust = self.handle.shared().trust.borrow().clone();
        if !trust.cas.is_empty() {
            return Ok(trust);
        }
        let hint = "it is read from ca.key on the node where the cluster was created, once the feature level is 2: \
                    start that node, and run `catamaran cluster upgrade`";
        Err(ApiError::new(StatusCode::CONFLICT, "the cluster does not have the key of its CA", hint))
    }
}
