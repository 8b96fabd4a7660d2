//! Sessions in memory: pages of slots, ordered by signed time. The oldest are evicted first.
//!
//! ```text
//!   directory   lowest place of each page, the page        (some 25,000 of 6 M sessions)
//!   page        up to 256 slots of 42 bytes, newest first (so that the oldest leaves at the end)
//! ```
//! No operation touches more than two pages. A full page is split in two; the table is never rebuilt as a whole. Frozen
//! copies share pages, which are copied when they change.

use crate::limits::{SESSION_PAGE_MAX, TIME_SIGNED_MAX};
use std::collections::VecDeque;
use std::sync::Arc;

/// Slots by which a page grows: a small step, so that few stay unused and few are copied.
const PAGE_SLOTS_STEP: usize = 16;

/// Identifies a signed message.
pub(crate) type Identity = [u8; 16];

/// The key that sessions are ordered by: signed time, then identity, both as bytes.
pub(super) type SortKey = [u8; 6 + 16];

/// One session, without padding: there are millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) sort_key: SortKey,
    pub(super) source: [u8; 16],
    /// Number of the key's name, big-endian.
    key: [u8; 3],
    pub(super) rcode: u8,
}

const _: () = assert!(size_of::<Slot>() == 42 && align_of::<Slot>() == 1, "a slot has no padding");

pub(super) fn sort_key_of(time_signed: u64, identity: &Identity) -> SortKey {
    let mut sort_key = [0; 22];
    sort_key[..6].copy_from_slice(&time_signed.min(TIME_SIGNED_MAX).to_be_bytes()[2..]);
    sort_key[6..].copy_from_slice(identity);
    sort_key
}

impl Slot {
    pub(super) fn new(sort_key: SortKey, source: [u8; 16], key: u32, rcode: u8) -> Self {
        let [high, key @ ..] = key.to_be_bytes();
        assert_eq!(high, 0, "names of keys are fewer than 2^24");
        Self { sort_key, source, key, rcode }
    }

    pub(super) fn time_signed(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes[2..].copy_from_slice(&self.sort_key[..6]);
        u64::from_be_bytes(bytes)
    }

    pub(super) fn identity(&self) -> Identity {
        let mut identity = [0; 16];
        identity.copy_from_slice(&self.sort_key[6..]);
        identity
    }

    pub(super) const fn key(&self) -> u32 {
        u32::from_be_bytes([0, self.key[0], self.key[1], self.key[2]])
    }
}

/// Slots, newest first.
pub(super) type Page = Vec<Slot>;

/// All pages, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages {
    /// A sort key at or below every slot of the page and above every slot of the page before.
    directory: VecDeque<(SortKey, Arc<Page>)>,
    len: usize,
}

impl Pages {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// The page that contains a sort key, or where it belongs.
    fn page_of(&self, sort_key: &SortKey) -> usize {
        // New sessions are mostly the newest.
        if self.directory.back().is_some_and(|(lowest, _)| lowest <= sort_key) {
            return self.directory.len() - 1;
        }
        self.directory.partition_point(|(lowest, _)| lowest <= sort_key).saturating_sub(1)
    }

    pub(super) fn get(&self, sort_key: &SortKey) -> Option<&Slot> {
        let (_, page) = self.directory.get(self.page_of(sort_key))?;
        page.get(find(page, sort_key).ok()?)
    }

    /// Inserts a session; returns the one that it replaced.
    pub(super) fn put(&mut self, slot: Slot) -> Option<Slot> {
        let number = self.page_of(&slot.sort_key);
        let Some((lowest, page)) = self.directory.get_mut(number) else {
            self.append(slot);
            return None;
        };
        let at = match find(page, &slot.sort_key) {
            Ok(at) => return Some(core::mem::replace(&mut Arc::make_mut(page)[at], slot)),
            Err(at) => at,
        };
        if page.len() < SESSION_PAGE_MAX {
            *lowest = slot.sort_key.min(*lowest);
            let page = Arc::make_mut(page);
            if page.len() == page.capacity() {
                page.reserve_exact(PAGE_SLOTS_STEP);
            }
            page.insert(at, slot);
            self.len += 1;
            return None;
        }
        if at == 0 && number + 1 == self.directory.len() {
            // Sessions that arrive in order, as from a checkpoint, leave full pages.
            self.append(slot);
            return None;
        }
        self.split(number);
        self.put(slot)
    }

    fn append(&mut self, slot: Slot) {
        let mut page = Page::with_capacity(PAGE_SLOTS_STEP);
        page.push(slot);
        self.directory.push_back((slot.sort_key, Arc::new(page)));
        self.len += 1;
    }

    /// Splits a page in two.
    fn split(&mut self, number: usize) {
        let (_, page) = &mut self.directory[number];
        let (newer, older) = page.split_at(SESSION_PAGE_MAX / 2);
        let (newer, older) = (newer.to_vec(), older.to_vec());
        *page = Arc::new(older);
        let lowest = newer[newer.len() - 1].sort_key;
        self.directory.insert(number + 1, (lowest, Arc::new(newer)));
    }

    /// Removes and returns the oldest.
    pub(super) fn pop_first(&mut self) -> Option<Slot> {
        let (_, page) = self.directory.front_mut()?;
        let slot = Arc::make_mut(page).pop()?;
        if page.is_empty() {
            self.directory.pop_front();
        }
        self.len -= 1;
        Some(slot)
    }

    /// Removes and returns the newest.
    pub(super) fn pop_last(&mut self) -> Option<Slot> {
        let (_, page) = self.directory.back_mut()?;
        let slot = Arc::make_mut(page).remove(0);
        if page.is_empty() {
            self.directory.pop_back();
        }
        self.len -= 1;
        Some(slot)
    }

    /// The signed times of the oldest and the newest.
    pub(super) fn times(&self) -> Option<(u64, u64)> {
        let (oldest, newest) = (self.directory.front()?.1.last()?, self.directory.back()?.1.first()?);
        Some((oldest.time_signed(), newest.time_signed()))
    }

    #[cfg(test)]
    pub(super) fn page_count(&self) -> usize {
        self.directory.len()
    }

    /// Removes and returns the oldest page.
    pub(super) fn pop_page(&mut self) -> Option<Arc<Page>> {
        let (_, page) = self.directory.pop_front()?;
        self.len -= page.len();
        Some(page)
    }
}

/// The position of a sort key among slots, newest first; or the position where it belongs.
fn find(page: &Page, sort_key: &SortKey) -> Result<usize, usize> {
    page.binary_search_by(|slot| sort_key.cmp(&slot.sort_key))
}
