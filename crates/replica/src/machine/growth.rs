//! The growth of each zone by each key since this process started, which the leader compares with the key's quota.
//! Every member counts what it applies, so a new leader continues the count. It is not replicated state.

use crate::limits::GROWTH_ACCOUNTS_MAX;
use crate::state::{Item, item_hash};
use std::collections::BTreeMap;
use wire::name::Name;
use zone::{Changeset, Record, ZoneId};

/// Bytes of a record in the memory of a zone, without its owner and its rdata.
const RECORD_BYTES: i64 = 16;

/// A key in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AccountId(u128);

impl AccountId {
    pub(crate) fn new(zone: &ZoneId, key: &Name) -> Self {
        Self(item_hash(Item::Flow, &[&zone.view.to_be_bytes(), zone.apex.as_bytes(), key.as_bytes()]))
    }
}

/// Bytes that a change adds minus those that it deletes.
pub(crate) fn growth_of(changeset: &Changeset) -> i64 {
    let bytes = |records: &[Record]| -> i64 {
        records.iter().map(|of| (of.owner.as_bytes().len() + of.rdata.len()) as i64 + RECORD_BYTES).sum()
    };
    bytes(&changeset.added) - bytes(&changeset.deleted)
}

/// All accounts; none is empty.
#[derive(Debug, Default)]
pub(crate) struct GrowthAccounts {
    accounts: BTreeMap<AccountId, i64>,
}

impl GrowthAccounts {
    /// The bytes in an account.
    pub(crate) fn bytes(&self, account: AccountId) -> i64 {
        self.accounts.get(&account).copied().unwrap_or(0)
    }

    /// Adds to an account or subtracts from it. It never falls below zero, because a key may delete records that
    /// others added.
    pub(crate) fn note(&mut self, account: AccountId, bytes: i64) {
        let is_new = !self.accounts.contains_key(&account);
        if is_new && bytes > 0 && self.accounts.len() >= GROWTH_ACCOUNTS_MAX {
            let smallest = self.accounts.iter().min_by_key(|(_, bytes)| **bytes).map(|(&account, _)| account);
            smallest.and_then(|account| self.accounts.remove(&account));
        }
        let now = self.bytes(account).saturating_add(bytes);
        if now > 0 {
            self.accounts.insert(account, now);
        } else {
            self.accounts.remove(&account);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(number: u32) -> AccountId {
        let key: Name = format!("k{number}.").parse().unwrap();
        AccountId::new(&ZoneId { view: 0, apex: "a.".parse().unwrap() }, &key)
    }

    #[test]
    fn an_account_grows_shrinks_and_is_never_below_zero() {
        let mut accounts = GrowthAccounts::default();
        accounts.note(account(1), 100);
        accounts.note(account(1), -30);
        assert_eq!((accounts.bytes(account(1)), accounts.bytes(account(2))), (70, 0));
        accounts.note(account(1), -200);
        accounts.note(account(1), 5);
        assert_eq!(accounts.bytes(account(1)), 5);
    }

    #[test]
    fn the_largest_accounts_are_kept() {
        let mut accounts = GrowthAccounts::default();
        accounts.note(account(0), 1_000);
        for number in 1..=GROWTH_ACCOUNTS_MAX as u32 + 10 {
            accounts.note(account(number), 10);
        }
        assert_eq!((accounts.accounts.len(), accounts.bytes(account(0))), (GROWTH_ACCOUNTS_MAX, 1_000));
    }
}
