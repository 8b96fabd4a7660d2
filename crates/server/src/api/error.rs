//! Errors as JSON, with a hint.

use super::types::ErrorJson;
use crate::problem::{NO_LEADER, NOBODY_KNOWS, TOKEN_REFUSED};
use axum::Json;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use replica::io::{AdminError, ReadIndexError};

/// What a handler gives when it cannot do as asked.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    error: String,
    hint: String,
}

impl ApiError {
    /// What is wrong, for those who do not speak HTTP.
    pub(crate) fn into_reason(self) -> String {
        self.error
    }

    pub(super) fn new(status: StatusCode, error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { status, error: error.into(), hint: hint.into() }
    }

    /// The replica's thread is gone: the process is about to end.
    pub(super) fn ending() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the node is stopping", "ask another node")
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
        use StatusCode as S;
        let (status, error, hint) = match error {
            AdminError::ZoneExists
            | AdminError::ZoneUnknown
            | AdminError::ZoneChanged
            | AdminError::ZoneInvalid
            | AdminError::ImportUnderWay
            | AdminError::ImportGivenUp => return Self::of_zones(error),
            AdminError::KeyExists
            | AdminError::KeyRolling
            | AdminError::KeyUnknown
            | AdminError::KeyOfAnotherAlgorithm
            | AdminError::PolicyChanged => return Self::of_rights(error),
            AdminError::NodeUnknown
            | AdminError::NodeExists
            | AdminError::NodeVotes
            | AdminError::NodeBehind
            | AdminError::MembershipBusy
            | AdminError::MembersBehind
            | AdminError::RotationBusy
            | AdminError::LeaderWouldGo
            | AdminError::LeaderStayed
            | AdminError::LastVoter
            | AdminError::MajorityWouldGo => return Self::of_members(error),
            AdminError::Fenced => (
                S::CONFLICT,
                "this node's state is not what the majority has",
                "ask another node; keep this one's directory for a bug report",
            ),
            AdminError::TokenInvalid => (S::FORBIDDEN, TOKEN_REFUSED, "make a new one with `catamaran cluster add`"),
            AdminError::TooLarge => (
                S::PAYLOAD_TOO_LARGE,
                "it is larger than a limit allows, or the zones of some node may not take more memory",
                "see zone memory in `catamaran cluster status`; remove records or zones, or raise \
                 zones.memory_bytes_max on that node",
            ),
            AdminError::DataKeyOld => {
                (S::SERVICE_UNAVAILABLE, "the data key is being replaced just now", "try again in a second")
            }
            AdminError::Busy => (S::SERVICE_UNAVAILABLE, "too many commands wait", "try again in a second"),
            AdminError::NotProposed => {
                (S::SERVICE_UNAVAILABLE, NO_LEADER, "more than half of the nodes must run; see `catamaran status`")
            }
            AdminError::Unknown => (S::GATEWAY_TIMEOUT, NOBODY_KNOWS, "look before you try again"),
            AdminError::LevelTooLow => (
                S::CONFLICT,
                "not every node runs, on software that knows this and at a feature level that says so",
                "bring all nodes to this version, then `catamaran cluster upgrade`; see `catamaran status`",
            ),
            AdminError::Malformed => {
                (S::UNPROCESSABLE_ENTITY, "a part of the command is malformed", "check names, secret and addresses")
            }
        };
        Self::new(status, error, hint)
    }
}

impl ApiError {
    /// What stands against new contents of a zone.
    fn of_zones(error: AdminError) -> Self {
        use StatusCode as S;
        let (status, error, hint) = match error {
            AdminError::ZoneExists => {
                (S::CONFLICT, "the zone exists already", "`catamaran zone replace` shows the difference and applies it")
            }
            AdminError::ZoneUnknown => (S::NOT_FOUND, "there is no such zone", "see `catamaran zone list`"),
            AdminError::ZoneChanged => (S::CONFLICT, "the zone changed since it was compared", "compare again"),
            AdminError::ImportUnderWay => (
                S::CONFLICT,
                "an import of this zone is under way: of another command, or of one whose node died in the middle",
                "try again when that is done; one whose node died is given up after about a minute",
            ),
            AdminError::ImportGivenUp => (
                S::CONFLICT,
                "the cluster heard nothing of this command for a minute and gave it up; the zone is as it was",
                "see `catamaran status` whether this node keeps up, then try again",
            ),
            // Of records that are no zone; all others are told apart by the caller.
            _ => (
                S::UNPROCESSABLE_ENTITY,
                "the records are no zone: it needs one SOA, at its apex, and no owner outside",
                "see `catamaran zone check FILE`",
            ),
        };
        Self::new(status, error, hint)
    }

    /// What stands against a change of keys or rules.
    fn of_rights(error: AdminError) -> Self {
        use StatusCode as S;
        let (status, error, hint) = match error {
            AdminError::KeyExists => (
                S::CONFLICT,
                "a key of that name exists with another secret",
                "remove it first, or choose another name",
            ),
            AdminError::KeyRolling => {
                (S::CONFLICT, "the key has two secrets already", "`catamaran key retire` makes the older one void")
            }
            AdminError::KeyUnknown => (S::NOT_FOUND, "there is no such key", "see `catamaran key list`"),
            AdminError::KeyOfAnotherAlgorithm => (
                S::CONFLICT,
                "the key is of another algorithm",
                "a key keeps the one that `catamaran key list` shows: make another key to change it",
            ),
            // Of rules that others changed; all others are told apart by the caller.
            _ => (
                S::CONFLICT,
                "the rules there are not those of the revision that was expected: another has changed them",
                "`catamaran policy show` prints them with their revision: put your change into those, and expect that",
            ),
        };
        Self::new(status, error, hint)
    }

    /// What stands against a change of the members, of their votes, or of who leads.
    fn of_members(error: AdminError) -> Self {
        use StatusCode as S;
        let (status, error, hint) = match error {
            AdminError::NodeUnknown => (
                S::NOT_FOUND,
                "there is no such node, or it has no vote where one is needed",
                "see `catamaran cluster status`",
            ),
            AdminError::NodeExists => (
                S::CONFLICT,
                "another node has that number, or that address for the others",
                "choose another; see `catamaran cluster status`",
            ),
            AdminError::MembershipBusy => {
                (S::CONFLICT, "another change of membership is not finished", "try again in a few seconds")
            }
            AdminError::MembersBehind => (
                S::CONFLICT,
                "not every node has said that it is ready for it",
                "start the nodes that are down, or remove them; see `catamaran cluster status`",
            ),
            AdminError::RotationBusy => {
                (S::CONFLICT, "the CA is being replaced already", "go on with that: `catamaran cluster rotate --ca`")
            }
            AdminError::LeaderWouldGo => {
                (S::CONFLICT, "the leader cannot remove itself; it is handing over", "try again in a second")
            }
            AdminError::MajorityWouldGo => (
                S::CONFLICT,
                "of the voters that would remain no majority answers: nothing could be decided after it",
                "start a node that is down first, or remove that one",
            ),
            AdminError::NodeVotes => {
                (S::CONFLICT, "the node has a vote, and a learner is needed", "see `catamaran cluster status`")
            }
            AdminError::NodeBehind => (
                S::CONFLICT,
                "a node has not caught up, or does not answer",
                "wait until `catamaran cluster status` shows no lag, or remove the node",
            ),
            AdminError::LeaderStayed => (
                S::GATEWAY_TIMEOUT,
                "the leadership did not move",
                "see whether that node runs and has caught up: `catamaran cluster status`",
            ),
            // Of the last voter; all others are told apart by the caller.
            _ => (S::CONFLICT, "the last voter cannot be removed", "stop the cluster instead"),
        };
        Self::new(status, error, hint)
    }
}

impl From<ReadIndexError> for ApiError {
    fn from(error: ReadIndexError) -> Self {
        let (error, hint) = match error {
            ReadIndexError::TimedOut => (
                "no leader with a majority confirmed in time that this node has everything",
                "leave out consistent=1 to read what this node has; see `catamaran status`",
            ),
            ReadIndexError::Busy => ("too many consistent reads wait", "try again in a second"),
        };
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error, hint)
    }
}

impl From<QueryRejection> for ApiError {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(
            rejection.status(),
            rejection.body_text(),
            "a parameter of the query is missing or wrong; ?zone=example.org. names a zone, ?at=17 a serial",
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
        "see /healthz, /metrics, /v1/status, /v1/zones, /v1/zones/NAME, /v1/zone, /v1/keys, /v1/policy, \
         /v1/policy/check, /v1/policy/keys, /v1/audit, /v1/nodes, /v1/leader, /v1/tokens, /v1/certificates, \
         /v1/ca, \
         /v1/data-key, /v1/backup, /v1/feature-level",
    )
}

pub(super) async fn no_such_method() -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "this path has no such method",
        "use GET to read, POST to add, PUT to replace, DELETE to remove",
    )
}
