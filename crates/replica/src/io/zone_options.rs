//! Options of a zone, and changes of them.

/// How a zone's serial moves when an update changes the zone and does not carry a larger serial itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SerialPolicyOption {
    /// By one.
    #[default]
    Increment,
    /// To the seconds since 1970, or by one where that would not be newer.
    UnixTime,
    /// To `YYYYMMDD00` of the day in UTC, or by one where that would not be newer.
    Date,
}

/// What a zone does when no leader can be heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StaleOption {
    /// Goes on answering.
    #[default]
    Serve,
    /// Answers for SOA EXPIRE seconds, then SERVFAIL.
    Expire,
}

/// Where an update of a zone has to be before its client is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AckOption {
    /// On stable storage at a majority, and visible on the member that answers.
    #[default]
    Majority,
    /// Visible on every member that answers queries, too.
    AllLive,
}

/// What a zone may hold, with whatever key it is written; 0 is no limit. An update may leave what is over a limit
/// as it is, or delete of it, but set no TTL over the limit. Contents that take the place of all keep to the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneLimits {
    /// The longest TTL, in seconds.
    pub ttl_max_s: u32,
    /// Records of one type at a name.
    pub rrset_records_max: u32,
    /// Records of the zone.
    pub records_max: u32,
}

impl ZoneLimits {
    /// Nothing is limited.
    pub const NONE: Self = Self { ttl_max_s: 0, rrset_records_max: 0, records_max: 0 };

    /// Whether nothing is limited.
    #[must_use]
    pub const fn is_none(self) -> bool {
        matches!(self, Self::NONE)
    }
}

/// Replicated options of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneOptions {
    /// How its serial moves.
    pub serial_policy: SerialPolicyOption,
    /// What it does without a leader.
    pub stale: StaleOption,
    /// When its updates are acknowledged.
    pub ack: AckOption,
    /// What it may hold.
    pub limits: ZoneLimits,
}

/// Other limits for a zone: those that are named change, the rest stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitsChange {
    /// The longest TTL, in seconds.
    pub ttl_max_s: Option<u32>,
    /// Records of one type at a name.
    pub rrset_records_max: Option<u32>,
    /// Records of the zone.
    pub records_max: Option<u32>,
}

impl LimitsChange {
    /// All stay.
    pub const NONE: Self = Self { ttl_max_s: None, rrset_records_max: None, records_max: None };

    /// Whether none is named.
    #[must_use]
    pub const fn is_none(self) -> bool {
        matches!(self, Self::NONE)
    }

    /// `limits`, changed.
    #[must_use]
    pub fn of(self, limits: ZoneLimits) -> ZoneLimits {
        ZoneLimits {
            ttl_max_s: self.ttl_max_s.unwrap_or(limits.ttl_max_s),
            rrset_records_max: self.rrset_records_max.unwrap_or(limits.rrset_records_max),
            records_max: self.records_max.unwrap_or(limits.records_max),
        }
    }
}

/// Other options for a zone: those that are named change, the rest stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptionsChange {
    /// How its serial moves.
    pub serial_policy: Option<SerialPolicyOption>,
    /// What it does without a leader.
    pub stale: Option<StaleOption>,
    /// When its updates are acknowledged.
    pub ack: Option<AckOption>,
    /// What it may hold.
    pub limits: LimitsChange,
}

impl OptionsChange {
    /// `options`, changed.
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
    /// All of them; of limits those that there are, which members of any software can read where there is none.
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
