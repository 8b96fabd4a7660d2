//! Administrators' commands, at the replica that took them: checked, cut into steps, each step a command for the
//! leader.

mod contents;
mod difference;
mod idle;
mod import;

use crate::command::Command;
use crate::entry::{DataKeyChange, PinChange, Resealed, SettingsChange, TOKEN_REVOKED, TrustChange};
use crate::forward::Purpose;
use crate::io::{AckOption, AdminCommand, AdminError, AdminReply, NodeId, OptionsChange, Output, TrustCommand};
use crate::limits::{
    ADDRESS_BYTES_MAX, ADMIN_WAIT_MS, ADMIN_WAITING_MAX, ALL_LIVE_WAIT_MS, CA_KEY_BYTES_MAX, CERTIFICATE_BYTES_MAX,
    FORWARD_AGAIN_MS, RESEALED_MAX, SECRET_BYTES_MAX, TOKEN_LIFE_MS_MAX, TRANSFER_WAIT_MS,
};
use crate::replica::Replica;
use crate::secrets::Sealed;
use crate::state::{ca_context, secret_context};
pub use contents::{BrokenLimit, Contents, Replacement, broken_limit};
use idle::StalledImports;
use import::Import;
use std::collections::{BTreeMap, BTreeSet};
use tsig::KeyAlgorithm;
use wire::name::Name;
use zeroize::Zeroizing;
use zone::ZoneId;

/// A step of an administrator's command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdminStep {
    request_id: u64,
    kind: StepKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepKind {
    /// The only step.
    Single,
    /// The command is done when a state is reached, such as a new Raft configuration or leader.
    Until(AwaitedState),
    /// Changes nothing, and waits for the members for a limited time.
    WaitAllLive,
    ImportBegin,
    ImportChunk,
    ImportCommit,
}

/// The state that must be reached before a command is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AwaitedState {
    /// A member is out of raft's configuration.
    Out(NodeId),
    /// A member votes, or does not.
    Votes(NodeId, bool),
    /// A member goes, and another votes.
    Replaced { gone: NodeId, new: NodeId },
    /// This member leads.
    Leads(NodeId),
    /// Another member leads than this one.
    LedByAnother(NodeId),
    /// Every member knows which zones have `ack = all-live`.
    AllLiveKnown,
}

impl AwaitedState {
    const fn is_of_leader(self) -> bool {
        matches!(self, Self::Leads(_) | Self::LedByAnother(_))
    }

    /// The error if the state is not reached in time.
    const fn failure(self) -> AdminError {
        match self {
            Self::Leads(_) | Self::LedByAnother(_) => AdminError::LeaderStayed,
            Self::AllLiveKnown => AdminError::NodeBehind,
            Self::Out(_) | Self::Votes(..) | Self::Replaced { .. } => AdminError::Unknown,
        }
    }
}

/// The request id of steps without a waiting client. The shell numbers its requests from zero.
const NO_REQUEST: u64 = u64::MAX;

/// Commands in progress.
#[derive(Debug, Default)]
pub(crate) struct AdminJobs {
    /// Commands of one step, by request.
    single: BTreeSet<u64>,
    imports: BTreeMap<u64, Import>,
    /// Imports of the cluster that make no progress.
    idle: StalledImports,
    /// Committed commands whose state is not reached yet, with deadlines.
    awaited_states: BTreeMap<u64, (AwaitedState, u64)>,
}

/// What a step led to: whether it changed nothing, and the id of a new member.
pub(crate) type StepResult = Result<(bool, Option<NodeId>), AdminError>;

impl Replica {
    /// Takes a command.
    pub(crate) fn handle_admin(&mut self, request_id: u64, command: AdminCommand) {
        let jobs = &self.admin;
        let busy = jobs.single.len() + jobs.imports.len() + jobs.awaited_states.len() + self.transfers.waiters()
            >= ADMIN_WAITING_MAX;
        if busy || self.is_stopping() {
            return self.admin_done(request_id, Err(AdminError::Busy));
        }
        if let Err(error) = self.start_admin(request_id, command) {
            self.admin_done(request_id, error);
        }
    }

    /// `Err` is an answer that needs no step.
    fn start_admin(&mut self, request_id: u64, command: AdminCommand) -> Result<(), Result<AdminReply, AdminError>> {
        let command = match command {
            AdminCommand::AddZone { zone, options, contents } => {
                return self.start_add_zone(request_id, &zone, options, contents);
            }
            AdminCommand::ReplaceZone { zone, replacement } => {
                return self.start_replace_zone(request_id, &zone, replacement);
            }
            AdminCommand::SetZoneOptions { zone, change } => {
                let is_waited_for = change.ack == Some(AckOption::AllLive);
                let kind = if is_waited_for { StepKind::Until(AwaitedState::AllLiveKnown) } else { StepKind::Single };
                let command = self.options_command(zone, change)?;
                self.start_step(AdminStep { request_id, kind }, command);
                return Ok(());
            }
            AdminCommand::RemoveZone { zone } => Command::Settings(SettingsChange::ZoneRemove { zone }),
            AdminCommand::AddKey { .. }
            | AdminCommand::RollKey { .. }
            | AdminCommand::RetireKey { .. }
            | AdminCommand::RemoveKey { .. }
            | AdminCommand::SetPolicy { .. }
            | AdminCommand::Grant { .. }
            | AdminCommand::Revoke { .. } => self.rights_command(command)?,
            AdminCommand::AddNode { .. }
            | AdminCommand::Join { .. }
            | AdminCommand::RemoveNode { .. }
            | AdminCommand::MoveNode { .. }
            | AdminCommand::SetVote { .. }
            | AdminCommand::ReplaceNode { .. }
            | AdminCommand::TransferLeader { .. } => {
                let (kind, command) = self.member_step(command)?;
                self.start_step(AdminStep { request_id, kind }, command);
                return Ok(());
            }
            AdminCommand::RaiseFeatureLevel => {
                Command::Settings(SettingsChange::FeatureLevel { level: self.config.feature_level })
            }
            AdminCommand::Trust(command) => Command::Settings(SettingsChange::Trust(self.trust_change(command)?)),
            AdminCommand::Checkpoint => {
                self.request_checkpoint(request_id);
                return Ok(());
            }
            AdminCommand::WaitAllLive => {
                let command = Command::WaitAllLive { index: self.machine.applied.0 };
                self.start_step(AdminStep { request_id, kind: StepKind::WaitAllLive }, command);
                return Ok(());
            }
            AdminCommand::RevokeToken { digest } => {
                Command::Settings(SettingsChange::TokenAdd { digest, expires_wall_ms: TOKEN_REVOKED })
            }
            AdminCommand::CreateToken { digest, life_ms, is_learner } => {
                Command::Settings(self.token_add(digest, life_ms.min(TOKEN_LIFE_MS_MAX), is_learner))
            }
        };
        self.start_step(AdminStep { request_id, kind: StepKind::Single }, command);
        Ok(())
    }

    /// The leader has the other options stay as they are there: what is known here may be old. Below the level at which
    /// every leader can, what is known here is what they become.
    fn options_command(&self, zone: ZoneId, change: OptionsChange) -> Result<Command, Result<AdminReply, AdminError>> {
        if self.machine.settings.feature_level() >= 2 {
            return Ok(Command::ZoneSet { zone, change });
        }
        let known = self.machine.settings.zones().get(&zone).ok_or(Err(AdminError::ZoneUnknown))?;
        let options = change.of(*known);
        Ok(Command::Settings(SettingsChange::ZoneOptions { zone, options }))
    }

    /// A join token expires by the cluster's clock. Below level 4 the entry cannot carry a lifetime, so this node
    /// computes the expiry time. It uses the later of its clock and the entry time, because entry times may be ahead of
    /// its clock.
    fn token_add(&self, digest: [u8; 32], life_ms: u64, is_learner: bool) -> SettingsChange {
        if self.machine.settings.feature_level() >= 4 {
            return SettingsChange::TokenFor { digest, life_ms, is_learner };
        }
        let expires_wall_ms = self.now.wall_ms.max(self.machine.time_ms).saturating_add(life_ms);
        if is_learner {
            SettingsChange::LearnerTokenAdd { digest, expires_wall_ms }
        } else {
            SettingsChange::TokenAdd { digest, expires_wall_ms }
        }
    }

    /// What a change of keys, and of what they may, asks of the leader.
    fn rights_command(&self, command: AdminCommand) -> Result<Command, Result<AdminReply, AdminError>> {
        let canonical = |name: Name| name.as_ref().to_canonical();
        Ok(Command::Settings(match command {
            AdminCommand::AddKey { name, algorithm, secret, nonce } => {
                self.key_add(&name, algorithm, &secret, nonce)?
            }
            AdminCommand::RollKey { name, algorithm, secret, nonce } => {
                let name = canonical(name);
                let secret = self.seal_key(&name, &secret, nonce)?;
                return Ok(Command::KeyRoll { name, algorithm, secret });
            }
            AdminCommand::RetireKey { name } => SettingsChange::KeyRetire { name: canonical(name) },
            AdminCommand::RemoveKey { name } => SettingsChange::KeyRemove { name: canonical(name) },
            AdminCommand::SetPolicy { zone, policy, expected: None } => SettingsChange::PolicySet { zone, policy },
            AdminCommand::SetPolicy { zone, policy, expected: Some(expected) } => {
                return Ok(Command::PolicySet { zone, policy, expected });
            }
            AdminCommand::Grant { key, zone, right } => SettingsChange::Grant { key: canonical(key), zone, right },
            AdminCommand::Revoke { key, zone, right } => SettingsChange::Revoke { key: canonical(key), zone, right },
            // The others are not about rights.
            _ => return Err(Err(AdminError::Malformed)),
        }))
    }

    /// What a change of the members, of their votes or of who leads asks of the leader, and what is waited for.
    fn member_step(&self, command: AdminCommand) -> Result<(StepKind, Command), Result<AdminReply, AdminError>> {
        Ok(match command {
            AdminCommand::AddNode { node, address } => {
                check_address(&address)?;
                if node == 0 {
                    return Err(Err(AdminError::Malformed));
                }
                (StepKind::Single, Command::NodeAdd { node: Some(node), address, token: None })
            }
            AdminCommand::Join { digest, address } => {
                check_address(&address)?;
                (StepKind::Single, Command::NodeAdd { node: None, address, token: Some(digest) })
            }
            AdminCommand::MoveNode { id, address } => {
                check_address(&address)?;
                (StepKind::Single, Command::Settings(SettingsChange::MemberMove { id, address }))
            }
            AdminCommand::RemoveNode { id } => (StepKind::Until(AwaitedState::Out(id)), Command::NodeRemove { id }),
            AdminCommand::SetVote { id, votes } => {
                let change = SettingsChange::MemberRole { id, votes };
                (StepKind::Until(AwaitedState::Votes(id, votes)), Command::Settings(change))
            }
            AdminCommand::ReplaceNode { gone, new } => {
                let change = SettingsChange::MemberReplace { gone, new };
                (StepKind::Until(AwaitedState::Replaced { gone, new }), Command::Settings(change))
            }
            AdminCommand::TransferLeader { to } => {
                let awaited =
                    to.map(AwaitedState::Leads).or_else(|| self.driver.leader().map(AwaitedState::LedByAnother));
                (awaited.map_or(StepKind::Single, StepKind::Until), Command::TransferLeader { to })
            }
            // The others are not about members.
            _ => return Err(Err(AdminError::Malformed)),
        })
    }

    /// Every step goes through here, so nothing that some member does not know leaves this replica.
    fn start_step(&mut self, step: AdminStep, command: Command) {
        if command.feature_level() > self.machine.settings.feature_level() {
            return self.admin_step_done(step, Err(AdminError::LevelTooLow));
        }
        if matches!(step.kind, StepKind::Single | StepKind::Until(_) | StepKind::WaitAllLive) {
            self.admin.single.insert(step.request_id);
        }
        let is_short = step.kind == StepKind::WaitAllLive;
        // The leader's word has to arrive too.
        let wait_ms = if is_short { ALL_LIVE_WAIT_MS + FORWARD_AGAIN_MS } else { ADMIN_WAIT_MS };
        self.wait(command, Purpose::Admin(step), wait_ms);
    }

    /// Seals the secret. Whether the key is there already is the leader's to say: what is known here may be old. Below
    /// the level at which every leader can, a key that is known here with the same secret is no change.
    fn key_add(
        &self,
        name: &Name,
        algorithm: KeyAlgorithm,
        secret: &[u8],
        nonce: [u8; 12],
    ) -> Result<SettingsChange, Result<AdminReply, AdminError>> {
        let name = name.as_ref().to_canonical();
        let settings = &self.machine.settings;
        if settings.feature_level() < 2
            && let Some(old) = settings.keys().get(&name)
            && old.algorithm == algorithm
            && self.open_secret(&name, &old.secret).is_some_and(|opened| *opened == *secret)
        {
            return Err(Ok(AdminReply::Unchanged));
        }
        let secret = self.seal_key(&name, secret, nonce)?;
        Ok(SettingsChange::KeyAdd { name, algorithm, secret })
    }

    /// Seals the secret of a TSIG key.
    fn seal_key(&self, name: &Name, secret: &[u8], nonce: [u8; 12]) -> Result<Sealed, Result<AdminReply, AdminError>> {
        if secret.is_empty() || secret.len() > SECRET_BYTES_MAX {
            return Err(Err(AdminError::Malformed));
        }
        self.seal(nonce, &secret_context(name), secret)
    }

    /// Seals the key of a CA.
    fn trust_change(&self, command: TrustCommand) -> Result<TrustChange, Result<AdminReply, AdminError>> {
        Ok(match command {
            TrustCommand::AddCa { number, certificate, key, nonce } => {
                if certificate.len() > CERTIFICATE_BYTES_MAX || key.len() > CA_KEY_BYTES_MAX {
                    return Err(Err(AdminError::TooLarge));
                }
                let key = self.seal(nonce, &ca_context(number), &key)?;
                TrustChange::CaAdd { number, certificate, key }
            }
            TrustCommand::UseCa { number } => TrustChange::CaUse { number },
            TrustCommand::RemoveCa { number } => TrustChange::CaRemove { number },
            TrustCommand::Renew { number } => TrustChange::Renew { number },
            TrustCommand::BeginDataKey { number, digest } => {
                TrustChange::DataKey(DataKeyChange::Begin { number, digest })
            }
            TrustCommand::UseDataKey { number } => TrustChange::DataKey(DataKeyChange::Use { number }),
            TrustCommand::Reseal { nonces } => {
                TrustChange::DataKey(DataKeyChange::Reseal { secrets: self.resealed(nonces)? })
            }
            TrustCommand::Stand { standing } => TrustChange::Standing { id: self.driver.id(), standing },
            TrustCommand::AddPin { id, pin } => TrustChange::Pin { id, change: PinChange::Add(pin) },
            TrustCommand::SeePins { version } => {
                TrustChange::Pin { id: self.driver.id(), change: PinChange::Seen(version) }
            }
            TrustCommand::UsePin { pin } => TrustChange::Pin { id: self.driver.id(), change: PinChange::Only(pin) },
        })
    }

    /// With the data key in use, if this replica holds it.
    fn seal(&self, nonce: [u8; 12], context: &[u8], secret: &[u8]) -> Result<Sealed, Result<AdminReply, AdminError>> {
        let number = self.machine.settings.data_key().current;
        self.config.data_key.seal_under(number, nonce, context, secret).ok_or(Err(AdminError::DataKeyOld))
    }

    /// Secrets of an older data key, as many as there are nonces.
    fn resealed(&self, nonces: Vec<[u8; 12]>) -> Result<Vec<Resealed>, Result<AdminReply, AdminError>> {
        let stale = self.machine.settings.sealed_before().zip(nonces.into_iter().take(RESEALED_MAX));
        let secrets = stale.filter_map(|((id, context, sealed), nonce)| {
            let plain = self.config.data_key.open(sealed, &context)?;
            let secret = self.seal(nonce, &context, &plain).ok()?;
            Some(Resealed { id, was: sealed.nonce, secret })
        });
        let secrets: Vec<_> = secrets.collect();
        if secrets.is_empty() { Err(Ok(AdminReply::Unchanged)) } else { Ok(secrets) }
    }

    pub(crate) fn open_secret(&self, name: &Name, secret: &crate::Sealed) -> Option<Zeroizing<Vec<u8>>> {
        self.config.data_key.open(secret, &secret_context(name))
    }

    /// A step is done and applied here, or refused.
    pub(crate) fn admin_step_done(&mut self, step: AdminStep, result: StepResult) {
        let AdminStep { request_id, kind } = step;
        self.admin.single.remove(&request_id);
        match kind {
            StepKind::ImportBegin | StepKind::ImportChunk | StepKind::ImportCommit => {
                self.import_step_done(request_id, kind, result);
            }
            // That a hand-over changed nothing yet is no news.
            StepKind::Until(awaited)
                if result.is_ok_and(|(is_unchanged, _)| !is_unchanged || awaited.is_of_leader()) =>
            {
                self.wait_until(request_id, awaited);
            }
            StepKind::WaitAllLive | StepKind::Single | StepKind::Until(_) => {
                let reply = result.map(|result| match result {
                    (_, Some(id)) => AdminReply::Joined { id },
                    (true, None) => AdminReply::Unchanged,
                    (false, None) => AdminReply::Done,
                });
                self.admin_done(request_id, reply);
            }
        }
    }

    fn wait_until(&mut self, request_id: u64, awaited: AwaitedState) {
        let wait_ms = if awaited.is_of_leader() { TRANSFER_WAIT_MS } else { ADMIN_WAIT_MS };
        self.admin.awaited_states.insert(request_id, (awaited, self.now.monotonic_ms + wait_ms));
    }

    /// A step waited too long.
    pub(crate) fn admin_step_expired(&mut self, step: AdminStep, is_certain: bool) {
        let error = if is_certain { AdminError::NotProposed } else { AdminError::Unknown };
        self.admin_step_done(step, Err(error));
    }

    /// Answers commands whose goal has come about.
    pub(crate) fn tick_admin(&mut self) {
        if self.admin.awaited_states.is_empty() {
            return;
        }
        let now = self.now.monotonic_ms;
        let mut awaited_states = core::mem::take(&mut self.admin.awaited_states);
        let mut done = Vec::new();
        awaited_states.retain(|&request_id, &mut (awaited, until_ms)| {
            let result = if self.is_reached(awaited) {
                Ok(AdminReply::Done)
            } else if now >= until_ms {
                Err(awaited.failure())
            } else {
                return true;
            };
            done.push((request_id, result));
            false
        });
        self.admin.awaited_states = awaited_states;
        for (request_id, result) in done {
            self.admin_done(request_id, result);
        }
    }

    fn is_reached(&self, awaited: AwaitedState) -> bool {
        let conf_state = self.driver.conf_state();
        let is_left = conf_state.get_voters_outgoing().is_empty();
        let votes = |id: NodeId| conf_state.get_voters().contains(&id);
        let is_in = |id: NodeId| votes(id) || conf_state.get_learners().contains(&id) || !is_left;
        match awaited {
            AwaitedState::Out(id) => !is_in(id),
            AwaitedState::Votes(id, true) => votes(id) && is_left,
            AwaitedState::Votes(id, false) => !votes(id) && is_left,
            AwaitedState::Replaced { gone, new } => !is_in(gone) && votes(new),
            AwaitedState::Leads(id) => self.driver.leader() == Some(id),
            AwaitedState::LedByAnother(id) => self.driver.leader().is_some_and(|leader| leader != id),
            AwaitedState::AllLiveKnown => self.machine.settings.all_live_unknown().is_none(),
        }
    }

    pub(crate) fn admin_done(&mut self, request_id: u64, result: Result<AdminReply, AdminError>) {
        // Nobody asked for what is tidied up.
        if request_id == NO_REQUEST {
            return;
        }
        self.out.push_back(Output::AdminDone { request_id, result });
    }
}

fn check_address(address: &str) -> Result<(), Result<AdminReply, AdminError>> {
    let is_sane = !address.is_empty() && address.len() <= ADDRESS_BYTES_MAX;
    if is_sane { Ok(()) } else { Err(Err(AdminError::Malformed)) }
}
