//! `POST /v1/certificates`: every node gets itself a new certificate. `POST /v1/ca`: the next step towards
//! another CA. `POST /v1/data-key`: another data key.
//!
//! Each is a step from what the cluster has come to, so it is looked at after a leader with a majority has confirmed
//! that this node knows all of it. Who finds the step done then was overtaken by another who asked for the same.

use super::Api;
use super::error::ApiError;
use super::types::{CaStepJson, RenewalJson};
use crate::files::token::fill_random;
use crate::node::data_keys::begin;
use crate::peer::node_number;
use crate::tls::ca::Ca;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use replica::Trust;
use replica::io::{AdminCommand, AdminError, ReadIndexError, Standing, TrustCommand};
use serde::Deserialize;
use std::io;
use std::sync::Arc;

/// `?begin=true`: also where no replacement is under way.
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
    // One that is under way is gone on with.
    if let Some((number, _)) = trust.next_data_key {
        return Ok(Json(RenewalJson { number }));
    }
    let failed = |error: io::Error| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string(), "try again");
    let command = begin(&trust, &api.data_key_file).map_err(failed)?;
    let number = trust.data_key + 1;
    match api.handle.admin(AdminCommand::Trust(command)).await {
        // Busy: another has begun with one meanwhile.
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
        None => (add(newest + 1)?, "every node is to accept a new CA", Vec::new()),
        Some(_) if trust.issuer != newest => {
            let behind = behind(&trust, |standing| standing.accepts >= newest);
            (TrustCommand::UseCa { number: newest }, "certificates are issued by the new CA", behind)
        }
        Some(old) => {
            let behind = behind(&trust, |standing| standing.issued_by == newest);
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
        // The leader knows of a node that this one does not know of yet.
        Err(AdminError::MembersBehind) => not_yet(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// A new CA, of which the cluster gets to know all.
fn add(number: u32) -> Result<TrustCommand, ApiError> {
    let failed = |error: io::Error| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string(), "try again");
    let ca = Ca::make().map_err(failed)?;
    let mut nonce = [0; 12];
    fill_random(&mut nonce).map_err(failed)?;
    let (certificate, key) = (ca.cert_der().to_vec(), ca.key_der());
    Ok(TrustCommand::AddCa { number, certificate, key, nonce })
}

/// The members that have not said this of themselves, by the numbers of their nodes.
fn behind(trust: &Trust, is_so: impl Fn(&Standing) -> bool) -> Vec<u64> {
    let behind = trust.members.iter().filter(|member| !trust.standings.get(&member.id).is_some_and(&is_so));
    behind.map(|member| node_number(member.id)).collect()
}

impl Api {
    /// What nodes know each other by now, where the cluster has it in its state.
    async fn trust(&self) -> Result<Arc<Trust>, ApiError> {
        let late = |error| match error {
            ReadIndexError::TimedOut => {
                let what =
                    "no leader with a majority confirmed in time that this node has everything; nothing was done";
                let hint = "ask another node; see `catamaran status` whether this one lags, or nobody leads";
                ApiError::new(StatusCode::SERVICE_UNAVAILABLE, what, hint)
            }
            ReadIndexError::Busy => error.into(),
        };
        self.handle.read_index().await.ok_or_else(ApiError::ending)?.map_err(late)?;
        let trust = self.handle.shared().trust.borrow().clone();
        if !trust.cas.is_empty() {
            return Ok(trust);
        }
        let hint = "it is taken up from ca.key, on the node where the cluster was made, once the feature level is 2: \
                    start that node, and see `catamaran cluster upgrade`";
        Err(ApiError::new(StatusCode::CONFLICT, "the cluster does not hold the key of its CA", hint))
    }
}
