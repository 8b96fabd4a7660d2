//! The administrator's commands: all existing kinds. Each seed draws some of them.

use crate::administrator::{ZoneTarget, grant, revoke};
use crate::oracle::{Imported, Oracle};
use crate::plan::name;
use crate::simulation::Simulation;
use crate::swarm::CommandKind;
use crate::updates::{self, KEY, SECRETS, apex_records, main_zone, zone_id};
use policy::Revision;
use policy::text::parse_policy;
use replica::io::{
    AckOption, AdminCommand, Contents, LimitsChange, NodeId, OptionsChange, Replacement, Right, SerialPolicyOption,
    StaleOption, ZoneOptions,
};
use std::sync::Arc;
use tsig::KeyAlgorithm;
use wire::number::Rtype;
use zone::Record;

/// Number of zones that are added and removed.
const IMPORTED: u64 = 4;
/// Number of records in a zone that is imported in several chunks.
const LARGE: u64 = 2_500;
/// A member lags if it is this many entries behind another member.
const LAG_ENTRIES: u64 = 5;
/// Number of kinds to try until one is useful.
const TRIES: usize = 4;
/// A member that never existed.
const NO_NODE: NodeId = 999;
/// A token that was never created.
const NO_TOKEN: [u8; 32] = [255; 32];

/// The administrator's next action.
pub(crate) enum Next {
    /// Sends this command to a member.
    Send(NodeId, AdminCommand, Option<ZoneTarget>),
    /// An action that needs no member's response.
    Done(CommandKind),
}

/// The random values of one command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandParams {
    pub(crate) to: NodeId,
    pub(crate) salt: u8,
    pub(crate) nonce: [u8; 12],
}

impl Simulation {
    /// Chooses the next command, for that member if possible.
    pub(crate) fn choose_command(&mut self, to: NodeId) -> Option<Next> {
        if self.administrator.is_revoked() {
            return Some(Next::Send(to, grant(), None));
        }
        if self.must_change_members()
            && let Some(command) = self.choose_membership()
        {
            return Some(Next::Send(to, command, None));
        }
        for _ in 0..TRIES {
            let mut kind = self.administrator.pick_kind(&self.setup.swarm)?;
            // A member that does not get the new policy must not refuse updates by its old one.
            if self.setup.swarm.has_command(CommandKind::SetPolicy)
                && self.has_lagging_member()
                && self.administrator.draw(3) == 0
            {
                kind = CommandKind::SetPolicy;
            }
            let params =
                CommandParams { to, salt: self.administrator.draw(200) as u8 + 32, nonce: self.administrator.nonce() };
            if let Some(next) = self.make_command(kind, params) {
                return Some(next);
            }
        }
        None
    }

    /// Whether a running member is behind the others.
    fn has_lagging_member(&self) -> bool {
        let applied = || self.machines.values().filter_map(|machine| Some(machine.replica.as_ref()?.state_hash().0));
        applied().min() < applied().max().map(|newest| newest.saturating_sub(LAG_ENTRIES))
    }

    fn make_command(&mut self, kind: CommandKind, params: CommandParams) -> Option<Next> {
        let CommandParams { to, salt, nonce } = params;
        let key = name(&format!("key-{}.", salt % 4));
        let command = match kind {
            CommandKind::AddZone
            | CommandKind::ReplaceZone
            | CommandKind::RemoveZone
            | CommandKind::SetZoneOptions
            | CommandKind::SetAck => return self.zone_command(kind, params),
            CommandKind::AddKey => {
                let (algorithm, secret) = (KeyAlgorithm::HmacSha512, vec![salt; 64]);
                AdminCommand::AddKey { name: key, algorithm, secret, nonce }
            }
            CommandKind::RollKey => return Some(Next::Send(to, self.roll_key(params), None)),
            CommandKind::RetireKey if self.administrator.is_rolled() && salt % 2 == 0 => {
                AdminCommand::RetireKey { name: name(KEY) }
            }
            CommandKind::RetireKey => AdminCommand::RetireKey { name: key },
            CommandKind::SetPolicy => self.set_policy(to, salt),
            CommandKind::RemoveKey => AdminCommand::RemoveKey { name: key },
            CommandKind::Grant => AdminCommand::Grant { key, zone: Some(main_zone()), right: Right::Transfer },
            CommandKind::Revoke if salt % 2 == 0 => revoke(),
            CommandKind::Revoke => AdminCommand::Revoke { key, zone: Some(main_zone()), right: Right::Transfer },
            CommandKind::AddNode
            | CommandKind::RemoveNode
            | CommandKind::MoveNode
            | CommandKind::SetVote
            | CommandKind::ReplaceNode
            | CommandKind::CreateToken
            | CommandKind::RevokeToken
            | CommandKind::Join => self.node_command(kind, params)?,
            CommandKind::RaiseFeatureLevel => AdminCommand::RaiseFeatureLevel,
            CommandKind::TransferLeader if salt % 3 == 0 => {
                AdminCommand::TransferLeader { to: Some(self.founder(salt)) }
            }
            CommandKind::TransferLeader => AdminCommand::TransferLeader { to: None },
            CommandKind::Checkpoint => AdminCommand::Checkpoint,
            CommandKind::WaitAllLive => AdminCommand::WaitAllLive,
            CommandKind::AddCa
            | CommandKind::UseCa
            | CommandKind::RemoveCa
            | CommandKind::Renew
            | CommandKind::BeginDataKey
            | CommandKind::UseDataKey
            | CommandKind::Reseal
            | CommandKind::ReportCredentials
            | CommandKind::AddPin
            | CommandKind::SeePins
            | CommandKind::UsePin => return self.trust_command(kind, params),
            CommandKind::Upgrade => return self.upgrade(params).then_some(Next::Done(kind)),
            CommandKind::Restore => return self.restore_second_cluster(params).then_some(Next::Done(kind)),
            CommandKind::Recover => return self.recover_second_cluster(params).then_some(Next::Done(kind)),
        };
        Some(Next::Send(to, command, None))
    }

    fn founder(&self, salt: u8) -> NodeId {
        1 + u64::from(salt) % self.setup.members
    }

    /// The apex of the zone for a command. Removed zones are added again first, because their serials must not go back.
    fn choose_imported(&mut self, kind: CommandKind) -> Option<String> {
        let first = self.administrator.draw(IMPORTED);
        let apexes: Vec<_> = (0..IMPORTED).map(|step| format!("z{}.test.", (first + step) % IMPORTED)).collect();
        let find = |oracle: &mut Oracle, fits: fn(&Imported) -> bool| {
            apexes.iter().find(|apex| fits(oracle.imported_mut(&name(apex)))).cloned()
        };
        let may_be_absent = |zone: &Imported| zone.now.contains(&None);
        match kind {
            CommandKind::AddZone => find(&mut self.oracle, |zone| zone.now.contains(&None) && !zone.ever.is_empty())
                .or_else(|| find(&mut self.oracle, may_be_absent)),
            CommandKind::ReplaceZone | CommandKind::RemoveZone => {
                find(&mut self.oracle, |zone| zone.now.iter().any(Option::is_some)).or_else(|| apexes.first().cloned())
            }
            _ => apexes.first().cloned(),
        }
    }

    fn zone_command(&mut self, kind: CommandKind, CommandParams { to, salt, .. }: CommandParams) -> Option<Next> {
        let apex = self.choose_imported(kind)?;
        let is_large = self.administrator.draw(100) < 15;
        let count = if is_large { LARGE + self.administrator.draw(500) } else { 3 + self.administrator.draw(40) };
        let zone = zone_id(&apex);
        let serial_policy = [SerialPolicyOption::Increment, SerialPolicyOption::UnixTime, SerialPolicyOption::Date]
            [usize::from(salt % 3)];
        let stale = if salt % 3 == 0 { StaleOption::Expire } else { StaleOption::Serve };
        let (command, target) = match kind {
            CommandKind::AddZone => {
                let options = ZoneOptions { serial_policy, stale, ..ZoneOptions::default() };
                let contents = Contents::new(&zone, imported_records(&apex, count, salt)).ok()?;
                (AdminCommand::AddZone { zone, options, contents }, Some((apex, Some(count))))
            }
            CommandKind::ReplaceZone => {
                let published = self.machines[&to].replica.as_ref()?.zones().published();
                let old = published.zone(&zone)?;
                let replacement = Replacement::new(&old, imported_records(&apex, count, salt)).ok()?;
                (AdminCommand::ReplaceZone { zone, replacement }, Some((apex, Some(count))))
            }
            CommandKind::RemoveZone => (AdminCommand::RemoveZone { zone }, Some((apex, None))),
            CommandKind::SetAck => {
                let ack = if salt % 2 == 0 { AckOption::AllLive } else { AckOption::Majority };
                let zone = if salt % 3 == 0 { zone } else { main_zone() };
                (
                    AdminCommand::SetZoneOptions {
                        zone,
                        change: OptionsChange { ack: Some(ack), ..Default::default() },
                    },
                    None,
                )
            }
            _ => {
                let records_max = (salt % 5 == 0).then_some(u32::from(salt) * 100);
                let limits = LimitsChange { records_max, ..LimitsChange::NONE };
                let change =
                    OptionsChange { serial_policy: Some(serial_policy), stale: Some(stale), ack: None, limits };
                (AdminCommand::SetZoneOptions { zone, change }, None)
            }
        };
        Some(Next::Send(to, command, target))
    }

    /// Gives the clients' key its second secret once per run. A command that takes effect late changes nothing else.
    fn roll_key(&self, CommandParams { salt, nonce, .. }: CommandParams) -> AdminCommand {
        if salt % 2 == 0 && !self.administrator.is_rolled() {
            let (algorithm, secret) = (KeyAlgorithm::HmacSha256, SECRETS[1].to_vec());
            return AdminCommand::RollKey { name: name(KEY), algorithm, secret, nonce };
        }
        let (algorithm, secret) = (KeyAlgorithm::HmacSha512, vec![salt; 64]);
        AdminCommand::RollKey { name: name(&format!("key-{}.", salt % 4)), algorithm, secret, nonce }
    }

    fn set_policy(&mut self, to: NodeId, salt: u8) -> AdminCommand {
        let rules = match self.administrator.choose_policy(salt) {
            0 => String::new(),
            policy => updates::rules_of(policy),
        };
        let policy = parse_policy(&rules).expect("the simulator's own rules are valid");
        let expected = salt.is_multiple_of(3).then(|| self.known_rules(to));
        AdminCommand::SetPolicy { zone: Some(main_zone()), policy: Arc::new(policy), expected }
    }

    /// Returns the rules that a member reports. They may be outdated.
    pub(crate) fn known_rules(&self, member: NodeId) -> Revision {
        let known = self.machines[&member].replica.as_ref().map(|replica| replica.policies().0).unwrap_or_default();
        known.get(&Some(main_zone())).cloned().unwrap_or_default().revision()
    }

    /// Chooses a command about members. If none is useful now, chooses one that must be refused.
    fn node_command(
        &mut self,
        kind: CommandKind,
        CommandParams { salt, nonce, .. }: CommandParams,
    ) -> Option<AdminCommand> {
        let may_join = self.ids().len() <= self.setup.members as usize && !self.membership.has_dead();
        Some(match kind {
            CommandKind::AddNode if may_join => self.add_node(),
            CommandKind::AddNode => AdminCommand::AddNode { node: 1, address: "[::1]:7001".into() },
            CommandKind::Join => match self.membership.token().filter(|_| may_join) {
                Some(_) => self.join()?,
                None => AdminCommand::Join { digest: NO_TOKEN, address: "[::1]:7999".into() },
            },
            CommandKind::CreateToken if self.membership.token().is_none() => self.create_token(),
            CommandKind::CreateToken => {
                let digest = [[salt; 20].as_slice(), &nonce].concat().try_into().unwrap_or(NO_TOKEN);
                AdminCommand::CreateToken { digest, life_ms: 1_000, is_learner: false }
            }
            CommandKind::RevokeToken => {
                let digest = self.membership.token().filter(|_| salt % 2 == 0).unwrap_or(NO_TOKEN);
                AdminCommand::RevokeToken { digest }
            }
            CommandKind::MoveNode => {
                let id = self.founder(salt);
                AdminCommand::MoveNode { id, address: format!("[::1]:{}", 8_000 + u32::from(salt)) }
            }
            // Votes are given twice as often as they are removed, so that the cluster can afford to lose some.
            CommandKind::SetVote => {
                let votes = salt % 3 != 0 || self.membership.has_dead() || self.damaged.is_some();
                AdminCommand::SetVote { id: self.founder(salt), votes }
            }
            CommandKind::RemoveNode | CommandKind::ReplaceNode => match self.choose_leaving(kind) {
                Some(command) => command,
                None if kind == CommandKind::RemoveNode => AdminCommand::RemoveNode { id: NO_NODE },
                None => AdminCommand::ReplaceNode { gone: NO_NODE, new: NO_NODE + 1 },
            },
            _ => return None,
        })
    }
}

fn imported_records(apex: &str, count: u64, salt: u8) -> Vec<Record> {
    let rdata = if count >= LARGE { vec![200; 201] } else { vec![3, salt, salt, salt] };
    let owner = |number: u64| name(&format!("host-{number}.{apex}"));
    let record = |number| Record { owner: owner(number), rtype: Rtype::TXT, ttl: 60, rdata: rdata.clone().into() };
    // In half of the cases, the file of a zone that is added again has a lower serial.
    apex_records(apex, u32::from(salt)).into_iter().chain((2..count).map(record)).collect()
}
