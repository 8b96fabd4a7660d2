//! The state of the administrator, and the commands that prepare a cluster.

use crate::decided::DecidedSettings;
use crate::plan::name;
use crate::policies::POLICIES;
use crate::rng::Rng;
use crate::swarm::{CommandKind, Swarm};
use crate::updates::{
    FIRST_SERIAL, KEY, OTHER_KEY, RULED_KEY, SECRETS, apex_records, churn_zone, main_records, main_zone,
};
use replica::io::{AckOption, AdminCommand, Contents, NodeId, Right, ZoneOptions};
use tsig::KeyAlgorithm;

/// The state of the administrator.
pub(crate) struct Administrator {
    pub(crate) current: Option<Current>,
    /// The command in progress.
    pub(crate) in_flight: Option<AdminCommand>,
    /// Settings whose value is known from the outcomes of commands.
    pub(crate) decided: DecidedSettings,
    /// Whether the clients' key may have lost its grant.
    pub(crate) is_revoked: bool,
    /// Whether it may have lost the grant at any time.
    pub(crate) was_revoked: bool,
    /// The most recently requested policy.
    pub(crate) policy: u64,
    /// Whether the clients' key certainly has its second secret.
    pub(crate) is_rolled: bool,
    /// Whether the first secret may be invalid, because its removal was requested.
    pub(crate) is_retired: bool,
    /// Whether the last command removes a zone.
    pub(crate) has_removed_zone: bool,
    pub(crate) rng: Rng,
}

/// A zone by its apex, and its number of records after the command. `None` if the command removes the zone.
pub(crate) type ZoneTarget = (String, Option<u64>);

/// The command in progress, and what its outcome decides.
pub(crate) struct Current {
    pub(crate) request_id: u64,
    pub(crate) to: NodeId,
    pub(crate) zone: Option<ZoneTarget>,
    /// Whether only this command can have produced the requested state.
    pub(crate) is_news: bool,
    /// Whether the command has no automatic follow-up command.
    pub(crate) is_single: bool,
    /// Whether it grants the clients' key its right.
    pub(crate) grants: bool,
    /// Whether it removes a vote.
    pub(crate) takes_vote: bool,
    /// The policy that it sets.
    pub(crate) policy: Option<u64>,
    /// Whether it gives the clients' key its second secret.
    pub(crate) rolls: bool,
    /// Whether the command turns `ack = all-live` on or off for the clients' zone. `None` for other commands.
    pub(crate) ack: Option<bool>,
}

/// The command that grants the clients' key its right.
pub(crate) fn grant() -> AdminCommand {
    AdminCommand::Grant { key: name(KEY), zone: None, right: Right::Update }
}

pub(crate) fn revoke() -> AdminCommand {
    AdminCommand::Revoke { key: name(KEY), zone: None, right: Right::Update }
}

impl Administrator {
    pub(crate) fn new(rng: Rng) -> Self {
        Self {
            current: None,
            in_flight: None,
            decided: DecidedSettings::default(),
            is_revoked: false,
            was_revoked: false,
            policy: 0,
            is_rolled: false,
            is_retired: false,
            has_removed_zone: false,
            rng,
        }
    }

    /// Whether the clients' key may lack its grant.
    pub(crate) const fn is_revoked(&self) -> bool {
        self.is_revoked
    }

    /// Whether the clients' key may have been without its grant at any time.
    pub(crate) const fn was_revoked(&self) -> bool {
        self.was_revoked
    }

    /// The secret that clients sign with. This is the second secret once it is certainly valid, which is before the
    /// first becomes invalid.
    pub(crate) const fn secret(&self) -> &'static [u8] {
        SECRETS[self.is_rolled as usize]
    }

    /// Whether the leader may refuse an update that was signed with this secret, because it is no longer a secret of
    /// the key. The receiving node may not know that yet.
    pub(crate) fn may_have_voided(&self, secret: &[u8]) -> bool {
        self.is_retired && secret == SECRETS[0]
    }

    pub(crate) fn note_settled(&mut self, is_done: Option<bool>) {
        let in_flight = self.in_flight.take();
        in_flight.iter().for_each(|command| self.decided.settled(command, is_done));
    }

    /// Settings whose value is known from the outcomes of commands.
    pub(crate) const fn decided(&self) -> &DecidedSettings {
        &self.decided
    }

    /// Whether the clients' key certainly has its second secret.
    pub(crate) const fn is_rolled(&self) -> bool {
        self.is_rolled
    }

    /// Chooses the next policy to request.
    pub(crate) fn choose_policy(&mut self, salt: u8) -> u64 {
        self.policy = u64::from(salt) % POLICIES;
        self.policy
    }

    /// Chooses the kind of the next command. A removed zone is added again next: its serial must not go back.
    pub(crate) fn pick_kind(&mut self, swarm: &Swarm) -> Option<CommandKind> {
        if std::mem::take(&mut self.has_removed_zone) {
            return Some(CommandKind::AddZone);
        }
        let kind = swarm.pick_command(&mut self.rng)?;
        self.has_removed_zone = kind == CommandKind::RemoveZone;
        Some(kind)
    }

    /// Random bytes to seal a secret.
    pub(crate) fn nonce(&mut self) -> [u8; 12] {
        self.rng.bytes()
    }

    /// A number below `below`.
    pub(crate) fn draw(&mut self, below: u64) -> u64 {
        self.rng.below(below)
    }

    /// One of these ids.
    pub(crate) fn pick(&mut self, ids: &[NodeId]) -> Option<NodeId> {
        self.rng.pick(ids).copied()
    }

    /// Whether a command that takes away a vote is in progress.
    pub(crate) fn takes_vote(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.takes_vote)
    }

    /// Whether a command waits for its outcome.
    pub(crate) fn is_busy(&self) -> bool {
        self.current.is_some()
    }
}

/// The commands that prepare a cluster before any fault, in order.
pub(crate) fn preparations(all_live: bool) -> Vec<AdminCommand> {
    let ack = if all_live { AckOption::AllLive } else { AckOption::Majority };
    let zone = main_zone();
    let contents = Contents::new(&zone, main_records()).expect("the zone that updates are sent to is a zone");
    let churn = apex_records("churn.test.", FIRST_SERIAL);
    let churn = Contents::new(&churn_zone(), churn).expect("the zone of the model is a zone");
    let key = |key: &str, nonce| AdminCommand::AddKey {
        name: name(key),
        algorithm: KeyAlgorithm::HmacSha256,
        secret: SECRETS[0].to_vec(),
        nonce: [nonce; 12],
    };
    vec![
        AdminCommand::AddZone { zone, options: ZoneOptions { ack, ..ZoneOptions::default() }, contents },
        AdminCommand::AddZone { zone: churn_zone(), options: ZoneOptions::default(), contents: churn },
        key(KEY, 1),
        key(OTHER_KEY, 2),
        key(RULED_KEY, 3),
        grant(),
    ]
}
