//! NATS: commands and heartbeats on core subjects, and files as chunks through a stream in the server's memory.

use super::chunks::{ChunkError, ChunkReader, ChunkWriter};
use crate::limits::{
    CHUNK_BYTES_MAX, CHUNK_TIMEOUT, CHUNKS_PULLED_MAX, COMMAND_BYTES_MAX, PULLED_BYTES_MAX, STREAM_BYTES_MAX,
};
use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::stream::{self, DiscardPolicy, RetentionPolicy, StorageType};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions, Message, ServerAddr, Subscriber};
use futures_core::Stream;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::{Duration, Instant};

/// Remains of a run with a dead controller are deleted after this time.
const CHUNK_AGE_MAX: Duration = Duration::from_secs(86_400);
/// How long the server keeps a request for chunks.
const PULL_EXPIRES: Duration = Duration::from_secs(2);
/// Interval of the check for room in the stream.
const ROOM_WAIT: Duration = Duration::from_millis(20);
/// Maximum size of a credentials file.
const CREDENTIALS_BYTES_MAX: u64 = 1 << 20;
/// Maximum number of unread heartbeats.
const MESSAGES_WAITING_MAX: usize = 16 << 10;

/// Subjects of messages.
pub mod subjects {
    /// Asks for agents.
    pub const DISCOVER: &str = "catlab.hail";

    /// Commands to an agent.
    #[must_use]
    pub fn commands(agent: &str) -> String {
        format!("catlab.agents.{agent}")
    }

    /// Heartbeats of the agents of a run.
    #[must_use]
    pub fn heartbeats(run: &str) -> String {
        format!("catlab.beats.{run}")
    }

    /// Chunks of an agent's input file, by its number.
    #[must_use]
    pub fn down(run: &str, agent: &str, file: usize) -> String {
        format!("catlab.pieces.{run}.down.{agent}.{file}")
    }

    /// Chunks of an agent's run folder.
    #[must_use]
    pub fn up(run: &str, agent: &str) -> String {
        format!("catlab.pieces.{run}.up.{agent}")
    }

    /// All chunks of a run.
    pub(super) fn chunks(run: &str) -> String {
        format!("catlab.pieces.{run}.>")
    }

    /// The stream of a run.
    pub(super) fn stream(run: &str) -> String {
        format!("catlab-{run}")
    }
}

/// The address and the credentials of a NATS server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Access {
    /// `nats://` or `tls://`, with `USER:PASSWORD@` or `TOKEN@` if required.
    pub url: String,
    /// PEM file of trusted CAs in addition to the system's.
    pub authorities: Option<PathBuf>,
    /// A credentials file (a JWT and the seed of a key), or a file with the seed alone.
    pub credentials: Option<PathBuf>,
}

impl Access {
    /// A server without credential files.
    #[must_use]
    pub fn plain(url: &str) -> Self {
        Self { url: url.to_owned(), authorities: None, credentials: None }
    }

    fn options(&self, address: &ServerAddr) -> Result<ConnectOptions, BusError> {
        let Some(path) = &self.credentials else {
            return Ok(match (address.username(), address.password()) {
                (Some(user), Some(password)) => {
                    ConnectOptions::with_user_and_password(user.to_owned(), password.to_owned())
                }
                (Some(token), None) => ConnectOptions::with_token(token.to_owned()),
                (None, _) => ConnectOptions::new(),
            });
        };
        let invalid = |reason: String| BusError::Credentials(path.display().to_string(), reason);
        if address.has_user_pass() {
            return Err(invalid("the URL names a user, too; one of them is enough".into()));
        }
        let read = File::open(path).and_then(|file| {
            let mut text = String::new();
            file.take(CREDENTIALS_BYTES_MAX).read_to_string(&mut text).map(|_| text)
        });
        let text = read.map_err(|error| invalid(error.to_string()))?;
        if text.contains("NATS USER JWT") {
            return ConnectOptions::with_credentials(&text).map_err(|error| invalid(error.to_string()));
        }
        let seed = text.trim();
        // Only user seeds: account keys must not be on clients.
        let is_seed = seed.starts_with("SU") && seed.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if is_seed {
            return Ok(ConnectOptions::with_nkey(seed.to_owned()));
        }
        Err(invalid("it holds neither a NATS USER JWT and a seed, nor the seed of a user's key (SU...) alone".into()))
    }
}

/// A connection to a NATS server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Bus {
    client: Client,
    jetstream: Context,
    is_private: bool,
}

impl Bus {
    /// Connects.
    ///
    /// # Errors
    /// If there is no server, it refuses the connection, or its message limit is too small.
    pub async fn connect(access: &Access) -> Result<Self, BusError> {
        let address: ServerAddr = access.url.parse().map_err(|error: io::Error| BusError::Url(error.to_string()))?;
        let label = format!("{}:{}", address.host(), address.port());
        let options = access.options(&address)?.name("catlab").subscription_capacity(MESSAGES_WAITING_MAX);
        let options = match &access.authorities {
            Some(authorities) => options.add_root_certificates(authorities.clone()),
            None => options,
        };
        let (is_tls, is_here) = (address.tls_required(), is_loopback(address.host()));
        let client = options.connect(address).await.map_err(|error| BusError::Connect(label, error.to_string()))?;
        if client.max_payload() < CHUNK_BYTES_MAX {
            return Err(BusError::Payload(client.max_payload()));
        }
        let is_private = is_tls || is_here || client.server_info().tls_required;
        Ok(Self { jetstream: jetstream::new(client.clone()), client, is_private })
    }

    /// Whether the connection is encrypted or stays on this machine.
    #[must_use]
    pub const fn is_private(&self) -> bool {
        self.is_private
    }

    /// Subscribes to a subject.
    ///
    /// # Errors
    /// If the connection is lost.
    pub async fn subscribe(&self, subject: String) -> Result<Subscriber, BusError> {
        let subscriber =
            self.client.subscribe(subject).await.map_err(|error| lost_error("cannot subscribe", &error))?;
        // After this returns, no message is missed.
        self.flush().await?;
        Ok(subscriber)
    }

    /// Publishes a message.
    ///
    /// # Errors
    /// If the connection is lost.
    pub async fn publish<T: Serialize + Sync>(&self, subject: String, value: &T) -> Result<(), BusError> {
        let bytes = encode(value)?;
        self.client.publish(subject, bytes.into()).await.map_err(|error| lost_error("cannot publish", &error))
    }

    /// Publishes an empty message. Replies go to the subject `answers`.
    ///
    /// # Errors
    /// If the connection is lost.
    pub async fn publish_with_reply(&self, subject: &str, answers: &str) -> Result<(), BusError> {
        let published = self.client.publish_with_reply(subject.to_owned(), answers.to_owned(), Vec::new().into());
        published.await.map_err(|error| lost_error("cannot publish", &error))
    }

    /// A new subject for replies.
    #[must_use]
    pub fn inbox(&self) -> String {
        self.client.new_inbox()
    }

    /// Sends a request and waits for the reply.
    ///
    /// # Errors
    /// If there is no reply in time, or it cannot be parsed.
    pub async fn request<T: Serialize + Sync, R: DeserializeOwned>(
        &self,
        subject: String,
        value: &T,
    ) -> Result<R, BusError> {
        let bytes = encode(value)?;
        let reply = self.client.request(subject, bytes.into()).await;
        let reply = reply.map_err(|error| lost_error("no usable reply", &error))?;
        serde_json::from_slice(&reply.payload).map_err(|error| lost_error("no usable reply", &error))
    }

    /// Replies to a request.
    ///
    /// # Errors
    /// If the connection is lost.
    pub async fn reply<T: Serialize + Sync>(&self, message: &Message, value: &T) -> Result<(), BusError> {
        let Some(reply) = &message.reply else { return Ok(()) };
        let bytes = encode(value)?;
        self.client.publish(reply.clone(), bytes.into()).await.map_err(|error| lost_error("cannot reply", &error))
    }

    /// Waits until the server has received everything published so far.
    ///
    /// # Errors
    /// If the connection is lost.
    pub async fn flush(&self) -> Result<(), BusError> {
        self.client.flush().await.map_err(|error| lost_error("cannot publish", &error))
    }

    /// Creates the stream of a run in memory, with a size limit. Received chunks are removed.
    ///
    /// # Errors
    /// If the server has no JetStream, or no room.
    pub async fn open_stream(&self, run: &str) -> Result<(), BusError> {
        let config = stream::Config {
            name: subjects::stream(run),
            subjects: vec![subjects::chunks(run)],
            max_bytes: STREAM_BYTES_MAX,
            max_age: CHUNK_AGE_MAX,
            discard: DiscardPolicy::New,
            retention: RetentionPolicy::WorkQueue,
            storage: StorageType::Memory,
            num_replicas: 1,
            ..stream::Config::default()
        };
        let created = self.jetstream.create_stream(config).await;
        created.map(|_| ()).map_err(|error| {
            lost_error("cannot create a stream (start the server with JetStream: nats-server -js)", &error)
        })
    }

    /// Deletes the stream of a run with its contents.
    ///
    /// # Errors
    /// If the connection is lost, or there is no stream.
    pub async fn delete_stream(&self, run: &str) -> Result<(), BusError> {
        let deleted = self.jetstream.delete_stream(subjects::stream(run)).await;
        deleted.map(|_| ()).map_err(|error| lost_error("cannot delete the stream", &error))
    }

    /// Sends a file in chunks, one at a time. Waits while the stream is full.
    ///
    /// # Errors
    /// If the file cannot be read, or the stream stays full for too long.
    pub async fn send_file(&self, subject: &str, file: &Path) -> Result<(), BusError> {
        let file = File::open(file)?;
        let bytes = file.metadata()?.len();
        let mut chunks = ChunkReader::new(BufReader::new(file), bytes)?;
        while let Some(chunk) = chunks.next_chunk()? {
            self.send_chunk(subject, chunk).await?;
        }
        Ok(())
    }

    async fn send_chunk(&self, subject: &str, chunk: Vec<u8>) -> Result<(), BusError> {
        let (chunk, began) = (bytes::Bytes::from(chunk), Instant::now());
        loop {
            let ack = match self.jetstream.publish(subject.to_owned(), chunk.clone()).await {
                Ok(ack) => ack.await.map(|_| ()),
                Err(error) => Err(error),
            };
            match ack {
                Ok(()) => return Ok(()),
                Err(error) if began.elapsed() > CHUNK_TIMEOUT => return Err(lost_error("cannot send a chunk", &error)),
                // The stream is full, or the outcome is unknown: then the chunk may arrive twice.
                Err(error) if matches!(error.kind(), PublishErrorKind::Other | PublishErrorKind::TimedOut) => {
                    tokio::time::sleep(ROOM_WAIT).await;
                }
                Err(error) => return Err(lost_error("cannot send a chunk", &error)),
            }
        }
    }

    /// Receives a file of `bytes` bytes, a few chunks at a time. Waits up to `first` for the first chunk.
    ///
    /// # Errors
    /// If the file does not arrive completely, or cannot be written.
    pub async fn take_file(
        &self,
        run: &str,
        subject: &str,
        bytes: u64,
        into: &Path,
        first: Duration,
    ) -> Result<(), BusError> {
        let config = pull::Config {
            filter_subject: subject.to_owned(),
            inactive_threshold: CHUNK_TIMEOUT,
            ..pull::Config::default()
        };
        let stream = subjects::stream(run);
        let consumer = self.jetstream.create_consumer_on_stream(config, &stream).await;
        let consumer = consumer.map_err(|error| lost_error("cannot receive chunks", &error))?;
        let mut writer = ChunkWriter::new(BufWriter::new(File::create(into)?), bytes)?;
        let (mut is_whole, mut last_chunk, mut timeout) = (false, Instant::now(), first);
        while !is_whole {
            if last_chunk.elapsed() > timeout {
                return Err(BusError::Stalled);
            }
            let pull = consumer.batch().max_messages(CHUNKS_PULLED_MAX).max_bytes(PULLED_BYTES_MAX);
            let batch = pull.expires(PULL_EXPIRES).messages().await;
            let mut batch = batch.map_err(|error| lost_error("cannot receive chunks", &error))?;
            // A batch may end early, after its maximum size or a timeout. Another one follows.
            while let Some(Ok(message)) = next(&mut batch).await {
                (last_chunk, timeout) = (Instant::now(), CHUNK_TIMEOUT);
                is_whole = writer.write_chunk(&message.payload)?;
                message.ack().await.map_err(|error| lost_error("cannot receive chunks", &error))?;
                if is_whole {
                    break;
                }
            }
        }
        self.flush().await?;
        let name = consumer.cached_info().name.clone();
        let deleted = self.jetstream.delete_consumer_from_stream(name, &stream).await;
        deleted.map(|_| ()).map_err(|error| lost_error("cannot close the chunk consumer", &error))
    }
}

fn is_loopback(host: &str) -> bool {
    let address: Option<IpAddr> = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
    address.map_or(host == "localhost", |address| address.is_loopback())
}

/// The next item of a stream.
pub async fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    std::future::poll_fn(|context| Pin::new(&mut *stream).poll_next(context)).await
}

fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, BusError> {
    let bytes = serde_json::to_vec(value).map_err(|error| lost_error("cannot publish", &error))?;
    if bytes.len() > COMMAND_BYTES_MAX { Err(BusError::Long(bytes.len())) } else { Ok(bytes) }
}

fn lost_error(what: &'static str, error: &dyn fmt::Display) -> BusError {
    BusError::Lost(what, error.to_string())
}

/// Why a message or a file could not be sent or received.
#[derive(Debug)]
pub enum BusError {
    /// Not an address of a NATS server.
    Url(String),
    /// This credentials file cannot be used.
    Credentials(String, String),
    /// There is no server at this address, or it refused the connection.
    Connect(String, String),
    /// Its message limit is too small.
    Payload(usize),
    /// The operation that failed, and the reason.
    Lost(&'static str, String),
    /// A command of this size in bytes.
    Long(usize),
    /// The chunks of a file are incomplete or damaged.
    Chunk(ChunkError),
    /// No chunk arrived in time.
    Stalled,
    /// A local file failed.
    File(io::Error),
}

impl From<io::Error> for BusError {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

impl From<ChunkError> for BusError {
    fn from(error: ChunkError) -> Self {
        Self::Chunk(error)
    }
}

impl fmt::Display for BusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(reason) => write!(f, "--nats: {reason}; write nats://192.168.1.5:4222"),
            Self::Credentials(file, reason) => write!(f, "--nats-creds {file}: {reason}"),
            Self::Connect(address, reason) => write!(f, "NATS at {address}: {reason}"),
            Self::Payload(bytes) => {
                write!(f, "the NATS server takes messages of {bytes} bytes; max_payload must be {CHUNK_BYTES_MAX}")
            }
            Self::Lost(what, reason) => write!(f, "NATS: {what}: {reason}"),
            Self::Long(bytes) => write!(f, "cannot send a plan of {bytes} bytes: it is too long"),
            Self::Chunk(error) => error.fmt(f),
            Self::Stalled => write!(f, "no chunk of the file arrived for {} s", CHUNK_TIMEOUT.as_secs()),
            Self::File(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BusError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_are_recognized() {
        for host in ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"] {
            assert!(is_loopback(host), "{host}");
        }
        for other in ["192.168.1.5", "0.0.0.0", "::", "nats.example", "127.0.0.1.example", "localhost.example"] {
            assert!(!is_loopback(other), "{other}");
        }
    }

    #[test]
    fn unusable_credentials_are_rejected_by_name() {
        let path = std::env::temp_dir().join(format!("catlab-creds-{}", std::process::id()));
        let refused = |url: &str, text: &str| {
            std::fs::write(&path, text).unwrap();
            let access = Access { credentials: Some(path.clone()), ..Access::plain(url) };
            let refused = access.options(&url.parse().unwrap()).map(|_| ()).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("--nats-creds {}: ", path.display())), "{refused}");
            refused
        };
        let plain = "nats://192.0.2.1";
        // The seed of an account, the public key of a user, a JWT without a seed, and an empty file.
        for invalid in [
            "SAANJIBNEKGCRUWJCPIWUXFBFJLR36FJTFKGBGKAT7AQXH2LVFNQWZJMQU",
            "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4",
            "-----BEGIN NATS USER JWT-----",
            "",
        ] {
            refused(plain, invalid);
        }
        let seed = "SUANJIBNEKGCRUWJCPIWUXFBFJLR36FJTFKGBGKAT7AQXH2LVFNQWZJMQU";
        assert!(refused("nats://lab:secret@192.0.2.1", seed).contains("the URL names a user"));
        std::fs::remove_file(&path).unwrap();
        assert!(Access { credentials: Some(path), ..Access::plain(plain) }.options(&plain.parse().unwrap()).is_err());
    }
}
