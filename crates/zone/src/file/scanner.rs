//! Turns entries into records: directives, omitted fields, included files.

use super::entry::{Directive, Head, scan_directive};
use super::error::{FileError, FileLine, Reason, Warning, WarningKind};
use super::generate::{Budget, Range, expand};
use super::reader::{Entry, Reader};
use super::source::Source;
use crate::limits::{
    FILE_RECORDS_BYTES_MAX, FILE_RECORDS_MAX, INCLUDE_DEPTH_MAX, INCLUDE_FILES_MAX, TTL_MAX, WARNINGS_MAX,
};
use crate::record::{Record, RecordList, RecordRef};
use crate::text::token::{Step, Token, Word, tokenize};
use crate::text::words::Words;
use crate::text::{Fault, Part, TextError, excerpt, is_undotted, scan_name, scan_rdata};
use wire::name::{Name, NameRef};
use wire::number::Rtype;

/// Settings for reading a zone file.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The TTL in seconds of records without one, before any `$TTL`. `None`: such records are refused.
    pub ttl: Option<u32>,
    /// Maximum number of records.
    pub records_max: usize,
    /// Maximum size of the records, in bytes of a [`RecordList`].
    pub bytes_max: usize,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self { ttl: None, records_max: FILE_RECORDS_MAX, bytes_max: FILE_RECORDS_BYTES_MAX }
    }
}

/// A record and its position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScannedRecord {
    /// The record.
    pub record: Record,
    /// Its first line.
    pub location: FileLine,
}

/// Reads records one by one.
pub struct Scanner<'s> {
    source: &'s mut dyn Source,
    /// The open files. Each is included by the one before it.
    files: Vec<File>,
    /// The names of the files. [`FileLine`] has an index into this list.
    names: Vec<String>,
    tokens: Vec<Token>,
    ttl: Ttl,
    generating: Option<ActiveGenerate>,
    generate_budget: Budget,
    records_left: usize,
    warnings: Vec<Warning>,
    warning_count: usize,
    rdata: Vec<u8>,
    owner: Vec<u8>,
}

struct File {
    reader: Reader,
    index: u16,
    /// `$ORIGIN`, and the owner of the previous record. Each file has its own (RFC 1035 5.1).
    origin: Option<Name>,
    owner: Vec<u8>,
}

/// The TTLs for records without one. They are shared by all files: `$TTL` applies to records "appearing after the
/// directive" (RFC 2308 4). BIND and NSD keep it after the end of an included file.
struct Ttl {
    /// `$TTL`.
    default: Option<u32>,
    /// The TTL of the last record with one.
    last: Option<u32>,
    is_warned: bool,
}

/// Why an entry is refused, and the word at fault.
struct Refused {
    reason: Reason,
    fault: Fault,
    /// The line at fault, counted from the first line of the entry.
    line: u32,
}

impl Refused {
    /// Blames the word at fault in `words`.
    fn of(words: &Words<'_>, reason: Reason) -> Self {
        let error = if let Reason::Text(error) = &reason { *error } else { TextError::Rtype };
        Self { fault: Fault::of(words, error), line: words.line(), reason }
    }
}

impl<R: Into<Reason>> From<R> for Refused {
    fn from(reason: R) -> Self {
        Self { reason: reason.into(), fault: Fault::default(), line: 0 }
    }
}

/// A `$GENERATE` in progress.
struct ActiveGenerate {
    range: Range,
    lhs: Vec<u8>,
    rhs: Vec<u8>,
    rtype: Rtype,
    ttl: u32,
    location: FileLine,
    /// Whether one of its records has caused a warning. The others would mostly repeat it.
    is_warned: bool,
}

impl<'s> Scanner<'s> {
    /// Opens the zone file. Relative names are relative to `origin` until a `$ORIGIN`.
    ///
    /// # Errors
    /// The source cannot open the file.
    pub fn new(source: &'s mut dyn Source, origin: Option<&Name>, options: &LoadOptions) -> Result<Self, FileError> {
        let mut scanner = Self {
            source,
            files: Vec::new(),
            names: Vec::new(),
            tokens: Vec::new(),
            ttl: Ttl { default: options.ttl, last: None, is_warned: false },
            generating: None,
            generate_budget: Budget::new(),
            records_left: options.records_max,
            warnings: Vec::new(),
            warning_count: 0,
            rdata: Vec::new(),
            owner: Vec::new(),
        };
        match scanner.open(None, origin.cloned(), Vec::new()) {
            Ok(()) => Ok(scanner),
            Err(reason) => {
                Err(FileError { file: "zone file".into(), line: 0, fault: Box::default(), generated: None, reason })
            }
        }
    }

    /// Unread bytes of the current file, if known.
    pub(super) fn bytes_left(&self) -> usize {
        self.files.last().map_or(0, |file| file.reader.bytes_left())
    }

    /// The next record; `None` after the last one.
    ///
    /// After an error in a record, the next call continues after it. After an error that makes the rest meaningless (a
    /// directive, an open parenthesis, an unreadable file), the next call returns `None`.
    pub fn next_record(&mut self) -> Option<Result<ScannedRecord, FileError>> {
        let mut one = RecordList::new();
        Some(self.next_into(&mut one)?.map(|location| ScannedRecord { record: one.get(0).to_record(), location }))
    }

    /// Like [`Self::next_record`], but appends the record to a list.
    pub fn next_into(&mut self, out: &mut RecordList) -> Option<Result<FileLine, FileError>> {
        loop {
            if self.generating.is_some() {
                match self.generated(out) {
                    Ok(None) => continue,
                    Ok(Some(location)) => return Some(Ok(location)),
                    Err(error) => return Some(Err(error)),
                }
            }
            let file = self.files.last_mut()?;
            let index = file.index;
            match file.reader.entry(&mut self.tokens) {
                Ok(None) => {
                    self.files.pop();
                }
                Ok(Some(entry)) => {
                    if let Some(result) = self.entry(&entry, index, out) {
                        return Some(result);
                    }
                }
                Err(error) => {
                    if error.is_last {
                        self.files.clear();
                    }
                    return Some(Err(self.error(FileLine { file: index, line: error.line }, error.reason)));
                }
            }
        }
    }

    /// The names of the files, by the number in [`FileLine`].
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The warnings so far; at most [`WARNINGS_MAX`] are kept.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    pub(super) fn into_parts(self) -> (Vec<String>, Vec<Warning>, usize) {
        (self.names, self.warnings, self.warning_count)
    }

    pub(super) fn error(&self, location: FileLine, reason: Reason) -> FileError {
        let file = self.names.get(usize::from(location.file)).cloned().unwrap_or_default();
        FileError { file, line: location.line, fault: Box::default(), generated: None, reason }
    }

    fn error_at(&self, location: FileLine, refused: Refused) -> FileError {
        let line = location.line + refused.line;
        FileError { line, fault: Box::new(refused.fault), ..self.error(location, refused.reason) }
    }

    fn warn(&mut self, location: FileLine, kind: WarningKind) {
        self.warning_count += 1;
        if self.warnings.len() < WARNINGS_MAX {
            self.warnings.push(Warning { location, kind });
        }
    }

    fn open(&mut self, name: Option<&str>, origin: Option<Name>, owner: Vec<u8>) -> Result<(), Reason> {
        if self.files.len() > INCLUDE_DEPTH_MAX {
            return Err(Reason::IncludeDeep);
        }
        if self.names.len() >= INCLUDE_FILES_MAX {
            return Err(Reason::IncludeMany);
        }
        let from = self.files.last().map(|file| self.names[usize::from(file.index)].as_str());
        let opened = self.source.open(name, from).map_err(Reason::Source)?;
        let (reader, name) = Reader::new(opened);
        let index = self.names.len() as u16;
        self.names.push(name);
        self.files.push(File { reader, index, origin, owner });
        Ok(())
    }

    /// Handles one entry with tokens: a directive or a record.
    fn entry(&mut self, entry: &Entry, file: u16, out: &mut RecordList) -> Option<Result<FileLine, FileError>> {
        let location = FileLine { file, line: entry.line };
        let file = self.files.last().expect("an entry comes from a file");
        let first = self.tokens[0].word(file.reader.as_bytes());
        if !entry.owner_omitted && !first.is_quoted() && first.as_bytes().starts_with(b"$") {
            return match self.directive(location) {
                Ok(()) => None,
                // Stop at a bad directive: the records after it would get a wrong meaning.
                Err(refused) => {
                    self.files.clear();
                    Some(Err(self.error_at(location, refused)))
                }
            };
        }
        // Taken out of `self` and put back, so that scanning can borrow all of `self`.
        let tokens = core::mem::take(&mut self.tokens);
        let result = self.record(&tokens, entry.owner_omitted, location, out);
        self.tokens = tokens;
        Some(result.map(|()| location).map_err(|refused| {
            if refused.reason == Reason::RecordsMany {
                self.files.clear();
            }
            self.error_at(location, refused)
        }))
    }

    fn record(
        &mut self,
        tokens: &[Token],
        owner_omitted: bool,
        location: FileLine,
        out: &mut RecordList,
    ) -> Result<(), Refused> {
        let Self { files, rdata, owner, .. } = self;
        let file = files.last_mut().expect("a record comes from a file");
        let mut words = Words::new(file.reader.as_bytes(), tokens);
        let mut scan = |words: &mut Words<'_>| {
            let origin = file.origin.as_ref().map(Name::as_ref);
            if !owner_omitted {
                owner.clear();
                words.begin(Part::Owner);
                let word = words.expect()?;
                scan_name(word, origin, owner)?;
                if is_undotted(word.as_bytes(), owner, origin) {
                    words.note_undotted();
                }
                core::mem::swap(&mut file.owner, owner);
            }
            let head = Head::scan(words)?;
            rdata.clear();
            scan_rdata(head.rtype, words, origin, rdata)?;
            Ok::<_, Reason>(head)
        };
        let head = scan(&mut words).map_err(|reason| Refused::of(&words, reason))?;
        if file.owner.is_empty() {
            return Err(Reason::OwnerMissing.into());
        }
        let undotted = words.undotted().map(|word| dot_missing(word.as_bytes(), file.origin.as_ref()));
        let (owner, rdata) = (core::mem::take(&mut file.owner), core::mem::take(rdata));
        let result = self.push(&owner, &head, &rdata, location, out);
        self.rdata = rdata;
        self.files.last_mut().expect("a record comes from a file").owner = owner;
        if let Some(warning) = undotted {
            self.warn(location, warning);
        }
        Ok(result?)
    }

    fn push(
        &mut self,
        owner: &[u8],
        head: &Head,
        rdata: &[u8],
        location: FileLine,
        out: &mut RecordList,
    ) -> Result<(), Reason> {
        let owner = NameRef::from_bytes(owner).map_err(TextError::Name)?;
        let ttl = self.ttl(head.ttl, Some((head.rtype, rdata)), location)?;
        self.count()?;
        out.push(RecordRef { owner, rtype: head.rtype, ttl, rdata });
        Ok(())
    }

    fn count(&mut self) -> Result<(), Reason> {
        self.records_left = self.records_left.checked_sub(1).ok_or(Reason::RecordsMany)?;
        Ok(())
    }

    /// The TTL of a record, given its explicit TTL. `record` is its type and rdata, because it may be an SOA.
    fn ttl(
        &mut self,
        explicit: Option<u32>,
        record: Option<(Rtype, &[u8])>,
        location: FileLine,
    ) -> Result<u32, Reason> {
        if let Some(ttl) = explicit {
            let ttl = self.bounded(ttl, location);
            self.ttl.last = Some(ttl);
            return Ok(ttl);
        }
        // RFC 2308 4: the value of $TTL, if there is one.
        if let Some(ttl) = self.ttl.default {
            return Ok(ttl);
        }
        if let Some(ttl) = self.ttl.last {
            if !core::mem::replace(&mut self.ttl.is_warned, true) {
                self.warn(location, WarningKind::TtlFromRecordBefore);
            }
            return Ok(ttl);
        }
        match record {
            Some((Rtype::SOA, rdata)) => {
                let minimum = rdata.last_chunk::<4>().map_or(0, |bytes| u32::from_be_bytes(*bytes));
                let ttl = self.bounded(minimum, location);
                self.ttl.default = Some(ttl);
                self.warn(location, WarningKind::TtlFromSoa);
                Ok(ttl)
            }
            _ => Err(Reason::TtlMissing),
        }
    }

    /// RFC 2181 8: a TTL with the most significant bit set counts as 0.
    fn bounded(&mut self, ttl: u32, location: FileLine) -> u32 {
        if ttl <= TTL_MAX {
            return ttl;
        }
        self.warn(location, WarningKind::TtlHigh);
        0
    }

    fn directive(&mut self, location: FileLine) -> Result<(), Refused> {
        let tokens = core::mem::take(&mut self.tokens);
        let file = self.files.last().expect("a directive comes from a file");
        let mut words = Words::new(file.reader.as_bytes(), &tokens);
        let scanned = scan_directive(&mut words, file.origin.as_ref()).map_err(|reason| Refused::of(&words, reason));
        let refused_file = Refused::of(&words, Reason::DirectiveUnknown);
        let owner = file.owner.clone();
        self.tokens = tokens;
        match scanned? {
            Directive::Origin(origin) => {
                self.files.last_mut().expect("a directive comes from a file").origin = Some(origin);
            }
            Directive::Ttl(ttl) => self.ttl.default = Some(self.bounded(ttl, location)),
            // RFC 1035 5.1: the origin and the owner of an included file do not apply after it.
            Directive::Include(path, origin) => {
                self.open(Some(&path), origin, owner).map_err(|reason| Refused { reason, ..refused_file })?
            }
            Directive::Generate { range, lhs, rhs, head } => {
                let ttl = self.ttl(head.ttl, None, location)?;
                self.generate_budget.take_range(range)?;
                self.generating =
                    Some(ActiveGenerate { range, lhs, rhs, rtype: head.rtype, ttl, location, is_warned: false });
            }
        }
        Ok(())
    }

    /// The next record of a `$GENERATE`; `None` after the last one.
    fn generated(&mut self, out: &mut RecordList) -> Result<Option<FileLine>, FileError> {
        let Some(mut generating) = self.generating.take() else { return Ok(None) };
        let Some(number) = generating.range.next() else { return Ok(None) };
        match self.generate(&mut generating, number, out) {
            Ok(()) => {
                let location = generating.location;
                self.generating = Some(generating);
                Ok(Some(location))
            }
            // Most of its records would have the same error, so one is enough.
            Err(refused) => {
                let is_budget = match &refused.reason {
                    Reason::RecordsMany => true,
                    Reason::Generate(why) => why.is_budget(),
                    _ => false,
                };
                if is_budget {
                    self.files.clear();
                }
                let generated = (!is_budget).then_some(number);
                Err(FileError { generated, ..self.error_at(generating.location, refused) })
            }
        }
    }

    fn generate(&mut self, generating: &mut ActiveGenerate, number: i32, out: &mut RecordList) -> Result<(), Refused> {
        self.count()?;
        let origin = self.files.last().and_then(|file| file.origin.as_ref()).map(Name::as_ref);
        let mut text = Vec::new();
        // The positions of the words in the template are unknown, so they have no column and no line.
        let at = |text: &[u8], part, reason| Refused {
            reason,
            fault: Fault { part, word: Some(excerpt(text)), column: 0 },
            line: 0,
        };
        expand(&generating.lhs, number, &mut text).map_err(|error| at(&generating.lhs, None, error.into()))?;
        self.owner.clear();
        scan_name(Word::unquoted(&text), origin, &mut self.owner)
            .map_err(|error| at(&text, Some(Part::Owner), error.into()))?;
        let undotted = is_undotted(&text, &self.owner, origin).then(|| text.clone());
        expand(&generating.rhs, number, &mut text).map_err(|error| at(&generating.rhs, None, error.into()))?;
        match tokenize(&text, 0, true, &mut self.tokens).map_err(|(_, error)| error)? {
            Step::Entry { next, .. } if next < text.len() => {
                return Err(at(&text, Some(Part::Rdata(generating.rtype)), TextError::LeftOver.into()));
            }
            _ => {}
        }
        self.rdata.clear();
        let mut words = Words::new(&text, &self.tokens);
        scan_rdata(generating.rtype, &mut words, origin, &mut self.rdata).map_err(|error| {
            let refused = Refused::of(&words, error.into());
            Refused { fault: Fault { column: 0, ..refused.fault }, line: 0, ..refused }
        })?;
        let undotted = undotted.as_deref().or(words.undotted().map(Word::as_bytes));
        let warning = undotted.map(|word| dot_missing(word, self.files.last().and_then(|file| file.origin.as_ref())));
        self.generate_budget.take_bytes(self.owner.len() + self.rdata.len())?;
        let owner = NameRef::from_bytes(&self.owner).map_err(TextError::Name)?;
        out.push(RecordRef { owner, rtype: generating.rtype, ttl: generating.ttl, rdata: &self.rdata });
        if let Some(warning) = warning.filter(|_| !core::mem::replace(&mut generating.is_warned, true)) {
            self.warn(generating.location, warning);
        }
        Ok(())
    }
}

fn dot_missing(word: &[u8], origin: Option<&Name>) -> WarningKind {
    let name = origin.map_or_else(|| ".".to_owned(), |origin| origin.to_string());
    let word = excerpt(word);
    WarningKind::DotMissing(Box::new((word.clone(), format!("{word}.{name}"))))
}
