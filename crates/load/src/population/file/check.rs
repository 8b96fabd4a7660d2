//! Checks a population for invalid values.

use super::{Group, Population};
use crate::limits::{CLIENTS_MAX, GROUPS_MAX};

impl Population {
    /// Describes the first invalid value, if any.
    pub(super) fn problem(&self) -> Option<String> {
        if self.clients.is_empty() || self.clients.len() > GROUPS_MAX {
            return Some(format!("there must be 1 to {GROUPS_MAX} groups of [[clients]]"));
        }
        let count: usize = self.clients.iter().map(|group| group.count).fold(0, usize::saturating_add);
        if count == 0 || count > CLIENTS_MAX {
            return Some(format!("{count} clients; there must be 1 to {CLIENTS_MAX}"));
        }
        self.clients.iter().enumerate().find_map(|(index, group)| {
            let name = if group.name.is_empty() { format!("{}", index + 1) } else { group.name.clone() };
            group.problem().map(|problem| format!("group {name} of [[clients]]: {problem}"))
        })
    }
}

impl Group {
    fn problem(&self) -> Option<String> {
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        let own = &self.connections;
        for (key, share) in [("reuse", own.reuse), ("resumption", own.resumption), ("early_data", own.early_data)] {
            if !is_share(share) {
                return Some(format!("{key} = {share} is not a share; write 0 to 1"));
            }
        }
        let is_positive = |value: f64| value > 0.0 && value.is_finite();
        if own.in_flight_max == 0 || own.queries_max == Some(0) {
            return Some("in_flight_max and queries_max are 1 or more".into());
        }
        if own.idle_timeout_s.is_some_and(|idle| !(is_positive(idle) && idle < 1e6)) {
            return Some("idle_timeout_s is above zero, and below a million".into());
        }
        if self.bursts.is_some_and(|bursts| !is_positive(bursts.on_s) || !(0.0..1e6).contains(&bursts.off_s)) {
            return Some("bursts have on_s above zero and off_s of zero or more".into());
        }
        if self.active.is_some_and(|active| {
            !(0.0..1e6).contains(&active.start_s)
                || !(0.0..1e6).contains(&active.ramp_s)
                || active.stop_s.is_some_and(|stop| stop <= active.start_s)
        }) {
            return Some("active has start_s of zero or more, and stop_s after it".into());
        }
        for (what, shares) in [
            ("transports", self.transports.values().copied().collect::<Vec<_>>()),
            ("servers", self.servers.values().copied().collect()),
        ] {
            let is_empty = shares.is_empty() && what == "servers";
            if !is_empty
                && (shares.iter().any(|share| !(0.0..1e9).contains(share)) || shares.iter().sum::<f64>() <= 0.0)
            {
                return Some(format!("{what} need shares above zero, such as {{ udp = 0.8, dot = 0.2 }}"));
            }
        }
        match (&self.rate, &self.think) {
            (Some(rate), None) => rate.over.problem().map(|problem| format!("rate: {problem}")),
            (None, Some(think)) => think.problem().map(|problem| format!("think: {problem}")),
            (Some(_), Some(_)) => Some("it has both a rate and a think time; write one".into()),
            (None, None) => Some("it has neither a rate nor a think time".into()),
        }
    }
}
