//! A model of the settings without Raft. It follows the outcomes of the administrator's commands. At the end, every
//! member must have the same values.
//!
//! A command whose outcome is unknown may take effect at any later time, so the setting that it changes is no longer
//! checked.

use replica::Replica;
use replica::io::{AdminCommand, NodeId, OptionsChange, TrustCommand, ZoneOptions};
use std::collections::BTreeMap;
use wire::name::Name;
use zone::ZoneId;

/// A setting that an administrator changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    /// A key: its algorithm, and whether it has two secrets.
    Key(Name),
    /// A grant of a key.
    Grant(Name, Option<ZoneId>, String),
    /// The options of a zone.
    Options(ZoneId),
    /// The address of a member.
    Address(NodeId),
    /// The CA that issues certificates.
    Issuer,
    /// The data key that seals secrets.
    DataKey,
}

/// The value of an item as text; `None` if it does not exist.
type Value = Option<String>;

/// The values that settings must have, from the outcomes of the commands.
#[derive(Debug, Default)]
pub(crate) struct DecidedSettings {
    /// The value of each item; `None` once an uncertain command may change it.
    items: BTreeMap<Item, Option<Value>>,
    /// The options of each zone, to which the next command adds its change.
    options: BTreeMap<ZoneId, ZoneOptions>,
}

impl DecidedSettings {
    /// Records the outcome of a command: done, refused, or unknown (`None`).
    pub(crate) fn settled(&mut self, command: &AdminCommand, is_done: Option<bool>) {
        if is_done == Some(false) {
            return;
        }
        for (item, value) in self.effects(command) {
            let known = self.items.entry(item).or_insert(Some(None));
            // An earlier command with an unknown outcome may still take effect after this one.
            *known = known.as_ref().and(is_done).map(|_| value);
        }
        if let (AdminCommand::SetZoneOptions { zone, .. } | AdminCommand::AddZone { zone, .. }, None) =
            (command, is_done)
        {
            self.options.remove(zone);
        }
    }

    fn effects(&mut self, command: &AdminCommand) -> Vec<(Item, Value)> {
        let key = |name: &Name, algorithm: &str, is_rolling: bool| {
            (Item::Key(name.clone()), Some(format!("{algorithm} {is_rolling}")))
        };
        let algorithm_of =
            |name_: &Name| if name_.to_string().starts_with("key-") { "HmacSha512" } else { "HmacSha256" };
        let grant =
            |key: &Name, zone: &Option<ZoneId>, right| Item::Grant(key.clone(), zone.clone(), format!("{right:?}"));
        match command {
            AdminCommand::AddKey { name, algorithm, .. } => vec![key(name, &format!("{algorithm:?}"), false)],
            AdminCommand::RollKey { name, .. } => vec![key(name, algorithm_of(name), true)],
            AdminCommand::RetireKey { name } => vec![key(name, algorithm_of(name), false)],
            AdminCommand::RemoveKey { name } => {
                let of_key = |item: &&Item| matches!(item, Item::Grant(of, ..) if of == name);
                let grants = self.items.keys().filter(of_key).cloned().map(|item| (item, None)).collect::<Vec<_>>();
                grants.into_iter().chain([(Item::Key(name.clone()), None)]).collect()
            }
            AdminCommand::Grant { key, zone, right } => vec![(grant(key, zone, right), Some(String::new()))],
            AdminCommand::Revoke { key, zone, right } => vec![(grant(key, zone, right), None)],
            AdminCommand::AddZone { zone, options, .. } => {
                self.options.insert(zone.clone(), *options);
                vec![(Item::Options(zone.clone()), Some(format!("{options:?}")))]
            }
            AdminCommand::SetZoneOptions { zone, change } => self.options_changed(zone, *change),
            AdminCommand::RemoveZone { zone } => {
                self.options.remove(zone);
                vec![(Item::Options(zone.clone()), None)]
            }
            AdminCommand::MoveNode { id, address } => vec![(Item::Address(*id), Some(address.clone()))],
            AdminCommand::RemoveNode { id } | AdminCommand::ReplaceNode { gone: id, .. } => {
                vec![(Item::Address(*id), None)]
            }
            // The first CA issues immediately.
            AdminCommand::Trust(TrustCommand::AddCa { number: 1, .. }) if self.has_no_issuer() => {
                vec![(Item::Issuer, Some("1".into()))]
            }
            AdminCommand::Trust(TrustCommand::UseCa { number }) => vec![self.newest(Item::Issuer, *number)],
            AdminCommand::Trust(TrustCommand::UseDataKey { number }) => vec![self.newest(Item::DataKey, *number)],
            _ => Vec::new(),
        }
    }

    /// The value after a command that uses this number. A lower number than the current one changes nothing.
    fn newest(&self, item: Item, number: u32) -> (Item, Value) {
        let current = self.items.get(&item).cloned().flatten().flatten().and_then(|text| text.parse().ok());
        (item, Some(number.max(current.unwrap_or(0)).to_string()))
    }

    fn has_no_issuer(&self) -> bool {
        self.items.get(&Item::Issuer).is_none_or(|issuer| *issuer == Some(Some("0".into())))
    }

    fn options_changed(&mut self, zone: &ZoneId, change: OptionsChange) -> Vec<(Item, Value)> {
        let Some(options) = self.options.get_mut(zone) else { return Vec::new() };
        *options = change.of(*options);
        vec![(Item::Options(zone.clone()), Some(format!("{options:?}")))]
    }

    /// Checks at the end that a member has the expected values.
    pub(crate) fn compare(&self, id: NodeId, replica: &Replica) -> Result<(), String> {
        for (item, expected) in &self.items {
            let found = found(item, replica);
            match expected {
                Some(expected) if *expected != found => {
                    return Err(format!("{id}: {item:?} is {found:?}, expected {expected:?}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Number of items with a known value.
    pub(crate) fn known(&self) -> u64 {
        self.items.values().flatten().count() as u64
    }
}

fn found(item: &Item, replica: &Replica) -> Value {
    match item {
        Item::Key(name) => replica.key(name).map(|key| format!("{:?} {}", key.algorithm, key.is_rolling)),
        Item::Grant(key, zone, right) => {
            let grants = replica.key(key)?.grants;
            let is_it = |(of, what): &(Option<ZoneId>, _)| of == zone && format!("{what:?}") == *right;
            grants.iter().any(is_it).then(String::new)
        }
        Item::Options(zone) => replica.zone_options(zone).map(|options| format!("{options:?}")),
        Item::Address(id) => {
            let members = replica.trust().members;
            members.into_iter().find(|member| member.id == *id).map(|member| member.address)
        }
        Item::Issuer => Some(replica.trust().issuer.to_string()),
        Item::DataKey => Some(replica.trust().data_key.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::name;
    use replica::io::Right;

    #[test]
    fn an_older_ca_does_not_issue_again() {
        let mut decided = DecidedSettings::default();
        for (number, expected) in [(0, "0"), (2, "2"), (1, "2")] {
            decided.settled(&AdminCommand::Trust(TrustCommand::UseCa { number }), Some(true));
            assert_eq!(decided.items[&Item::Issuer], Some(Some(expected.to_owned())));
        }
    }

    #[test]
    fn setting_is_known_until_a_command_is_uncertain() {
        let mut decided = DecidedSettings::default();
        let grant = AdminCommand::Grant { key: name("a."), zone: None, right: Right::Transfer };
        decided.settled(&grant, Some(false));
        assert_eq!(decided.known(), 0);
        decided.settled(&grant, Some(true));
        let item = Item::Grant(name("a."), None, "Transfer".into());
        assert_eq!(decided.items[&item], Some(Some(String::new())));
        decided.settled(&AdminCommand::RemoveKey { name: name("a.") }, Some(true));
        assert_eq!(decided.items[&item], Some(None));
        decided.settled(&grant, None);
        assert_eq!((decided.items[&item].clone(), decided.known()), (None, 1));
        decided.settled(&grant, Some(true));
        assert_eq!(decided.items[&item], None, "the earlier command may take effect after this one");
    }
}
