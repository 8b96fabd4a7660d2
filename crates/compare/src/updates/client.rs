//! Sends signed messages to a server and transfers its zone. Messages and TSIG come from the `domain` crate, so that
//! the judge shares no code with the server under test.

use super::contents::Contents;
use super::message::{Update, WireRecord};
use crate::Response;
use domain::base::iana::{Class, Opcode, Rtype};
use domain::base::message_builder::{AdditionalBuilder, PushError};
use domain::base::name::Name;
use domain::base::{Message, MessageBuilder, Record, Ttl, UnknownRecordData};
use domain::rdata::tsig::Time48;
use domain::tsig::{Algorithm, ClientSequence, ClientTransaction, Key, KeyName};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;
use wire::number::Rcode;

/// Time without an answer after which a UDP message is repeated unchanged.
const REPEAT_MS: u64 = 3_000;
/// Number of times a UDP message is sent.
const ATTEMPT_COUNT: usize = 2;
/// Timeout of a TCP connection.
const TCP_SILENCE_MS: u64 = 10_000;
/// The largest UPDATE sent over UDP.
const UDP_BYTES_MAX: usize = 1_232;

/// Why the outcome at a server is unknown.
#[derive(Debug)]
pub enum ClientError {
    /// A socket failed, or the server did not answer.
    Io(io::Error),
    /// The message could not be built.
    Build(PushError),
    /// The reply is not a DNS message, or not a zone transfer.
    Malformed(&'static str),
    /// The reply is not signed correctly.
    Tsig(domain::tsig::ValidationError),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Build(error) => write!(f, "message could not be built: {error}"),
            Self::Malformed(what) => f.write_str(what),
            Self::Tsig(error) => write!(f, "TSIG of the response: {error}"),
        }
    }
}

impl std::error::Error for ClientError {}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<PushError> for ClientError {
    fn from(error: PushError) -> Self {
        Self::Build(error)
    }
}

impl From<domain::tsig::ValidationError> for ClientError {
    fn from(error: domain::tsig::ValidationError) -> Self {
        Self::Tsig(error)
    }
}

/// An HMAC-SHA256 key.
///
/// # Errors
/// If the name is invalid.
pub fn key(name: &str, secret: &[u8]) -> Result<Arc<Key>, Box<dyn std::error::Error>> {
    let name: KeyName = name.parse()?;
    let key = Key::new(Algorithm::Sha256, secret, name, None, None);
    Ok(Arc::new(key.map_err(|_| "no whole MACs")?))
}

/// Signs and sends an UPDATE. Returns the RCODE of the response after checking its signature.
///
/// # Errors
/// [`ClientError`]. A timeout is [`io::ErrorKind::WouldBlock`] or similar.
pub fn send(server: SocketAddr, key: &Arc<Key>, update: &Update, id: u16, now_s: u64) -> Result<Rcode, ClientError> {
    let now = Time48::from_u64(now_s);
    let mut builder = build(update, id)?;
    let transaction = ClientTransaction::request(key.clone(), &mut builder, now)?;
    let bytes = builder.finish();
    let response = if bytes.len() > UDP_BYTES_MAX || id.is_multiple_of(16) {
        let mut stream = connect(server)?;
        write_tcp(&mut stream, &bytes)?;
        read_tcp(&mut stream)?
    } else {
        ask_udp(server, &bytes)?
    };
    let mut message =
        Message::from_octets(response).map_err(|_| ClientError::Malformed("response shorter than a header"))?;
    // RFC 8945 5.3: a server signs responses to verified requests, even FORMERR, but not to requests that it could not
    // parse.
    let rcode = Rcode(u16::from(message.header().rcode().to_int()));
    match transaction.answer(&mut message, now) {
        Err(domain::tsig::ValidationError::ServerUnsigned) if rcode == Rcode::FORMERR => Ok(rcode),
        outcome => outcome.map(|()| rcode).map_err(ClientError::from),
    }
}

/// Queries the serial of a zone.
///
/// # Errors
/// [`ClientError`].
pub fn serial(server: SocketAddr, key: &Arc<Key>, apex: &wire::name::Name, now_s: u64) -> Result<u32, ClientError> {
    let now = Time48::from_u64(now_s);
    let mut builder = MessageBuilder::new_vec();
    builder.header_mut().set_id(now_s as u16);
    let mut builder = builder.question();
    builder.push((owner(apex.as_bytes())?, Rtype::SOA))?;
    let mut builder = builder.additional();
    let transaction = ClientTransaction::request(key.clone(), &mut builder, now)?;
    let bytes = ask_udp(server, &builder.finish())?;
    let response = Response::parse(&bytes).ok_or(ClientError::Malformed("response"))?;
    let mut message = Message::from_octets(bytes).map_err(|_| ClientError::Malformed("response"))?;
    transaction.answer(&mut message, now)?;
    let zone = Contents { records: response.answer };
    zone.soa().map(|_| zone.serial()).ok_or(ClientError::Malformed("no SOA in the answer"))
}

fn build(update: &Update, id: u16) -> Result<AdditionalBuilder<Vec<u8>>, ClientError> {
    let mut builder = MessageBuilder::new_vec();
    builder.header_mut().set_id(id);
    builder.header_mut().set_opcode(Opcode::UPDATE);
    let mut builder = builder.question();
    builder.push((owner(update.apex.as_bytes())?, Rtype::SOA))?;
    let mut builder = builder.answer();
    for raw in &update.prerequisites {
        builder.push(record(raw)?)?;
    }
    let mut builder = builder.authority();
    for raw in &update.steps {
        builder.push(record(raw)?)?;
    }
    Ok(builder.additional())
}

fn owner(bytes: &[u8]) -> Result<Name<Vec<u8>>, ClientError> {
    Name::from_octets(bytes.to_vec()).map_err(|_| ClientError::Malformed("owner is not a name"))
}

type Unknown<'r> = Record<Name<Vec<u8>>, UnknownRecordData<&'r [u8]>>;

fn record(raw: &WireRecord) -> Result<Unknown<'_>, ClientError> {
    let data = UnknownRecordData::from_octets(Rtype::from_int(raw.rtype.0), raw.rdata.as_slice());
    let data = data.map_err(|_| ClientError::Malformed("rdata is too long"))?;
    Ok(Record::new(owner(raw.owner.as_bytes())?, Class::from_int(raw.class.0), Ttl::from_secs(raw.ttl), data))
}

fn ask_udp(server: SocketAddr, bytes: &[u8]) -> Result<Vec<u8>, ClientError> {
    let socket = UdpSocket::bind((server.ip(), 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(Duration::from_millis(REPEAT_MS)))?;
    let mut buffer = vec![0; 65_535];
    let mut outcome = Err(ClientError::Malformed("not sent"));
    for _ in 0..ATTEMPT_COUNT {
        socket.send(bytes)?;
        match socket.recv(&mut buffer) {
            Ok(len) if buffer[..2] == bytes[..2] => {
                buffer.truncate(len);
                return Ok(buffer);
            }
            Ok(_) => outcome = Err(ClientError::Malformed("response to another message")),
            Err(error) => outcome = Err(error.into()),
        }
    }
    outcome
}

fn connect(server: SocketAddr) -> Result<TcpStream, ClientError> {
    let stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(Duration::from_millis(TCP_SILENCE_MS)))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn write_tcp(stream: &mut TcpStream, bytes: &[u8]) -> Result<(), ClientError> {
    let len = u16::try_from(bytes.len()).map_err(|_| ClientError::Malformed("message is too long"))?;
    Ok(stream.write_all(&[&len.to_be_bytes(), bytes].concat())?)
}

fn read_tcp(stream: &mut TcpStream) -> Result<Vec<u8>, ClientError> {
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let mut bytes = vec![0; u16::from_be_bytes(len).into()];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Transfers the whole zone by AXFR (RFC 5936) and checks the signatures.
///
/// # Errors
/// [`ClientError`].
pub fn transfer(
    server: SocketAddr,
    key: &Arc<Key>,
    apex: &wire::name::Name,
    now_s: u64,
) -> Result<Contents, ClientError> {
    let now = Time48::from_u64(now_s);
    let mut builder = MessageBuilder::new_vec().question();
    builder.push((owner(apex.as_bytes())?, Rtype::AXFR))?;
    let mut builder = builder.additional();
    let mut sequence = ClientSequence::request(key.clone(), &mut builder, now)?;
    let mut stream = connect(server)?;
    write_tcp(&mut stream, &builder.finish())?;
    let (mut zone, mut soa_count) = (Contents::default(), 0);
    while soa_count < 2 {
        let bytes = read_tcp(&mut stream)?;
        let response = Response::parse(&bytes).ok_or(ClientError::Malformed("message of a transfer"))?;
        if response.rcode != Rcode::NOERROR || response.answer.is_empty() {
            return Err(ClientError::Malformed("the transfer was refused"));
        }
        let count = usize::from(u16::from_be_bytes([bytes[6], bytes[7]]));
        let mut message = Message::from_octets(bytes).map_err(|_| ClientError::Malformed("message of a transfer"))?;
        sequence.answer(&mut message, now)?;
        // In the set, the SOA is listed once. A transfer has it first and last.
        let soas = response.answer.iter().filter(|rr| rr.rtype == wire::number::Rtype::SOA).count();
        soa_count += soas + (count - response.answer.len());
        zone.records.extend(response.answer);
    }
    sequence.done()?;
    Ok(zone)
}
