//! Applies committed entries one by one, publishes once per batch, then reports the outcomes.

use super::Replica;
use crate::audit::record_of;
use crate::command::Answer;
use crate::context::Context;
use crate::entry::{Body, Entry, SettingsChange, SettingsEntry};
use crate::io::{AuditRecord, FatalReason, Output};
use crate::machine::{Applied, SettingsEffect};
use crate::propose::Origin;
use crate::raft::{decode_conf_change, is_conf_change};
use raft::eraftpb::Entry as LogEntry;

impl Replica {
    /// Applies entries that are committed and durable here.
    pub(crate) fn apply_committed(&mut self, entries: Vec<LogEntry>) {
        let Some(last) = entries.last().map(|entry| entry.index) else { return };
        // After the entry that broke this state, the remaining entries are left to the next process.
        if self.machine.is_broken() {
            return;
        }
        let mut results = Vec::with_capacity(entries.len());
        let (mut effect, mut audited) = (SettingsEffect::default(), Vec::new());
        let mut to_settle = Vec::new();
        for entry in entries {
            let index = entry.index;
            let Some(mut applied) = self.apply_entry(&entry, &mut audited, &mut to_settle) else { return };
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
            self.outputs.push(Output::Audited { records: audited });
        }
        self.outputs.push(Output::Published { index: last });
        self.driver.applied(last);
        self.driver.log_mut().set_applied(last);
        self.report_effect(effect);
        let is_update = |(_, applied): &(u64, Applied)| matches!(applied, Applied::Update { .. });
        let has_updates = results.iter().any(is_update);
        let context = Context::new(&self.local, &self.driver, &self.machine);
        self.rotation.note_shown(&context, &self.progress, &mut self.outputs, last, has_updates);
        // These answers equal the leader's.
        let (requests, mut shared) = self.requests();
        to_settle.into_iter().for_each(|(attempt, answer)| requests.handle_answer(&mut shared, attempt, answer));
        requests.settle_applied(&mut shared, results);
        self.answer_reads();
    }

    /// `None` if this replica cannot continue.
    fn apply_entry(
        &mut self,
        entry: &LogEntry,
        audited: &mut Vec<AuditRecord>,
        to_settle: &mut Vec<(u64, Answer)>,
    ) -> Option<Applied> {
        let (index, term) = (entry.index, entry.term);
        if is_conf_change(entry) {
            // Raft wrote this entry. A change that does not fit the configuration changes nothing, on every replica
            // alike.
            if let Some(change) = decode_conf_change(&entry.data) {
                self.driver.apply_conf_change(&change);
            }
            self.machine.apply_empty(index, term);
            // A removed member is out of the configuration from here on.
            return Some(Applied::Settings(SettingsEffect { members: true, ..SettingsEffect::default() }));
        }
        if entry.data.is_empty() {
            self.machine.apply_empty(index, term);
            return Some(Applied::Other);
        }
        match Entry::decode(&entry.data) {
            Ok(decoded) if decoded.group == self.local.config.group && !self.is_above_own(&decoded) => {
                let prepared = self.head.take_applied(index, term);
                let Some(applied) = self.machine.apply_guarded(index, term, &decoded, prepared) else {
                    self.end_at_once(FatalReason::ApplyPanicked { index });
                    return None;
                };
                audited.extend(record_of(index, &decoded, &applied));
                to_settle
                    .extend(self.own_attempt(entry, &decoded).filter(|_| !matches!(applied, Applied::Mismatch { .. })));
                Some(applied)
            }
            _ if planted!(UnknownEntrySkipped) => {
                self.machine.apply_empty(index, term);
                Some(Applied::Other)
            }
            // Newer software wrote the entry. A replica that guessed its meaning would differ from the others.
            _ => {
                self.local.lifecycle.end(FatalReason::EntryUnknown, &mut self.outputs);
                None
            }
        }
    }

    /// The attempt of this replica that the entry was made for, and the leader's answer to it.
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

    /// The cluster is raised to a level that this software does not support, so later entries may be unreadable here.
    fn is_above_own(&self, entry: &Entry) -> bool {
        let Body::Settings(SettingsEntry { change: SettingsChange::FeatureLevel { level }, .. }) = entry.body else {
            return false;
        };
        level > self.local.config.feature_level
    }

    pub(crate) fn report_effect(&mut self, mut effect: SettingsEffect) {
        if effect.all_keys {
            self.outputs.push(Output::KeysChanged { keys: None });
        } else if !effect.keys.is_empty() {
            effect.keys.sort_unstable();
            effect.keys.dedup();
            self.outputs.push(Output::KeysChanged { keys: Some(effect.keys) });
        }
        if effect.policies {
            self.outputs.push(Output::PoliciesChanged);
        }
        if effect.trust {
            self.outputs.push(Output::TrustChanged);
        }
        if !effect.zones.is_empty() {
            self.outputs.push(Output::ZonesChanged { zones: Some(effect.zones) });
        }
        if effect.members {
            let settings = &self.machine.settings;
            self.seen_forwards.retain(|id| settings.is_member(id));
            let members = settings.members();
            self.outputs.push(Output::PeersChanged { members });
            self.forget_confirmed();
            self.note_removal();
        }
    }
}
