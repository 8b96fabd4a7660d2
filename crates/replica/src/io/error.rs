//! Why something that was asked of a replica was not done.

/// Why an [`AdminCommand`](super::AdminCommand) was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminError {
    /// The zone is there already.
    ZoneExists,
    /// No such zone.
    ZoneUnknown,
    /// The contents changed since the caller read them.
    ZoneChanged,
    /// The records are no zone: no SOA at the apex, two of them, or an owner outside. Also what our own code panics at.
    ZoneInvalid,
    /// A key of that name is there already, with another secret.
    KeyExists,
    /// The key has two secrets already.
    KeyRolling,
    /// The secret is for another algorithm than that of the key.
    KeyOfAnotherAlgorithm,
    /// The rules are others than those that the caller started from.
    PolicyChanged,
    /// No such key.
    KeyUnknown,
    /// No such member.
    NodeUnknown,
    /// The node number is in use by a member.
    NodeExists,
    /// Not every member has said that it is ready for it.
    MembersBehind,
    /// A CA or a data key is being replaced, by other steps than this one.
    RotationBusy,
    /// The data key has just been replaced, and the member that was asked does not know yet.
    DataKeyOld,
    /// Another change of membership is not finished yet.
    MembershipBusy,
    /// The leader would remove itself; it hands over, ask again.
    LeaderWouldGo,
    /// The last voter cannot be removed.
    LastVoter,
    /// Of the voters that would remain no majority answers: nothing could be decided after it.
    MajorityWouldGo,
    /// The member has a vote, and a learner is needed.
    NodeVotes,
    /// The learner has not caught up, or does not answer.
    NodeBehind,
    /// The leadership did not move within the time limit.
    LeaderStayed,
    /// The state of the replica that was asked is not the majority's.
    Fenced,
    /// The token is unknown, used, revoked or expired.
    TokenInvalid,
    /// The command is larger than a limit of `limits.rs` allows.
    TooLarge,
    /// Too many commands wait.
    Busy,
    /// Another import is under way for the zone; the node that drove it may be gone, and it is given up then.
    ImportUnderWay,
    /// The import stood still for too long and was given up; nothing of it was done.
    ImportGivenUp,
    /// No leader took it within the time limit; it was certainly not done.
    NotProposed,
    /// It may or may not have been done.
    Unknown,
    /// Nonce, secret or address do not have the form they need.
    Malformed,
    /// Not every member runs, or runs software that knows it; or they do, and the feature level was not raised yet.
    LevelTooLow,
}

/// Why a [`Input::ReadIndex`](super::Input::ReadIndex) was not answered with an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadIndexError {
    /// No leader confirmed it within the time limit.
    TimedOut,
    /// Too many wait.
    Busy,
}
