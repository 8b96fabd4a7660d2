//! From committed entries to what clients see: applied one by one, published once a batch, then told.

mod audit;

pub use audit::AuditNames;
pub(crate) use audit::record_of;

use crate::command::Answer;
use crate::entry::{Body, Entry, SettingsChange, SettingsEntry};
use crate::io::{AuditRecord, FatalReason, Output};
use crate::machine::{Applied, SettingsEffect};
use crate::propose::Origin;
use crate::raft::{decode_conf_change, is_conf_change};
use crate::replica::Replica;
use raft::eraftpb::Entry as LogEntry;

impl Replica {
    /// Applies what raft says is committed and durable here.
    pub(crate) fn apply_committed(&mut self, entries: Vec<LogEntry>) {
        let Some(last) = entries.last().map(|entry| entry.index) else { return };
        // What comes behind an entry at which this state stopped is for the process after this one.
        if self.machine.is_broken() {
            return;
        }
        let mut results = Vec::with_capacity(entries.len());
        let (mut effect, mut audited) = (SettingsEffect::default(), Vec::new());
        let mut asked = Vec::new();
        for entry in entries {
            let index = entry.index;
            let Some(mut applied) = self.apply_entry(&entry, &mut audited, &mut asked) else { return };
            match &mut applied {
                Applied::Full => return self.end_at_once(FatalReason::MemoryFull),
                Applied::Settings(changed) => {
                    effect.keys.append(&mut changed.keys);
                    effect.all_keys |= changed.all_keys;
                    effect.policies |= changed.policies;
                    effect.zones.append(&mut changed.zones);
                    effect.members |= changed.members;
                    effect.trust |= changed.trust;
                }
                _ => {}
            }
            results.push((index, applied));
        }
        self.machine.publish();
        if !audited.is_empty() {
            self.out.push_back(Output::Audited { records: audited });
        }
        self.out.push_back(Output::Published { index: last });
        self.driver.applied(last);
        self.driver.log_mut().set_applied(last);
        self.tell_effect(effect);
        let is_update = |(_, applied): &(u64, Applied)| matches!(applied, Applied::Update { .. });
        self.note_shown(last, results.iter().any(is_update));
        // As the leader has said, or would have.
        asked.into_iter().for_each(|(attempt, answer)| self.handle_answer(attempt, answer));
        self.settle_applied(results);
        self.answer_reads();
    }

    /// `None` when this replica cannot go on.
    fn apply_entry(
        &mut self,
        entry: &LogEntry,
        audited: &mut Vec<AuditRecord>,
        asked: &mut Vec<(u64, Answer)>,
    ) -> Option<Applied> {
        let (index, term) = (entry.index, entry.term);
        if is_conf_change(entry) {
            // What raft wrote it reads; what does not fit the configuration changes nothing, everywhere alike.
            if let Some(change) = decode_conf_change(&entry.data) {
                self.driver.apply_conf_change(&change);
            }
            self.machine.apply_empty(index, term);
            // Who was removed is out by this.
            return Some(Applied::Settings(SettingsEffect { members: true, ..SettingsEffect::default() }));
        }
        if entry.data.is_empty() {
            self.machine.apply_empty(index, term);
            return Some(Applied::Other);
        }
        match Entry::decode(&entry.data) {
            Ok(decoded) if decoded.group == self.config.group && !self.is_above_own(&decoded) => {
                let prepared = self.head.take_applied(index, term);
                let Some(applied) = self.machine.apply_guarded(index, term, &decoded, prepared) else {
                    self.end_at_once(FatalReason::ApplyPanicked { index });
                    return None;
                };
                audited.extend(record_of(index, &decoded, &applied));
                asked.extend(self.own_attempt(entry, &decoded).filter(|_| !matches!(applied, Applied::Misfit { .. })));
                Some(applied)
            }
            // Newer software wrote it: a replica that guessed would differ from those that know.
            _ => {
                self.fatal(FatalReason::EntryUnknown);
                None
            }
        }
    }

    /// The attempt of this replica that an entry was made for, and what its leader says of it.
    fn own_attempt(&self, entry: &LogEntry, decoded: &Entry) -> Option<(u64, Answer)> {
        let origin = Origin::of_entry(&entry.context).filter(|origin| origin.peer == Some(self.driver.id()))?;
        let (index, term) = (entry.index, entry.term);
        let answer = match &decoded.body {
            &Body::Settings(SettingsEntry { change: SettingsChange::MemberAdd { id, .. }, .. }) => {
                Answer::Joined { index, term, id }
            }
            _ => Answer::Proposed { index, term },
        };
        Some((origin.token, answer))
    }

    /// The others go where this software cannot follow: what they write next it may not know.
    fn is_above_own(&self, entry: &Entry) -> bool {
        let Body::Settings(SettingsEntry { change: SettingsChange::FeatureLevel { level }, .. }) = entry.body else {
            return false;
        };
        level > self.config.feature_level
    }

    pub(crate) fn tell_effect(&mut self, mut effect: SettingsEffect) {
        if effect.all_keys {
            self.out.push_back(Output::KeysChanged { keys: None });
        } else if !effect.keys.is_empty() {
            effect.keys.sort_unstable();
            effect.keys.dedup();
            self.out.push_back(Output::KeysChanged { keys: Some(effect.keys) });
        }
        if effect.policies {
            self.out.push_back(Output::PoliciesChanged);
        }
        if effect.trust {
            self.out.push_back(Output::TrustChanged);
        }
        if !effect.zones.is_empty() {
            self.out.push_back(Output::ZonesChanged { zones: Some(effect.zones) });
        }
        if effect.members {
            let settings = &self.machine.settings;
            self.seen_forwards.retain(|id| settings.is_member(id));
            let members = settings.members();
            self.out.push_back(Output::PeersChanged { members });
            self.forget_confirmed();
            self.note_removal();
        }
    }
}
