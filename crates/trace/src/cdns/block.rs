//! A block: its tables (RFC 8618 7.3.2), and its messages in order of time.

use super::cbor::{Item, Items, fields, fields_at, item_at, number};
use crate::limits::CDNS_ITEMS_MAX;
use std::ops::Range;

/// Parts of responses that are recorded, as bits of `query-response-hints` (RFC 8618 7.3.1.1.1.1).
const RESPONSE_SECTIONS: u64 = 0b111 << 15;
/// Bits of `qr-sig-flags` (RFC 8618 7.3.2.3.2).
pub(super) const HAS_QUERY: u64 = 1 << 0;
pub(super) const HAS_RESPONSE: u64 = 1 << 1;
/// Default and maximum resolution of times, in ticks per second.
const TICKS_DEFAULT: u64 = 1_000_000;
const TICKS_MAX: u64 = 1_000_000_000_000;

/// Parameters of blocks, from the preamble.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Parameters {
    ticks_per_second: u64,
    /// Whether all records of responses are recorded.
    has_responses: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { ticks_per_second: TICKS_DEFAULT, has_responses: false }
    }
}

impl Parameters {
    /// Reads an item of `block-parameters`.
    pub(super) fn read(bytes: &[u8], item: &Item) -> Self {
        let Item::Map(map) = item else { return Self::default() };
        let [Some(Item::Map(storage))] = fields::<1>(bytes, map.clone()) else { return Self::default() };
        let [ticks, _, hints] = fields::<3>(bytes, storage);
        let hints = match hints {
            Some(Item::Map(hints)) => number(&fields::<1>(bytes, hints)[0]).unwrap_or_default(),
            _ => 0,
        };
        let ticks_per_second = number(&ticks).unwrap_or(TICKS_DEFAULT);
        Self { ticks_per_second, has_responses: hints & RESPONSE_SECTIONS == RESPONSE_SECTIONS }
    }
}

/// Kinds of recorded messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EventKind {
    /// The query of an item of `query-responses`.
    Query,
    /// Its response.
    Response,
    /// An item without query and response.
    Neither,
    /// An item of `malformed-messages`.
    Malformed,
}

/// A recorded message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Event {
    pub(super) at_ns: u64,
    pub(super) kind: EventKind,
    /// Position of its item.
    pub(super) start: u32,
}

/// A table: the position of each item.
type Table = Vec<u32>;

/// A block, sorted by time.
#[derive(Default)]
pub(super) struct Block {
    bytes: Vec<u8>,
    parameters: Parameters,
    addresses: Table,
    classtypes: Table,
    names: Table,
    signatures: Table,
    question_lists: Table,
    questions: Table,
    record_lists: Table,
    records: Table,
    malformed: Table,
    events: Vec<Event>,
    next_event: usize,
    other_count: usize,
}

/// Keys of a block.
const PREAMBLE: usize = 0;
const TABLES: usize = 2;
const QUERY_RESPONSES: usize = 3;
const ADDRESS_EVENTS: usize = 4;
const MALFORMED: usize = 5;

impl Block {
    /// Reads a block. The bytes must be exactly one item.
    pub(super) fn read(bytes: Vec<u8>, parameters: &[Parameters]) -> Result<Self, &'static str> {
        let block: [Option<Item>; 6] = fields_at(&bytes, 0);
        let [earliest, parameters_index] = match &block[PREAMBLE] {
            Some(Item::Map(preamble)) => fields(&bytes, preamble.clone()),
            _ => return Err("a block without a preamble"),
        };
        let index = number(&parameters_index).unwrap_or_default();
        let parameters = usize::try_from(index).ok().and_then(|index| parameters.get(index));
        let parameters = *parameters.ok_or("a block without parameters")?;
        if !(1..=TICKS_MAX).contains(&parameters.ticks_per_second) {
            return Err("ticks per second out of range");
        }
        let mut parsed = Self { parameters, ..Self::default() };
        if let Some(Item::Map(tables)) = &block[TABLES] {
            let tables = fields::<9>(&bytes, tables.clone());
            let into = [
                &mut parsed.addresses,
                &mut parsed.classtypes,
                &mut parsed.names,
                &mut parsed.signatures,
                &mut parsed.question_lists,
                &mut parsed.questions,
                &mut parsed.record_lists,
                &mut parsed.records,
                &mut parsed.malformed,
            ];
            for (into, table) in into.into_iter().zip(&tables) {
                *into = starts(&bytes, table)?;
            }
        }
        let items = starts(&bytes, &block[QUERY_RESPONSES])?;
        let malformed = starts(&bytes, &block[MALFORMED])?;
        parsed.other_count = starts(&bytes, &block[ADDRESS_EVENTS])?.len();
        parsed.bytes = bytes;
        let earliest = parsed.earliest_ticks(&earliest);
        for start in items {
            parsed.add_events(start, earliest);
        }
        for start in malformed {
            let [offset] = parsed.fields(start);
            let at_ns = parsed.nanoseconds(earliest + ticks(&offset));
            parsed.events.push(Event { at_ns, kind: EventKind::Malformed, start });
        }
        parsed.events.sort_by_key(|event| event.at_ns);
        Ok(parsed)
    }

    /// Adds the query and the response of an item.
    fn add_events(&mut self, start: u32, earliest: i128) {
        let item: [Option<Item>; 7] = self.fields(start);
        let signature: [Option<Item>; 5] = self.table_fields(&self.signatures, number(&item[4]));
        let flags = number(&signature[4]).unwrap_or_default();
        let at = earliest + ticks(&item[0]);
        let at_ns = self.nanoseconds(at);
        if flags & (HAS_QUERY | HAS_RESPONSE) == 0 {
            self.events.push(Event { at_ns, kind: EventKind::Neither, start });
        }
        if flags & HAS_QUERY != 0 {
            self.events.push(Event { at_ns, kind: EventKind::Query, start });
        }
        if flags & HAS_RESPONSE != 0 {
            // Without a query, the time is that of the response.
            let delay = if flags & HAS_QUERY != 0 { ticks(&item[6]) } else { 0 };
            self.events.push(Event { at_ns: self.nanoseconds(at + delay), kind: EventKind::Response, start });
        }
    }

    fn earliest_ticks(&self, earliest: &Option<Item>) -> i128 {
        let Some(Item::Array(parts)) = earliest else { return 0 };
        let mut parts = Items::new(&self.bytes, parts.clone()).map(|(_, part)| ticks(&Some(part)));
        let (seconds, ticks_left) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        seconds * i128::from(self.parameters.ticks_per_second) + ticks_left
    }

    /// Converts ticks. Times before 1970 become 1970, and too large times become the largest one.
    fn nanoseconds(&self, ticks: i128) -> u64 {
        let per_second = i128::from(self.parameters.ticks_per_second);
        let (seconds, ticks_left) = (ticks.div_euclid(per_second), ticks.rem_euclid(per_second));
        let at = seconds.saturating_mul(1_000_000_000).saturating_add(ticks_left * 1_000_000_000 / per_second);
        u64::try_from(at.max(0)).unwrap_or(u64::MAX)
    }

    /// The next recorded message.
    pub(super) fn next(&mut self) -> Option<Event> {
        let event = self.events.get(self.next_event).copied()?;
        self.next_event += 1;
        Some(event)
    }

    /// Number of records that are not messages (RFC 8618 7.3.2.5).
    pub(super) const fn other_count(&self) -> usize {
        self.other_count
    }

    /// Whether records of responses are recorded.
    pub(super) const fn has_responses(&self) -> bool {
        self.parameters.has_responses
    }

    /// Returns the buffer for reuse.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The values of the map at `start`.
    pub(super) fn fields<const N: usize>(&self, start: u32) -> [Option<Item>; N] {
        fields_at(&self.bytes, start as usize)
    }

    /// The values of a map.
    pub(super) fn fields_of<const N: usize>(&self, map: &Range<usize>) -> [Option<Item>; N] {
        fields(&self.bytes, map.clone())
    }

    pub(super) fn bytes(&self, range: &Range<usize>) -> &[u8] {
        &self.bytes[range.clone()]
    }

    fn table_fields<const N: usize>(&self, table: &Table, index: Option<u64>) -> [Option<Item>; N] {
        entry(table, index).map_or([const { None }; N], |start| self.fields(start))
    }

    /// The bytes of an address.
    pub(super) fn address(&self, index: Option<u64>) -> Option<&[u8]> {
        self.bytes_of(&self.addresses, index)
    }

    /// The bytes of a name or of rdata.
    pub(super) fn name_or_rdata(&self, index: Option<u64>) -> Option<&[u8]> {
        self.bytes_of(&self.names, index)
    }

    fn bytes_of(&self, table: &Table, index: Option<u64>) -> Option<&[u8]> {
        match item_at(&self.bytes, entry(table, index)? as usize)? {
            Item::Bytes(range) => self.bytes.get(range),
            _ => None,
        }
    }

    /// Type and class.
    pub(super) fn classtype(&self, index: Option<u64>) -> Option<(u16, u16)> {
        let [rtype, class] = self.table_fields(&self.classtypes, index);
        let number = |item| number(&item).and_then(|number| u16::try_from(number).ok());
        Some((number(rtype)?, number(class)?))
    }

    /// The fields that many queries share.
    pub(super) fn signature(&self, index: Option<u64>) -> [Option<Item>; 17] {
        self.table_fields(&self.signatures, index)
    }

    /// The values of an item of `malformed-message-data`.
    pub(super) fn malformed(&self, index: Option<u64>) -> [Option<Item>; 4] {
        self.table_fields(&self.malformed, index)
    }

    /// The questions of a list. `None` for a missing item.
    pub(super) fn questions(&self, list: u64) -> impl Iterator<Item = Option<[Option<Item>; 2]>> {
        self.list(&self.question_lists, &self.questions, list)
    }

    /// The records of a list. `None` for a missing item.
    pub(super) fn records(&self, list: u64) -> impl Iterator<Item = Option<[Option<Item>; 4]>> {
        self.list(&self.record_lists, &self.records, list)
    }

    fn list<'b, const N: usize>(
        &'b self,
        lists: &Table,
        table: &'b Table,
        list: u64,
    ) -> impl Iterator<Item = Option<[Option<Item>; N]>> + use<'b, N> {
        let start = entry(lists, Some(list));
        let range = match start.and_then(|start| item_at(&self.bytes, start as usize)) {
            Some(Item::Array(range)) => Some(range),
            _ => None,
        };
        // A missing list counts as one missing item.
        let missing = range.is_none().then_some(None);
        let items = Items::new(&self.bytes, range.unwrap_or_default());
        let each = items.map(move |(_, index)| Some(self.fields(entry(table, number(&Some(index)))?)));
        missing.into_iter().chain(each)
    }
}

fn entry(table: &Table, index: Option<u64>) -> Option<u32> {
    table.get(usize::try_from(index?).ok()?).copied()
}

/// Positions of the items of a table. A missing table is empty.
fn starts(bytes: &[u8], table: &Option<Item>) -> Result<Table, &'static str> {
    let Some(Item::Array(range)) = table else { return Ok(Table::new()) };
    let mut starts = Table::new();
    for (start, _) in Items::new(bytes, range.clone()) {
        if starts.len() == CDNS_ITEMS_MAX {
            return Err("a table of more than a million items");
        }
        // A block is smaller than 4 GiB.
        starts.push(start as u32);
    }
    Ok(starts)
}

/// A number of ticks, or zero. Bounded, so that products and sums do not overflow.
fn ticks(item: &Option<Item>) -> i128 {
    match item {
        Some(Item::Number(ticks)) => (*ticks).clamp(i64::MIN.into(), i64::MAX.into()),
        _ => 0,
    }
}
