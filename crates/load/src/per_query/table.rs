//! The columns of `queries.parquet`.

use super::chunk::{Chunk, Query};
use crate::limits::PER_QUERY_GROUP_ROWS;
use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use wire::name::NameRef;
use wire::number::{Rcode, Rtype};

/// The columns in the order of [`Columns::write`].
const SCHEMA: &str = "message query {
  required int64 planned_ns;
  required int64 sent_ns;
  optional int64 latency_ns;
  optional int64 service_ns;
  required binary transport (STRING);
  required binary server (STRING);
  optional int64 client;
  optional binary qname (STRING);
  optional binary qtype (STRING);
  required int32 query_bytes;
  required binary outcome (STRING);
  optional binary rcode (STRING);
  optional boolean truncated;
  optional int32 response_bytes;
  optional binary answer_check (STRING);
}";

/// Metadata of the file that is only known at the end.
#[derive(Clone, Debug)]
pub(super) struct FileMetadata {
    /// When the run began, in nanoseconds since 1970.
    pub(super) started_unix_ns: u64,
    pub(super) timeout_ns: u64,
    /// Queries missing in the file.
    pub(super) dropped: u64,
    /// `valid`, or `INVALID` and why.
    pub(super) validity: String,
}

/// An unfinished file: complete row groups, and the columns of the next one.
pub(super) struct Table<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Columns,
    row_count: u64,
}

impl<W: Write + Send> Table<W> {
    pub(super) fn new(out: W) -> io::Result<Self> {
        let schema = Arc::new(parse_message_type(SCHEMA).map_err(plain)?);
        let mut properties = WriterProperties::builder()
            .set_created_by(format!("catlab {}", env!("CARGO_PKG_VERSION")))
            .set_compression(Compression::SNAPPY);
        // Times are nearly sorted and distinct, so delta encoding is better than a dictionary.
        for rising in ["planned_ns", "sent_ns"] {
            let path = || ColumnPath::from(rising);
            properties = properties
                .set_column_dictionary_enabled(path(), false)
                .set_column_encoding(path(), Encoding::DELTA_BINARY_PACKED);
        }
        for different in ["latency_ns", "service_ns"] {
            properties = properties.set_column_dictionary_enabled(ColumnPath::from(different), false);
        }
        let file = SerializedFileWriter::new(out, schema, Arc::new(properties.build())).map_err(plain)?;
        Ok(Self { file, columns: Columns::default(), row_count: 0 })
    }

    /// Adds rows. Writes a row group when it is full.
    pub(super) fn add(&mut self, chunk: &Chunk) -> io::Result<()> {
        for (query, name) in chunk.iter() {
            self.columns.push(query, name);
        }
        self.row_count += chunk.len() as u64;
        if self.columns.planned.len() >= PER_QUERY_GROUP_ROWS { self.write_group() } else { Ok(()) }
    }

    fn write_group(&mut self) -> io::Result<()> {
        if self.columns.planned.is_empty() {
            return Ok(());
        }
        let mut group = self.file.next_row_group().map_err(plain)?;
        self.columns.write(&mut group).map_err(plain)?;
        group.close().map_err(plain)?;
        self.columns.clear();
        Ok(())
    }

    /// Finishes the file. Returns the number of rows.
    pub(super) fn finish(mut self, metadata: &FileMetadata) -> io::Result<u64> {
        self.write_group()?;
        for (key, value) in [
            ("catlab.started_unix_ns", metadata.started_unix_ns.to_string()),
            ("catlab.timeout_ns", metadata.timeout_ns.to_string()),
            ("catlab.dropped", metadata.dropped.to_string()),
            ("catlab.validity", metadata.validity.clone()),
        ] {
            self.file.append_key_value_metadata(KeyValue::new(key.into(), value));
        }
        self.file.close().map_err(plain)?;
        Ok(self.row_count)
    }
}

/// Rows of the next row group.
#[derive(Default)]
struct Columns {
    planned: Vec<i64>,
    sent: Vec<i64>,
    latency: Optional<i64>,
    service: Optional<i64>,
    transport: Vec<ByteArray>,
    server: Vec<ByteArray>,
    client: Optional<i64>,
    qname: Optional<ByteArray>,
    qtype: Optional<ByteArray>,
    query_bytes: Vec<i32>,
    outcome: Vec<ByteArray>,
    rcode: Optional<ByteArray>,
    truncated: Optional<bool>,
    response_bytes: Optional<i32>,
    answer_check: Optional<ByteArray>,
    mnemonics: TextColumn,
    scratch: String,
}

impl Columns {
    fn push(&mut self, query: &Query, name: &[u8]) {
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        self.planned.push(signed(query.planned_ns));
        self.sent.push(signed(query.sent_ns));
        self.latency.push(query.latency_ns.map(signed));
        self.service.push(query.service_ns.map(signed));
        self.transport.push(ByteArray::from(Bytes::from_static(query.transport.label().as_bytes())));
        self.server.push(self.mnemonics.server(query.server));
        self.client.push(query.client.map(signed));
        let qname = NameRef::from_bytes(name).ok().map(|name| {
            self.scratch.clear();
            // Writing into a string cannot fail.
            let _written = write!(self.scratch, "{name}");
            ByteArray::from(self.scratch.as_bytes().to_vec())
        });
        self.qtype.push(qname.is_some().then(|| self.mnemonics.rtype(query.rtype)));
        self.qname.push(qname);
        self.query_bytes.push(query.bytes as i32);
        self.outcome.push(ByteArray::from(Bytes::from_static(query.fate.label().as_bytes())));
        self.rcode.push(query.answer.map(|answer| self.mnemonics.rcode(answer.rcode)));
        self.truncated.push(query.answer.map(|answer| answer.is_truncated));
        self.response_bytes.push(query.answer.map(|answer| answer.bytes as i32));
        let check = query.answer.and_then(|answer| answer.check);
        self.answer_check.push(check.map(|check| ByteArray::from(Bytes::from_static(check.label().as_bytes()))));
    }

    fn write<W: Write + Send>(&self, group: &mut SerializedRowGroupWriter<'_, W>) -> Result<(), ParquetError> {
        put::<Int64Type, W>(group, &self.planned, None)?;
        put::<Int64Type, W>(group, &self.sent, None)?;
        self.latency.write::<Int64Type, W>(group)?;
        self.service.write::<Int64Type, W>(group)?;
        put::<ByteArrayType, W>(group, &self.transport, None)?;
        put::<ByteArrayType, W>(group, &self.server, None)?;
        self.client.write::<Int64Type, W>(group)?;
        self.qname.write::<ByteArrayType, W>(group)?;
        self.qtype.write::<ByteArrayType, W>(group)?;
        put::<Int32Type, W>(group, &self.query_bytes, None)?;
        put::<ByteArrayType, W>(group, &self.outcome, None)?;
        self.rcode.write::<ByteArrayType, W>(group)?;
        self.truncated.write::<BoolType, W>(group)?;
        self.response_bytes.write::<Int32Type, W>(group)?;
        self.answer_check.write::<ByteArrayType, W>(group)
    }

    /// Keeps memory and repeated texts for the next row group.
    fn clear(&mut self) {
        self.planned.clear();
        self.sent.clear();
        self.latency.clear();
        self.service.clear();
        self.transport.clear();
        self.server.clear();
        self.client.clear();
        self.qname.clear();
        self.qtype.clear();
        self.query_bytes.clear();
        self.outcome.clear();
        self.rcode.clear();
        self.truncated.clear();
        self.response_bytes.clear();
        self.answer_check.clear();
    }
}

/// A column with optional values: the existing values, and for each row whether it has one.
struct Optional<T> {
    values: Vec<T>,
    levels: Vec<i16>,
}

impl<T> Default for Optional<T> {
    fn default() -> Self {
        Self { values: Vec::new(), levels: Vec::new() }
    }
}

impl<T> Optional<T> {
    fn push(&mut self, value: Option<T>) {
        self.levels.push(i16::from(value.is_some()));
        self.values.extend(value);
    }

    fn clear(&mut self) {
        self.values.clear();
        self.levels.clear();
    }

    fn write<D: DataType<T = T>, W: Write + Send>(
        &self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        put::<D, W>(group, &self.values, Some(&self.levels))
    }
}

/// Writes the next column of a row group.
fn put<D: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[D::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let column = group.next_column()?;
    let mut column = column.ok_or_else(|| ParquetError::General("more columns than the schema has".into()))?;
    column.typed::<D>().write_batch(values, levels, None)?;
    column.close()
}

/// Caches texts that repeat.
#[derive(Default)]
struct TextColumn {
    servers: HashMap<SocketAddr, ByteArray>,
    rtypes: HashMap<u16, ByteArray>,
    rcodes: HashMap<u8, ByteArray>,
}

impl TextColumn {
    fn server(&mut self, address: SocketAddr) -> ByteArray {
        self.servers.entry(address).or_insert_with(|| text(address.to_string())).clone()
    }

    fn rtype(&mut self, rtype: u16) -> ByteArray {
        let name = || Rtype(rtype).mnemonic().map_or_else(|| format!("TYPE{rtype}"), str::to_owned);
        self.rtypes.entry(rtype).or_insert_with(|| text(name())).clone()
    }

    fn rcode(&mut self, rcode: u8) -> ByteArray {
        self.rcodes.entry(rcode).or_insert_with(|| text(format!("{:?}", Rcode(rcode.into())))).clone()
    }
}

fn text(text: String) -> ByteArray {
    ByteArray::from(text.into_bytes())
}

/// Returns the underlying I/O error, if there is one.
fn plain(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(source) => io::Error::other(source),
        },
        error => io::Error::other(error),
    }
}
