//! Zone options and changes of them.

pub use crate::update::serial::SerialPolicyOption;
use policy::ZoneLimits;

/// What a zone does when the member knows no leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StaleOption {
    /// Continues to answer.
    #[default]
    Serve,
    /// Answers for SOA EXPIRE seconds, then sends SERVFAIL.
    Expire,
}

/// Where an update must be stored before the client gets its response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AckOption {
    /// On stable storage at a majority, and visible on the member that responds.
    #[default]
    Majority,
    /// Additionally visible on every member that answers queries.
    AllLive,
}

/// Replicated options of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneOptions {
    /// How the serial changes.
    pub serial_policy: SerialPolicyOption,
    /// What the zone does without a leader.
    pub stale: StaleOption,
    /// When updates are acknowledged.
    pub ack: AckOption,
    /// Limits of the zone's contents.
    pub limits: ZoneLimits,
}

/// A change of a zone's limits. `None` leaves a limit as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitsChange {
    /// Largest TTL in seconds.
    pub ttl_max_s: Option<u32>,
    /// Largest number of records of one type at a name.
    pub rrset_records_max: Option<u32>,
    /// Largest number of records in the zone.
    pub records_max: Option<u32>,
}

impl LimitsChange {
    /// Changes no limit.
    pub const NONE: Self = Self { ttl_max_s: None, rrset_records_max: None, records_max: None };

    /// Whether the change sets no limit.
    #[must_use]
    pub const fn is_none(self) -> bool {
        matches!(self, Self::NONE)
    }

    /// Returns `limits` with this change applied.
    #[must_use]
    pub fn of(self, limits: ZoneLimits) -> ZoneLimits {
        ZoneLimits {
            ttl_max_s: self.ttl_max_s.unwrap_or(limits.ttl_max_s),
            rrset_records_max: self.rrset_records_max.unwrap_or(limits.rrset_records_max),
            records_max: self.records_max.unwrap_or(limits.records_max),
        }
    }
}

/// A change of a zone's options. `None` leaves an option as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptionsChange {
    /// How the serial changes.
    pub serial_policy: Option<SerialPolicyOption>,
    /// What the zone does without a leader.
    pub stale: Option<StaleOption>,
    /// When updates are acknowledged.
    pub ack: Option<AckOption>,
    /// Limits of the zone's contents.
    pub limits: LimitsChange,
}

impl OptionsChange {
    /// Returns `options` with this change applied.
    #[must_use]
    pub fn of(self, options: ZoneOptions) -> ZoneOptions {
        ZoneOptions {
            serial_policy: self.serial_policy.unwrap_or(options.serial_policy),
            stale: self.stale.unwrap_or(options.stale),
            ack: self.ack.unwrap_or(options.ack),
            limits: self.limits.of(options.limits),
        }
    }
}

impl From<ZoneOptions> for OptionsChange {
    /// Sets every option, but only the limits that exist. Members with older software can read the change if there are
    /// none.
    fn from(options: ZoneOptions) -> Self {
        let ZoneOptions { serial_policy, stale, ack, limits } = options;
        let named = |limit: u32| (limit > 0).then_some(limit);
        let limits = LimitsChange {
            ttl_max_s: named(limits.ttl_max_s),
            rrset_records_max: named(limits.rrset_records_max),
            records_max: named(limits.records_max),
        };
        Self { serial_policy: Some(serial_policy), stale: Some(stale), ack: Some(ack), limits }
    }
}
