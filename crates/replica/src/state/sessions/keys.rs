//! Key names by number, with the number of sessions and the floor of each.

use std::sync::Arc;
use tsig::NameTable;
use wire::name::Name;

/// Keys of one page; pages are shared with frozen copies.
const PAGE_KEYS: usize = 64;

/// The state of a key.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) name: Arc<Name>,
    /// Number of its sessions.
    sessions: u32,
    /// Latest signed time of its evicted sessions; zero if none was evicted. It outlives the key, so that a key that
    /// is added again does not execute an update twice.
    pub(super) floor: u64,
}

/// A page of keys; `None` is a free number.
pub(super) type KeyPage = Vec<Option<Key>>;

/// All keys with a session or a floor.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pages: Vec<Arc<KeyPage>>,
    numbers: NameTable<u32>,
    free: Vec<u32>,
    floor_count: usize,
}

impl Keys {
    /// Number of keys with a floor.
    pub(super) const fn floor_count(&self) -> usize {
        self.floor_count
    }

    pub(super) fn pages(&self) -> &[Arc<KeyPage>] {
        &self.pages
    }

    pub(super) fn floor(&self, name: &Name) -> u64 {
        self.numbers.get(name.as_ref()).map_or(0, |&number| self.get(number).floor)
    }

    pub(super) fn get(&self, number: u32) -> &Key {
        key_of(&self.pages, number)
    }

    fn get_mut(&mut self, number: u32) -> &mut Option<Key> {
        let number = number as usize;
        &mut Arc::make_mut(&mut self.pages[number / PAGE_KEYS])[number % PAGE_KEYS]
    }

    /// Counts another session of a key.
    pub(super) fn enter(&mut self, number: u32) {
        if let Some(key) = self.get_mut(number) {
            key.sessions += 1;
        }
    }

    /// Counts a removed session of a key.
    pub(super) fn leave(&mut self, number: u32) {
        if let Some(key) = self.get_mut(number) {
            key.sessions -= 1;
        }
        self.drop_unused(number);
    }

    /// Raises the floor of a key; returns the previous floor if it was lower.
    pub(super) fn raise_floor(&mut self, number: u32, floor: u64) -> Option<u64> {
        let key = self.get_mut(number).as_mut()?;
        let before = key.floor;
        if before < floor {
            key.floor = floor;
            self.floor_count += usize::from(before == 0);
            return Some(before);
        }
        self.drop_unused(number);
        None
    }

    /// Removes and returns the lowest floor; among equal ones that of the first name.
    pub(super) fn take_lowest_floor(&mut self) -> Option<(Arc<Name>, u64)> {
        let numbered = self.numbers.values().map(|&number| (number, self.get(number)));
        let lowest = numbered.filter(|(_, key)| key.floor != 0).min_by_key(|(_, key)| (key.floor, &key.name));
        let (number, floor) = lowest.map(|(number, key)| (number, key.floor))?;
        let key = self.get_mut(number).as_mut()?;
        key.floor = 0;
        let name = key.name.clone();
        self.floor_count -= 1;
        self.drop_unused(number);
        Some((name, floor))
    }

    /// The number of a key that is about to get a session or a floor.
    pub(super) fn number_of(&mut self, name: &Name) -> u32 {
        if let Some(&number) = self.numbers.get(name.as_ref()) {
            return number;
        }
        let number = self.free.pop().unwrap_or_else(|| self.new_number());
        *self.get_mut(number) = Some(Key { name: Arc::new(name.clone()), sessions: 0, floor: 0 });
        self.numbers.insert(name.as_ref(), number);
        number
    }

    fn new_number(&mut self) -> u32 {
        if self.pages.last().is_none_or(|page| page.len() == PAGE_KEYS) {
            self.pages.push(Arc::new(KeyPage::with_capacity(PAGE_KEYS)));
        }
        let full_pages = self.pages.len() - 1;
        let page = Arc::make_mut(&mut self.pages[full_pages]);
        page.push(None);
        u32::try_from(full_pages * PAGE_KEYS + page.len() - 1).expect("there are fewer names than sessions and floors")
    }

    fn drop_unused(&mut self, number: u32) {
        let key = self.get(number);
        if key.sessions == 0 && key.floor == 0 {
            let name = key.name.clone();
            self.numbers.remove(name.as_ref().as_ref());
            *self.get_mut(number) = None;
            self.free.push(number);
        }
    }
}

/// The key with the number in a session.
pub(super) fn key_of(pages: &[Arc<KeyPage>], number: u32) -> &Key {
    let key = &pages[number as usize / PAGE_KEYS][number as usize % PAGE_KEYS];
    key.as_ref().expect("a number is free only when no session and no floor has it")
}
