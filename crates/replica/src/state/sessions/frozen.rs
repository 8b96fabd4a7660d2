//! A frozen copy of the table, written as items of a checkpoint, and the restore of a table from items.
//!
//! | kind | what |
//! |---|---|
//! | 1 | one session; in clusters of the first feature level |
//! | 2 | a key and its floor |
//! | 3 | the floor of all keys |
//! | 4 | names (2 bytes of count), then sessions of them, oldest first, to the end of the item |

use super::keys::{KeyPage, key_of};
use super::pages::{Page, Pages, Slot};
use super::{Sessions, floor_of_all_hash};
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::number::Rcode;
use zone::codec::{DecodeError, Decoder, Encoder};

const SESSION: u8 = 1;
const FLOOR: u8 = 2;
const FLOOR_OF_ALL: u8 = 3;
const PAGE: u8 = 4;

/// A frozen copy. It shares its pages with the table, and releases each when it is written.
#[derive(Clone, Debug)]
pub(crate) struct FrozenSessions {
    pages: Pages,
    keys: Vec<Arc<KeyPage>>,
    /// Pages of keys whose floors are written; `None` before the floor of all keys.
    floors_written: Option<usize>,
    floor_of_all: u64,
    in_pages: bool,
}

impl Sessions {
    /// A copy for a checkpoint. `in_pages` is set if all members can read sessions by the page.
    pub(crate) fn freeze(&self, in_pages: bool) -> FrozenSessions {
        FrozenSessions {
            pages: self.pages.clone(),
            keys: self.keys.pages().to_vec(),
            floors_written: None,
            floor_of_all: self.floor_of_all,
            in_pages,
        }
    }

    /// Restores one item of a checkpoint.
    pub(crate) fn restore(&mut self, from: &mut Decoder<'_>) -> Result<(), DecodeError> {
        match from.u8()? {
            SESSION => {
                let identity = from.array()?;
                let key = self.keys.number_of(&from.name()?);
                let (time_signed, source, rcode) = (from.u64()?, from.array()?, Rcode(from.u16()?));
                self.put(&identity, key, time_signed, source, rcode);
            }
            FLOOR => {
                let (key, floor) = (self.keys.number_of(&from.name()?), from.u64()?);
                self.raise_floor(key, floor);
            }
            FLOOR_OF_ALL => {
                self.hash = self.hash.wrapping_sub(floor_of_all_hash(self.floor_of_all));
                self.floor_of_all = from.u64()?;
                self.hash = self.hash.wrapping_add(floor_of_all_hash(self.floor_of_all));
            }
            PAGE => {
                let mut keys = Vec::new();
                for _ in 0..from.u16()? {
                    keys.push(self.keys.number_of(&from.name()?));
                }
                while !from.rest().is_empty() {
                    let key = *keys.get(usize::from(from.u16()?)).ok_or(DecodeError::Unknown)?;
                    let (time, identity, source) = (from.array::<6>()?, from.array()?, from.array()?);
                    let time_signed = time.iter().fold(0, |time, &byte| time << 8 | u64::from(byte));
                    self.put(&identity, key, time_signed, source, Rcode(u16::from(from.u8()?)));
                }
            }
            _ => return Err(DecodeError::Unknown),
        }
        Ok(())
    }
}

impl FrozenSessions {
    /// Writes the next part of the table as items: first the floors, then the sessions page by page. `false` if
    /// nothing is left.
    pub(crate) fn encode_step(&mut self, mut item: impl FnMut(Encoder)) -> bool {
        match self.floors_written {
            None => {
                let mut out = Encoder::new();
                out.u8(FLOOR_OF_ALL);
                out.u64(self.floor_of_all);
                item(out);
                self.floors_written = Some(0);
            }
            Some(written) if written < self.keys.len() => {
                for key in self.keys[written]
                    .iter()
                    .flatten()
                    .filter(|key| key.floor != 0 && !planted!(CheckpointWithoutFloors))
                {
                    let mut out = Encoder::new();
                    out.u8(FLOOR);
                    out.name(&key.name);
                    out.u64(key.floor);
                    item(out);
                }
                self.floors_written = Some(written + 1);
            }
            Some(_) if planted!(CheckpointWithoutRepeats) => return false,
            Some(_) => match self.pages.pop_page() {
                Some(page) if self.in_pages => item(self.encode_page(&page)),
                Some(page) => page.iter().rev().for_each(|slot| item(self.encode_session(slot))),
                None => return false,
            },
        }
        true
    }

    fn encode_session(&self, slot: &Slot) -> Encoder {
        let mut out = Encoder::new();
        out.u8(SESSION);
        out.fixed(&slot.identity());
        out.name(&key_of(&self.keys, slot.key()).name);
        out.u64(slot.time_signed());
        out.fixed(&slot.source);
        out.u16(u16::from(slot.rcode));
        out
    }

    fn encode_page(&self, page: &Page) -> Encoder {
        let mut names = BTreeMap::new();
        for slot in page {
            let next = names.len() as u16;
            names.entry(slot.key()).or_insert(next);
        }
        let mut in_order: Vec<_> = names.iter().map(|(&key, &number)| (number, key)).collect();
        in_order.sort_unstable();
        let mut out = Encoder::new();
        out.u8(PAGE);
        out.u16(in_order.len() as u16);
        in_order.into_iter().for_each(|(_, key)| out.name(&key_of(&self.keys, key).name));
        for slot in page.iter().rev() {
            out.u16(names[&slot.key()]);
            out.fixed(&slot.sort_key);
            out.fixed(&slot.source);
            out.u8(slot.rcode);
        }
        out
    }
}
