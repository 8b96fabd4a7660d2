//! Errors of requests to a replica.

/// Why an [`AdminCommand`](super::AdminCommand) was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminError {
    /// The zone exists.
    ZoneExists,
    /// No such zone.
    ZoneUnknown,
    /// The contents changed since the caller read them.
    ZoneChanged,
    /// The records form no zone: no SOA at the apex, two of them, or an owner outside the zone. Also the answer if
    /// this software panicked on the records.
    ZoneInvalid,
    /// A key of that name exists with another secret.
    KeyExists,
    /// The key already has two secrets.
    KeyRolling,
    /// The secret is for another algorithm than the key's.
    KeyOfAnotherAlgorithm,
    /// The rules changed since the caller read them.
    PolicyChanged,
    /// No such key.
    KeyUnknown,
    /// No such member.
    NodeUnknown,
    /// The node number is in use by a member.
    NodeExists,
    /// Some member has not reported that it is ready.
    MembersBehind,
    /// A CA or a data key is being replaced, and this step belongs to another replacement.
    RotationBusy,
    /// The data key has just been replaced, and the member that received the command does not know it yet.
    DataKeyOld,
    /// Another change of membership is not finished yet.
    MembershipBusy,
    /// The leader would remove itself. It hands over first; repeat the command.
    LeaderWouldGo,
    /// The last voter cannot be removed.
    LastVoter,
    /// No majority of the remaining voters answers, so nothing could be decided after the change.
    MajorityWouldGo,
    /// The member has a vote, but a learner is needed.
    NodeVotes,
    /// The learner has not caught up, or does not answer.
    NodeBehind,
    /// The leadership did not move within the time limit.
    LeaderStayed,
    /// The state of the replica that received the command differs from the majority's.
    Fenced,
    /// The token is unknown, used, revoked or expired.
    TokenInvalid,
    /// The command is larger than a limit of `limits.rs` allows.
    TooLarge,
    /// Too many commands are waiting.
    Busy,
    /// Another import for the zone is running. If its node is gone, it is abandoned after a time limit.
    ImportUnderWay,
    /// The import made no progress for too long and was abandoned; nothing of it was applied.
    ImportGivenUp,
    /// No leader accepted it within the time limit; it was certainly not done.
    NotProposed,
    /// It may or may not have been done.
    Unknown,
    /// A nonce, a secret or an address is malformed.
    Malformed,
    /// Some member does not run or runs older software, or the feature level was not raised yet.
    LevelTooLow,
}

/// Why a [`Input::ReadIndex`](super::Input::ReadIndex) got no index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadIndexError {
    /// No leader confirmed it within the time limit.
    TimedOut,
    /// Too many reads are waiting.
    Busy,
}
