//! What a replica shows to its shell.

use super::Replica;
use crate::context::Context;
use crate::io::{AckOption, MemoryFigures, NodeId, Serving, SuspectedLoss};
use crate::state::ca_context;
use crate::trust::{Ca, Trust};
use zone::ZoneId;

impl Replica {
    pub(crate) const fn context(&self) -> Context<'_> {
        Context::new(&self.local, &self.driver, &self.machine)
    }

    /// The current time in milliseconds since 1970. It comes from this machine's clock, unless that clock is far from
    /// the median of the members' clocks.
    #[must_use]
    pub const fn cluster_wall_ms(&self) -> u64 {
        self.clocks.cluster_wall_ms(self.local.now)
    }

    /// This machine's wall clock at the last input.
    #[must_use]
    pub const fn own_wall_ms(&self) -> u64 {
        self.local.now.wall_ms
    }

    /// Milliseconds by which a member's clock is ahead of the median of all clocks. With two clocks it is the
    /// difference from this member's clock. `None` if the member has not reported recently.
    #[must_use]
    pub fn clock_ahead_ms(&self, id: NodeId) -> Option<i64> {
        self.clocks.ahead_ms(&self.context(), id)
    }

    /// The members whose clocks are too far from the cluster's time, and the milliseconds by which each is ahead. A
    /// leader lists all of them. Other members list only themselves.
    #[must_use]
    pub fn wrong_clocks(&self) -> Vec<(NodeId, i64)> {
        self.clocks.wrong(&self.context())
    }

    /// Whether a query for a zone is answered when the clock shows this.
    #[must_use]
    pub fn may_answer(&self, zone: &ZoneId, monotonic_ms: u64) -> bool {
        let needs_lease = self.zone_options(zone).is_some_and(|options| options.ack == AckOption::AllLive);
        self.serving() != Serving::No && (!needs_lease || self.rotation.is_leased(monotonic_ms))
    }

    /// Milliseconds since a leader last confirmed that nothing newer is committed than what is applied here.
    #[must_use]
    pub fn staleness_ms(&self) -> u64 {
        self.progress.staleness_ms(&self.context())
    }

    /// What the log may lack, as known at the start. The shell must store it before it executes the first disk job,
    /// and keep it for the next start until [`Output::LossResolved`](crate::io::Output::LossResolved).
    #[must_use]
    pub const fn suspected_loss(&self) -> Option<SuspectedLoss> {
        self.log_loss.stored()
    }

    /// The other voters that have not yet reported the end of their log.
    #[must_use]
    pub fn unreported_voters(&self) -> Vec<NodeId> {
        self.log_loss.unreported_voters(&self.driver)
    }

    /// The trust between members. Read again after [`Output::TrustChanged`](crate::io::Output::TrustChanged).
    #[must_use]
    pub fn trust(&self) -> Trust {
        let settings = &self.machine.settings;
        let trust = settings.trust();
        let data_key = &self.local.config.data_key;
        let opens = !planted!(OnlyLeaderIssues) || self.driver.is_leader();
        let cas = trust.cas().iter().map(|(&number, ca)| Ca {
            number,
            certificate: ca.certificate.clone(),
            key: data_key.open(&ca.key, &ca_context(number)).filter(|_| opens).map(|key| key.to_vec()),
        });
        let ids = || settings.members().into_iter().map(|member| member.id);
        let wanted = trust.pins().wanted().unwrap_or(0);
        let unseen_by = ids().filter(|&id| trust.pins().seen_by(id) < wanted);
        let next_seen = ids().filter(|&id| trust.pins().is_next_seen(id, ids()));
        Trust {
            feature_level: settings.feature_level(),
            members: settings.members(),
            data_key: settings.data_key().current,
            next_data_key: settings.data_key().next,
            data_key_is_due: settings.data_key().is_due,
            is_sealed_before: settings.sealed_before().next().is_some(),
            cas: cas.collect(),
            issuer: trust.issuer(),
            renewal: trust.renewal(),
            time_ms: self.machine.time_ms,
            credentials: trust.credentials().clone(),
            pins: trust.pins().by_member().collect(),
            pins_wanted: trust.pins().wanted(),
            pins_unseen_by: unseen_by.collect(),
            next_pins_seen: next_seen.collect(),
            join_tokens: settings.open_tokens().collect(),
        }
    }

    /// Memory use and limit of this member's zones.
    #[must_use]
    pub fn memory_figures(&self) -> MemoryFigures {
        self.memory.figures(&self.machine)
    }

    /// Returns free memory of the zones to the operating system, if there is much of it. Called when the machine is
    /// idle.
    pub fn release_memory(&mut self) {
        self.machine.release_memory();
    }
}
