//! Errors as JSON, with a hint.

use crate::replica_host::command_failed::CommandFailed;
use axum::Json;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use config::api_types::ErrorJson;
use replica::io::{AdminError, ReadIndexError};

/// An error response.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    error: String,
    hint: String,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { status, error: error.into(), hint: hint.into() }
    }

    /// The request is invalid.
    pub(super) fn bad_request(error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error, hint)
    }

    /// The replica's thread has stopped: the process is about to exit.
    pub(super) fn ending() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the node is stopping", "send the request to another node")
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = Json(ErrorJson { error: self.error, hint: self.hint });
        let mut response = (self.status, body).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            // RFC 7235 3.1: a 401 says what would be accepted.
            response.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<AdminError> for ApiError {
    fn from(error: AdminError) -> Self {
        let CommandFailed { status, error, hint } = error.into();
        Self::new(status, error, hint)
    }
}

impl From<ReadIndexError> for ApiError {
    fn from(error: ReadIndexError) -> Self {
        let (error, hint) = match error {
            ReadIndexError::TimedOut => (
                "no leader with a majority confirmed in time that this node is up to date",
                "omit consistent=1 to read the data of this node; see `catamaran status`",
            ),
            ReadIndexError::Busy => ("too many pending consistent reads", "try again in a second"),
        };
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error, hint)
    }
}

impl From<QueryRejection> for ApiError {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(
            rejection.status(),
            rejection.body_text(),
            "a query parameter is missing or wrong; examples: ?zone=example.org. or ?at=17",
        )
    }
}

impl From<BytesRejection> for ApiError {
    fn from(rejection: BytesRejection) -> Self {
        Self::new(rejection.status(), rejection.body_text(), "send a smaller body")
    }
}

pub(super) async fn no_such_path() -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        "there is no such path",
        "see /healthz, /metrics, /v1/status, /v1/zones, /v1/zones/NAME, /v1/zone, /v1/keys, /v1/keys/secret, \
         /v1/grants, /v1/policy, /v1/policy/check, /v1/policy/keys, /v1/audit, /v1/nodes, /v1/nodes/address, \
         /v1/leader, /v1/tokens, /v1/certificates, /v1/ca, /v1/data-key, /v1/backup, /v1/feature-level",
    )
}

pub(super) async fn no_such_method() -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "this path does not support the method",
        "use GET to read, POST to add, PUT to replace, PATCH to change, DELETE to remove",
    )
}
