//! Administrators' commands at the replica that received them: each is checked and split into steps, and each step is
//! a command for the leader.

mod idle;
mod import;
mod jobs;

pub(crate) use jobs::{AdminJobs, StepResult};

use super::step::{AdminStep, AwaitedState, StepKind};
use crate::command::Command;
use crate::context::Context;
use crate::entry::{DataKeyChange, PinChange, Resealed, SettingsChange, TOKEN_REVOKED, TrustChange};
use crate::io::{AckOption, AdminCommand, AdminError, AdminReply, NodeId, OptionsChange, TrustCommand};
use crate::limits::{
    ADDRESS_BYTES_MAX, ADMIN_WAIT_MS, ALL_LIVE_WAIT_MS, CA_KEY_BYTES_MAX, CERTIFICATE_BYTES_MAX, FORWARD_AGAIN_MS,
    RESEALED_MAX, TOKEN_LIFE_MS_MAX, TRANSFER_WAIT_MS,
};
use crate::requests::{Purpose, Requests, Shared};
use crate::secrets::Sealed;
use crate::state::{ca_context, secret_context};
use tsig::KeyAlgorithm;
use tsig::limits::SECRET_BYTES_MAX;
use wire::name::Name;
use zeroize::Zeroizing;
use zone::ZoneId;

impl Requests {
    /// Starts a command.
    pub(crate) fn handle_admin(&mut self, shared: &mut Shared<'_>, request_id: u64, command: AdminCommand) {
        if let Err(error) = self.start_admin(shared, request_id, command) {
            shared.outputs.admin_done(request_id, error);
        }
    }

    /// `Err` is an answer that needs no step.
    fn start_admin(
        &mut self,
        shared: &mut Shared<'_>,
        request_id: u64,
        command: AdminCommand,
    ) -> Result<(), Result<AdminReply, AdminError>> {
        let command = match command {
            AdminCommand::AddZone { zone, options, contents } => {
                return self.start_add_zone(shared, request_id, &zone, options, contents);
            }
            AdminCommand::ReplaceZone { zone, replacement } => {
                return self.start_replace_zone(shared, request_id, &zone, replacement);
            }
            AdminCommand::SetZoneOptions { zone, change } => {
                let is_waited_for = change.ack == Some(AckOption::AllLive);
                let kind = if is_waited_for { StepKind::Until(AwaitedState::AllLiveKnown) } else { StepKind::Single };
                let command = options_command(&shared.context, zone, change)?;
                self.start_step(shared, AdminStep { request_id, kind }, command);
                return Ok(());
            }
            AdminCommand::RemoveZone { zone } => Command::Settings(SettingsChange::ZoneRemove { zone }),
            AdminCommand::AddKey { .. }
            | AdminCommand::RollKey { .. }
            | AdminCommand::RetireKey { .. }
            | AdminCommand::RemoveKey { .. }
            | AdminCommand::SetPolicy { .. }
            | AdminCommand::Grant { .. }
            | AdminCommand::Revoke { .. } => rights_command(&shared.context, command)?,
            AdminCommand::AddNode { .. }
            | AdminCommand::Join { .. }
            | AdminCommand::RemoveNode { .. }
            | AdminCommand::MoveNode { .. }
            | AdminCommand::SetVote { .. }
            | AdminCommand::ReplaceNode { .. }
            | AdminCommand::TransferLeader { .. } => {
                let (kind, command) = member_step(&shared.context, command)?;
                self.start_step(shared, AdminStep { request_id, kind }, command);
                return Ok(());
            }
            AdminCommand::RaiseFeatureLevel => {
                Command::Settings(SettingsChange::FeatureLevel { level: shared.context.local.config.feature_level })
            }
            AdminCommand::Trust(command) => {
                Command::Settings(SettingsChange::Trust(trust_change(&shared.context, command)?))
            }
            // The checkpoint transfers handle it.
            AdminCommand::Checkpoint => return Err(Err(AdminError::Malformed)),
            AdminCommand::WaitAllLive => {
                let command = Command::WaitAllLive { index: shared.context.machine.applied.0 };
                self.start_step(shared, AdminStep { request_id, kind: StepKind::WaitAllLive }, command);
                return Ok(());
            }
            AdminCommand::RevokeToken { digest } => {
                Command::Settings(SettingsChange::TokenAdd { digest, expires_wall_ms: TOKEN_REVOKED })
            }
            AdminCommand::CreateToken { digest, life_ms, is_learner } => {
                Command::Settings(token_add(&shared.context, digest, life_ms.min(TOKEN_LIFE_MS_MAX), is_learner))
            }
        };
        self.start_step(shared, AdminStep { request_id, kind: StepKind::Single }, command);
        Ok(())
    }

    /// All steps pass here, so this replica sends nothing that some member does not know.
    fn start_step(&mut self, shared: &mut Shared<'_>, step: AdminStep, command: Command) {
        let level = shared.context.machine.settings.feature_level();
        if command.feature_level() > level && !planted!(CommandAboveLevelSent) {
            return self.admin_step_done(shared, step, Err(AdminError::LevelTooLow));
        }
        if matches!(step.kind, StepKind::Single | StepKind::Until(_) | StepKind::WaitAllLive) {
            self.admin.single.insert(step.request_id);
        }
        let is_short = step.kind == StepKind::WaitAllLive;
        // The leader's answer must also arrive in time.
        let wait_ms = if is_short { ALL_LIVE_WAIT_MS + FORWARD_AGAIN_MS } else { ADMIN_WAIT_MS };
        self.wait(shared, command, Purpose::Admin(step), wait_ms);
    }

    /// A step was done and is applied here, or it was refused.
    pub(crate) fn admin_step_done(&mut self, shared: &mut Shared<'_>, step: AdminStep, result: StepResult) {
        let AdminStep { request_id, kind } = step;
        self.admin.single.remove(&request_id);
        match kind {
            StepKind::ImportBegin | StepKind::ImportChunk | StepKind::ImportCommit => {
                self.import_step_done(shared, request_id, kind, result);
            }
            // A transfer of leadership always reports `unchanged`, which means nothing.
            StepKind::Until(awaited)
                if result.is_ok_and(|(is_unchanged, _)| !is_unchanged || awaited.is_of_leader()) =>
            {
                self.wait_until(shared, request_id, awaited);
            }
            StepKind::WaitAllLive | StepKind::Single | StepKind::Until(_) => {
                let reply = result.map(|result| match result {
                    (_, Some(id)) => AdminReply::Joined { id },
                    (true, None) => AdminReply::Unchanged,
                    (false, None) => AdminReply::Done,
                });
                shared.outputs.admin_done(request_id, reply);
            }
        }
    }

    fn wait_until(&mut self, shared: &mut Shared<'_>, request_id: u64, awaited: AwaitedState) {
        let wait_ms = if awaited.is_of_leader() { TRANSFER_WAIT_MS } else { ADMIN_WAIT_MS };
        self.admin.awaited_states.insert(request_id, (awaited, shared.context.local.now.monotonic_ms + wait_ms));
    }

    /// The time limit of a step has passed.
    pub(crate) fn admin_step_expired(&mut self, shared: &mut Shared<'_>, step: AdminStep, is_certain: bool) {
        let error = if is_certain { AdminError::NotProposed } else { AdminError::Unknown };
        self.admin_step_done(shared, step, Err(error));
    }

    /// Answers commands whose awaited state is reached.
    pub(crate) fn tick_admin(&mut self, shared: &mut Shared<'_>) {
        let now = shared.context.local.now.monotonic_ms;
        self.admin.awaited_states.retain(|&request_id, &mut (awaited, until_ms)| {
            let result = if is_reached(&shared.context, awaited) {
                Ok(AdminReply::Done)
            } else if now >= until_ms {
                Err(awaited.failure())
            } else {
                return true;
            };
            shared.outputs.admin_done(request_id, result);
            false
        });
    }
}

/// The leader keeps the options that the command does not name, because this replica's settings may be old. Below
/// the feature level at which leaders can do this, this replica fills them in.
fn options_command(
    context: &Context<'_>,
    zone: ZoneId,
    change: OptionsChange,
) -> Result<Command, Result<AdminReply, AdminError>> {
    if context.machine.settings.feature_level() >= 2 && !planted!(OptionsOfOwnCopy) {
        return Ok(Command::ZoneSet { zone, change });
    }
    let known = context.machine.settings.zones().get(&zone).ok_or(Err(AdminError::ZoneUnknown))?;
    let options = change.of(*known);
    Ok(Command::Settings(SettingsChange::ZoneOptions { zone, options }))
}

/// A join token expires by the cluster's clock. Below level 4 the entry cannot carry a lifetime, so this node
/// computes the expiry time. It uses the later of its clock and the entry time, because entry times may be ahead of
/// its clock.
fn token_add(context: &Context<'_>, digest: [u8; 32], life_ms: u64, is_learner: bool) -> SettingsChange {
    if context.machine.settings.feature_level() >= 4 {
        return SettingsChange::TokenFor { digest, life_ms, is_learner };
    }
    let expires_wall_ms = context.local.now.wall_ms.max(context.machine.time_ms).saturating_add(life_ms);
    if is_learner {
        SettingsChange::LearnerTokenAdd { digest, expires_wall_ms }
    } else {
        SettingsChange::TokenAdd { digest, expires_wall_ms }
    }
}

/// The command for the leader that changes keys or their rights.
fn rights_command(context: &Context<'_>, command: AdminCommand) -> Result<Command, Result<AdminReply, AdminError>> {
    let canonical = |name: Name| name.as_ref().to_canonical();
    Ok(Command::Settings(match command {
        AdminCommand::AddKey { name, algorithm, secret, nonce } => key_add(context, &name, algorithm, &secret, nonce)?,
        AdminCommand::RollKey { name, algorithm, secret, nonce } => {
            let name = canonical(name);
            let secret = seal_key(context, &name, &secret, nonce)?;
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
        // Other commands are not about rights.
        _ => return Err(Err(AdminError::Malformed)),
    }))
}

/// The command for the leader that changes members, their votes or the leader, and the state to wait for.
fn member_step(
    context: &Context<'_>,
    command: AdminCommand,
) -> Result<(StepKind, Command), Result<AdminReply, AdminError>> {
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
                to.map(AwaitedState::Leads).or_else(|| context.driver.leader().map(AwaitedState::LedByAnother));
            (awaited.map_or(StepKind::Single, StepKind::Until), Command::TransferLeader { to })
        }
        // Other commands are not about members.
        _ => return Err(Err(AdminError::Malformed)),
    })
}

/// Seals the secret. The leader decides whether the key exists, because this replica's settings may be old. Below
/// the feature level at which leaders can do this, a key that exists here with the same secret is no change.
fn key_add(
    context: &Context<'_>,
    name: &Name,
    algorithm: KeyAlgorithm,
    secret: &[u8],
    nonce: [u8; 12],
) -> Result<SettingsChange, Result<AdminReply, AdminError>> {
    let name = name.as_ref().to_canonical();
    let settings = &context.machine.settings;
    if settings.feature_level() < 2
        && let Some(old) = settings.keys().get(&name)
        && old.algorithm == algorithm
        && open_secret(context, &name, &old.secret).is_some_and(|opened| *opened == *secret)
    {
        return Err(Ok(AdminReply::Unchanged));
    }
    let secret = seal_key(context, &name, secret, nonce)?;
    Ok(SettingsChange::KeyAdd { name, algorithm, secret })
}

/// Seals the secret of a TSIG key.
fn seal_key(
    context: &Context<'_>,
    name: &Name,
    secret: &[u8],
    nonce: [u8; 12],
) -> Result<Sealed, Result<AdminReply, AdminError>> {
    if secret.is_empty() || secret.len() > SECRET_BYTES_MAX {
        return Err(Err(AdminError::Malformed));
    }
    seal(context, nonce, &secret_context(name), secret)
}

/// Seals the key of a CA.
fn trust_change(context: &Context<'_>, command: TrustCommand) -> Result<TrustChange, Result<AdminReply, AdminError>> {
    Ok(match command {
        TrustCommand::AddCa { number, certificate, key, nonce } => {
            if certificate.len() > CERTIFICATE_BYTES_MAX || key.len() > CA_KEY_BYTES_MAX {
                return Err(Err(AdminError::TooLarge));
            }
            let key = seal(context, nonce, &ca_context(number), &key)?;
            TrustChange::CaAdd { number, certificate, key }
        }
        TrustCommand::UseCa { number } => TrustChange::CaUse { number },
        TrustCommand::RemoveCa { number } => TrustChange::CaRemove { number },
        TrustCommand::Renew { number } => TrustChange::Renew { number },
        TrustCommand::BeginDataKey { number, digest } => TrustChange::DataKey(DataKeyChange::Begin { number, digest }),
        TrustCommand::UseDataKey { number } => TrustChange::DataKey(DataKeyChange::Use { number }),
        TrustCommand::Reseal { nonces } => {
            TrustChange::DataKey(DataKeyChange::Reseal { secrets: resealed(context, nonces)? })
        }
        TrustCommand::ReportCredentials { progress } => TrustChange::Credentials { id: context.driver.id(), progress },
        TrustCommand::AddPin { id, pin } => TrustChange::Pin { id, change: PinChange::Add(pin) },
        TrustCommand::SeePins { version } => {
            TrustChange::Pin { id: context.driver.id(), change: PinChange::Seen(version) }
        }
        TrustCommand::UsePin { pin } => TrustChange::Pin { id: context.driver.id(), change: PinChange::Only(pin) },
    })
}

/// Seals with the current data key, if this replica holds it.
fn seal(
    context: &Context<'_>,
    nonce: [u8; 12],
    purpose: &[u8],
    secret: &[u8],
) -> Result<Sealed, Result<AdminReply, AdminError>> {
    let number = context.machine.settings.data_key().current;
    context.local.config.data_key.seal_under(number, nonce, purpose, secret).ok_or(Err(AdminError::DataKeyOld))
}

/// Reseals secrets of an older data key, one per nonce.
fn resealed(context: &Context<'_>, nonces: Vec<[u8; 12]>) -> Result<Vec<Resealed>, Result<AdminReply, AdminError>> {
    let stale = context.machine.settings.sealed_before().zip(nonces.into_iter().take(RESEALED_MAX));
    let secrets = stale.filter_map(|((id, purpose, sealed), nonce)| {
        let plain = context.local.config.data_key.open(sealed, &purpose)?;
        let secret = seal(context, nonce, &purpose, &plain).ok()?;
        Some(Resealed { id, was: sealed.nonce, secret })
    });
    let secrets: Vec<_> = secrets.collect();
    if secrets.is_empty() { Err(Ok(AdminReply::Unchanged)) } else { Ok(secrets) }
}

pub(crate) fn open_secret(context: &Context<'_>, name: &Name, secret: &crate::Sealed) -> Option<Zeroizing<Vec<u8>>> {
    context.local.config.data_key.open(secret, &secret_context(name))
}

fn is_reached(context: &Context<'_>, awaited: AwaitedState) -> bool {
    let conf_state = context.driver.conf_state();
    let is_left = conf_state.get_voters_outgoing().is_empty();
    let votes = |id: NodeId| conf_state.get_voters().contains(&id);
    let is_in = |id: NodeId| votes(id) || conf_state.get_learners().contains(&id) || !is_left;
    match awaited {
        AwaitedState::Out(id) => !is_in(id),
        AwaitedState::Votes(id, true) => votes(id) && is_left,
        AwaitedState::Votes(id, false) => !votes(id) && is_left,
        AwaitedState::Replaced { gone, new } => !is_in(gone) && votes(new),
        AwaitedState::Leads(id) => context.driver.leader() == Some(id),
        AwaitedState::LedByAnother(id) => context.driver.leader().is_some_and(|leader| leader != id),
        AwaitedState::AllLiveKnown => context.machine.settings.all_live_unknown().is_none(),
    }
}

fn check_address(address: &str) -> Result<(), Result<AdminReply, AdminError>> {
    let is_sane = !address.is_empty() && address.len() <= ADDRESS_BYTES_MAX;
    if is_sane { Ok(()) } else { Err(Err(AdminError::Malformed)) }
}
