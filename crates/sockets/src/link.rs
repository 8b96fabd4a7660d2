//! A non-blocking TCP connection, optionally with TLS.

use crate::system;
use mio::net::TcpStream;
use rustls::Connection as Tls;
use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

/// A non-blocking TCP connection. Written bytes are buffered until the connection and its handshake allow sending.
pub struct Link {
    socket: TcpStream,
    tls: Option<Box<Tls>>,
    /// Plain bytes waiting for the connection, or for room in the kernel's buffer.
    unsent: Vec<u8>,
    unsent_from: usize,
    is_connected: bool,
    is_writable: bool,
    /// Bytes sent as early data. They are sent again if the server rejects them.
    early: Vec<u8>,
    /// When the last segment that was read arrived, on the wall clock.
    arrival_stamp: Option<Duration>,
    /// Number of reads that returned bytes.
    read_count: u64,
}

/// Whether more bytes may arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadStatus {
    /// More bytes may arrive.
    Open,
    /// The peer has closed.
    Closed,
}

impl Link {
    /// Takes a connection that is being established, or already is (`is_connected`).
    pub fn new(socket: TcpStream, tls: Option<Box<Tls>>, is_connected: bool) -> Self {
        let is_writable = is_connected;
        Self {
            socket,
            tls,
            unsent: Vec::new(),
            unsent_from: 0,
            is_connected,
            is_writable,
            early: Vec::new(),
            arrival_stamp: None,
            read_count: 0,
        }
    }

    /// The socket.
    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Whether TCP is connected.
    #[must_use]
    pub const fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Whether a TLS handshake is in progress.
    pub fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// The TLS session, if any.
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_deref()
    }

    /// The socket is writable. Returns whether the connection has just been established.
    ///
    /// # Errors
    /// If the connection failed.
    pub fn writable(&mut self) -> io::Result<bool> {
        self.is_writable = true;
        if self.is_connected {
            return Ok(false);
        }
        if let Some(error) = self.socket.take_error()? {
            return Err(error);
        }
        match self.socket.peer_addr() {
            Ok(_) => self.is_connected = true,
            Err(error) if error.kind() == ErrorKind::NotConnected => self.is_writable = false,
            Err(error) => return Err(error),
        }
        Ok(self.is_connected)
    }

    /// Number of bytes waiting for the kernel. Approximate under TLS.
    pub fn unsent_bytes(&self) -> usize {
        self.unsent.len() - self.unsent_from
    }

    /// Queues bytes.
    pub fn write(&mut self, bytes: &[u8]) {
        self.unsent.extend_from_slice(bytes);
    }

    /// The buffer for outgoing bytes, to append without a copy.
    pub fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.unsent
    }

    /// Writes queued bytes to the socket.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn flush(&mut self) -> io::Result<()> {
        if !self.is_writable {
            return Ok(());
        }
        if self.tls.is_some() { self.flush_tls() } else { self.flush_plain() }
    }

    fn flush_plain(&mut self) -> io::Result<()> {
        while self.unsent_from < self.unsent.len() {
            match self.socket.write(&self.unsent[self.unsent_from..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.unsent_from += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_writable = false;
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        self.forget_sent();
        Ok(())
    }

    fn flush_tls(&mut self) -> io::Result<()> {
        loop {
            self.encrypt()?;
            let Some(tls) = &mut self.tls else { return Ok(()) };
            while tls.wants_write() {
                match tls.write_tls(&mut self.socket) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        self.is_writable = false;
                        return Ok(());
                    }
                    Err(error) => return Err(error),
                }
            }
            if self.unsent_from == self.unsent.len() || tls.is_handshaking() {
                return Ok(());
            }
        }
    }

    /// Encrypts queued bytes: after the handshake, or before as early data.
    fn encrypt(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        if self.unsent_from == self.unsent.len() {
            return Ok(());
        }
        let bytes = &self.unsent[self.unsent_from..];
        let count = if !tls.is_handshaking() {
            tls.writer().write(bytes)?
        } else if let Tls::Client(client) = &mut **tls
            && let Some(mut early) = client.early_data()
        {
            let count = early.write(bytes)?;
            self.early.extend_from_slice(&bytes[..count]);
            count
        } else {
            0
        };
        self.unsent_from += count;
        if self.unsent_from == self.unsent.len() {
            self.forget_sent();
        }
        Ok(())
    }

    fn forget_sent(&mut self) {
        self.unsent_from = 0;
        self.unsent.clear();
        if self.unsent.capacity() > 1 << 10 {
            self.unsent = Vec::new();
        }
    }

    /// Queues rejected early data again, with the keys of the handshake (RFC 8446 4.2.10). Returns whether the server
    /// accepted any.
    pub fn finish_early_data(&mut self) -> bool {
        let sent = std::mem::take(&mut self.early);
        let is_taken = matches!(self.tls.as_deref(), Some(Tls::Client(client)) if client.is_early_data_accepted());
        if !sent.is_empty() && !is_taken {
            self.unsent.splice(self.unsent_from..self.unsent_from, sent);
        }
        is_taken
    }

    /// Reads all pending bytes and appends the decrypted ones to `into`. `scratch` is a buffer for raw bytes. With
    /// `is_closing`, the peer is known to have closed, so this reads to the end.
    ///
    /// # Errors
    /// If the connection or TLS is broken.
    pub fn read(&mut self, scratch: &mut [u8], into: &mut Vec<u8>, is_closing: bool) -> io::Result<ReadStatus> {
        if !self.is_connected {
            return Ok(ReadStatus::Open);
        }
        loop {
            let count = match self.read_some(scratch) {
                Ok(0) => return Ok(ReadStatus::Closed),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(ReadStatus::Open),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let end = match &mut self.tls {
                None => {
                    into.extend_from_slice(&scratch[..count]);
                    ReadStatus::Open
                }
                Some(tls) => decrypt(tls, &scratch[..count], into)?,
            };
            // A short read has emptied the socket. epoll(7) reports later bytes.
            if end == ReadStatus::Closed || (count < scratch.len() && !is_closing) {
                return Ok(end);
            }
        }
    }

    fn read_some(&mut self, scratch: &mut [u8]) -> io::Result<usize> {
        let (count, arrival_stamp) = system::read_stamped(&self.socket, scratch)?;
        self.arrival_stamp = arrival_stamp;
        self.read_count += u64::from(count > 0);
        Ok(count)
    }

    /// When the last segment that was read arrived, on the wall clock. `None` without a kernel timestamp.
    pub const fn arrival_stamp(&self) -> Option<Duration> {
        self.arrival_stamp
    }

    /// Number of reads that returned bytes.
    pub const fn read_count(&self) -> u64 {
        self.read_count
    }

    /// On a server: reads early data (RFC 8446 2.3), which comes before all other bytes.
    pub fn read_early_data(&mut self, into: &mut Vec<u8>) {
        let Some(Tls::Server(server)) = self.tls.as_deref_mut() else { return };
        let Some(mut early) = server.early_data() else { return };
        let mut bytes = Vec::new();
        // Reads from memory, up to the last available byte.
        let _read = early.read_to_end(&mut bytes);
        into.splice(0..0, bytes);
    }

    /// Sends the TLS close alert, if the kernel accepts it.
    pub fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // The connection ends in any case.
            let _sent = tls.write_tls(&mut self.socket);
        }
    }
}

fn decrypt(tls: &mut Tls, mut bytes: &[u8], into: &mut Vec<u8>) -> io::Result<ReadStatus> {
    while !bytes.is_empty() {
        tls.read_tls(&mut bytes)?;
        let state = tls.process_new_packets().map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        let count = state.plaintext_bytes_to_read();
        if count > 0 {
            let from = into.len();
            into.resize(from + count, 0);
            tls.reader().read_exact(&mut into[from..])?;
        }
        if state.peer_has_closed() {
            return Ok(ReadStatus::Closed);
        }
    }
    Ok(ReadStatus::Open)
}
