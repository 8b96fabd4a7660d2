//! Rotates CAs, data keys and pins step by step, as the members' daemons do. Upgrades a member to the newer of two
//! builds.

use crate::commands::{CommandParams, Next};
use crate::event::Event;
use crate::setup::data_keys;
use crate::simulation::Simulation;
use crate::swarm::CommandKind;
use replica::Trust;
use replica::io::{AdminCommand, CredentialProgress, Input, NodeId, TrustCommand};
use replica::peer::FEATURE_LEVEL;

/// Maximum number of CAs and of data keys in a run.
const ROTATIONS_MAX: u32 = 6;
/// Number of secrets to reseal at once.
const RESEALED: u8 = 4;
/// Duration of an upgrade.
const UPGRADE_US: (u64, u64) = (50_000, 800_000);

impl Simulation {
    /// Returns the next step of a rotation. If some members have not reported their progress, one of them reports it.
    pub(crate) fn trust_command(&mut self, kind: CommandKind, params: CommandParams) -> Option<Next> {
        let CommandParams { mut to, salt, nonce } = params;
        let trust = self.machines[&to].replica.as_ref()?.trust();
        let last = trust.cas.iter().map(|ca| ca.number).max().unwrap_or(0);
        let behind = trust.members.iter().map(|member| member.id).find(|id| !follows(&trust, *id));
        let waits = matches!(kind, CommandKind::UseCa | CommandKind::RemoveCa | CommandKind::UseDataKey);
        let reporting = behind.filter(|id| waits && salt % 4 != 0 && self.alive().contains(id));
        if let Some(id) = reporting {
            to = id;
        }
        let command = match kind {
            _ if reporting.is_some() => self.report_credentials(to, &trust),
            CommandKind::ReportCredentials => self.report_credentials(to, &trust),
            CommandKind::AddCa if last < ROTATIONS_MAX => TrustCommand::AddCa {
                number: last + 1,
                certificate: vec![0x30, last as u8 + 1],
                key: vec![last as u8 + 1; 138],
                nonce,
            },
            CommandKind::UseCa => TrustCommand::UseCa { number: last },
            CommandKind::RemoveCa => {
                TrustCommand::RemoveCa { number: trust.cas.first().map_or(1, |first| first.number) }
            }
            CommandKind::Renew => TrustCommand::Renew { number: trust.renewal + 1 },
            CommandKind::BeginDataKey if trust.data_key < ROTATIONS_MAX => {
                let number = trust.next_data_key.map_or(trust.data_key, |(next, _)| next) + 1;
                TrustCommand::BeginDataKey { number, digest: [number as u8; 32] }
            }
            CommandKind::UseDataKey => {
                TrustCommand::UseDataKey { number: trust.next_data_key.map_or(trust.data_key, |(next, _)| next) }
            }
            CommandKind::Reseal => {
                let nonces = (0..RESEALED).map(|number| {
                    let mut fresh = nonce;
                    fresh[0] ^= number;
                    fresh
                });
                TrustCommand::Reseal { nonces: nonces.collect() }
            }
            CommandKind::AddPin => TrustCommand::AddPin { id: to, pin: [salt; 32] },
            CommandKind::SeePins => TrustCommand::SeePins { version: trust.pins_wanted.unwrap_or(1) },
            CommandKind::UsePin => TrustCommand::UsePin {
                pin: trust.pins.get(&to).and_then(|pins| pins.last().copied()).unwrap_or([1; 32]),
            },
            _ => return None,
        };
        Some(Next::Send(to, AdminCommand::Trust(command), None))
    }

    /// A member accepts the new CA and data key, and reports it.
    fn report_credentials(&mut self, id: NodeId, trust: &Trust) -> TrustCommand {
        let data_key = trust.next_data_key.map_or(trust.data_key, |(next, _)| next);
        let machine = self.machine(id);
        if data_key > machine.data_key {
            machine.data_key = data_key;
            self.deliver(id, Input::DataKeys { keys: data_keys(data_key) });
        }
        let accepts = trust.cas.iter().map(|ca| ca.number).max().unwrap_or(0);
        let data_key = self.machines[&id].data_key;
        let progress =
            CredentialProgress { accepts, issued_by: trust.issuer, renewal: trust.renewal, expires_s: 9, data_key };
        TrustCommand::ReportCredentials { progress }
    }

    /// Restarts a member of the older build with the newer one.
    pub(crate) fn upgrade(&mut self, params: CommandParams) -> bool {
        let is_old = |id: &NodeId| self.machines[id].level < FEATURE_LEVEL;
        let old: Vec<_> = self.alive().into_iter().filter(is_old).collect();
        let Some(&id) = old.get(usize::from(params.salt) % old.len().max(1)) else { return false };
        self.machine(id).level = FEATURE_LEVEL;
        self.count.upgrades += 1;
        self.kill(id);
        let in_us = UPGRADE_US.0 + self.administrator.draw(UPGRADE_US.1);
        self.events.after(in_us, Event::Restart(id));
        true
    }
}

/// Whether a member has reported that it follows all started rotations.
fn follows(trust: &Trust, id: NodeId) -> bool {
    let last = trust.cas.iter().map(|ca| ca.number).max().unwrap_or(0);
    let data_key = trust.next_data_key.map_or(trust.data_key, |(next, _)| next);
    trust.credentials.get(&id).is_some_and(|progress| {
        progress.accepts >= last && progress.issued_by == trust.issuer && progress.data_key >= data_key
    })
}
