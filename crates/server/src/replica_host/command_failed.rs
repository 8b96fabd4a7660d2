//! Why a command of an administrator failed, in words.

use axum::http::StatusCode;
use process::problem::{DATA_KEY_CHANGES_WIRE, NO_LEADER, OUTCOME_UNKNOWN_WIRE, TOKEN_REFUSED};
use replica::io::AdminError;

/// A failed command: the HTTP status of its response, the error, and what to do.
#[derive(Debug)]
pub(crate) struct CommandFailed {
    pub(crate) status: StatusCode,
    pub(crate) error: &'static str,
    pub(crate) hint: &'static str,
}

impl CommandFailed {
    const fn new(status: StatusCode, error: &'static str, hint: &'static str) -> Self {
        Self { status, error, hint }
    }
}

impl From<AdminError> for CommandFailed {
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
                "this node's state differs from that of the majority",
                "use another node, and keep the directory of this node for a bug report",
            ),
            AdminError::TokenInvalid => (S::FORBIDDEN, TOKEN_REFUSED, "print a new token with `catamaran cluster add`"),
            AdminError::TooLarge => (
                S::PAYLOAD_TOO_LARGE,
                "the request is too large, or the zones of a node would exceed its memory limit",
                "see zone memory in `catamaran cluster status`; remove records or zones, or raise \
                 zones.memory_bytes_max on that node",
            ),
            AdminError::DataKeyOld => (S::SERVICE_UNAVAILABLE, DATA_KEY_CHANGES_WIRE, "try again in a second"),
            AdminError::Busy => (S::SERVICE_UNAVAILABLE, "too many pending requests", "try again in a second"),
            AdminError::NotProposed => {
                (S::SERVICE_UNAVAILABLE, NO_LEADER, "more than half of the nodes must run; see `catamaran status`")
            }
            AdminError::Unknown => {
                (S::GATEWAY_TIMEOUT, OUTCOME_UNKNOWN_WIRE, "check whether the change was made before you try again")
            }
            AdminError::LevelTooLow => (
                S::CONFLICT,
                "the feature level is too low, or not all nodes run a version that supports this",
                "run this version on all nodes, then `catamaran cluster upgrade`; see `catamaran status`",
            ),
            AdminError::Malformed => {
                (S::UNPROCESSABLE_ENTITY, "the request is malformed", "check names, secret and addresses")
            }
        };
        Self::new(status, error, hint)
    }
}

impl CommandFailed {
    /// Errors of changes of zones.
    fn of_zones(error: AdminError) -> Self {
        use StatusCode as S;
        let (status, error, hint) = match error {
            AdminError::ZoneExists => {
                (S::CONFLICT, "the zone already exists", "`catamaran zone replace` shows the difference and applies it")
            }
            AdminError::ZoneUnknown => (S::NOT_FOUND, "there is no such zone", "see `catamaran zone list`"),
            AdminError::ZoneChanged => {
                (S::CONFLICT, "the zone has changed since the comparison", "run the command again")
            }
            AdminError::ImportUnderWay => (
                S::CONFLICT,
                "another import of this zone is running",
                "try again when it has finished; if its node has failed, it is aborted after about a minute",
            ),
            AdminError::ImportGivenUp => (
                S::CONFLICT,
                "the import made no progress for a minute and was aborted; the zone did not change",
                "check in `catamaran status` whether this node lags, then try again",
            ),
            // `ZoneInvalid`: the caller passes no other errors.
            _ => (
                S::UNPROCESSABLE_ENTITY,
                "the records are not a zone: it needs one SOA, at its apex, and no names outside the zone",
                "see `catamaran zone check FILE`",
            ),
        };
        Self::new(status, error, hint)
    }

    /// Errors of changes of keys and rules.
    fn of_rights(error: AdminError) -> Self {
        use StatusCode as S;
        let (status, error, hint) = match error {
            AdminError::KeyExists => (
                S::CONFLICT,
                "a key with this name and another secret already exists",
                "remove it first, or choose another name",
            ),
            AdminError::KeyRolling => {
                (S::CONFLICT, "the key already has two secrets", "`catamaran key retire` invalidates the older one")
            }
            AdminError::KeyUnknown => (S::NOT_FOUND, "there is no such key", "see `catamaran key list`"),
            AdminError::KeyOfAnotherAlgorithm => (
                S::CONFLICT,
                "the key has another algorithm",
                "see `catamaran key list`; to change the algorithm, create another key",
            ),
            // `PolicyChanged`: the caller passes no other errors.
            _ => (
                S::CONFLICT,
                "the rules have changed: their revision is not the expected one",
                "`catamaran policy show` prints the rules and their revision; apply your change to those",
            ),
        };
        Self::new(status, error, hint)
    }

    /// Errors of changes of members, votes and leadership.
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
                "another node has this number or address",
                "choose another one; see `catamaran cluster status`",
            ),
            AdminError::MembershipBusy => {
                (S::CONFLICT, "another membership change is not finished", "try again in a few seconds")
            }
            AdminError::MembersBehind => (
                S::CONFLICT,
                "not every node has reported that it is ready",
                "start the nodes that are down, or remove them; see `catamaran cluster status`",
            ),
            AdminError::RotationBusy => {
                (S::CONFLICT, "the CA is already being replaced", "continue with `catamaran cluster rotate --ca`")
            }
            AdminError::LeaderWouldGo => (
                S::CONFLICT,
                "the leader cannot remove itself; it is handing over the leadership",
                "try again in a second",
            ),
            AdminError::MajorityWouldGo => (
                S::CONFLICT,
                "no majority answers among the voters that would remain, so the cluster would accept no more changes",
                "first start a node that is down, or remove that node",
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
                "the leadership was not transferred",
                "check in `catamaran cluster status` whether that node runs and has caught up",
            ),
            // `LastVoter`: the caller passes no other errors.
            _ => (S::CONFLICT, "the last voter cannot be removed", "stop the cluster instead"),
        };
        Self::new(status, error, hint)
    }
}
