//! A TCP connection that never waits, with TLS or without: bytes in, bytes out.

use crate::engine::system;
use mio::net::TcpStream;
use rustls::Connection as Tls;
use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

/// See the module. What is written waits here until the connection and its handshake allow it.
pub(crate) struct Link {
    socket: TcpStream,
    tls: Option<Box<Tls>>,
    /// Plain bytes that wait: for the connection, or for room in the kernel's buffer.
    unsent: Vec<u8>,
    unsent_from: usize,
    is_connected: bool,
    is_writable: bool,
    /// Bytes that went out as early data; if the server refuses it they go out again.
    early: Vec<u8>,
    /// When the last segment that was read had come, on the wall clock.
    came: Option<Duration>,
    /// Reads that gave bytes.
    read_count: u64,
}

/// Whether more may come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// More may come.
    Open,
    /// The other side has closed.
    Closed,
}

impl Link {
    /// A connection that is being made, or has been (`is_connected`).
    pub(crate) fn new(socket: TcpStream, tls: Option<Box<Tls>>, is_connected: bool) -> Self {
        let is_writable = is_connected;
        Self {
            socket,
            tls,
            unsent: Vec::new(),
            unsent_from: 0,
            is_connected,
            is_writable,
            early: Vec::new(),
            came: None,
            read_count: 0,
        }
    }

    pub(crate) fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    pub(crate) const fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Whether a TLS handshake goes on.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// The TLS session, where there is one.
    pub(crate) fn tls(&self) -> Option<&Tls> {
        self.tls.as_deref()
    }

    /// The kernel says that it takes bytes again; gives whether the connection is new with it.
    ///
    /// # Errors
    /// When the connection could not be made.
    pub(crate) fn writable(&mut self) -> io::Result<bool> {
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

    /// Bytes that wait for the kernel; roughly, under TLS.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.unsent.len() - self.unsent_from
    }

    /// Queues bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.unsent.extend_from_slice(bytes);
    }

    /// Where bytes can be queued without a copy.
    pub(crate) fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.unsent
    }

    /// Hands the kernel what it takes.
    ///
    /// # Errors
    /// When the connection is broken.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
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

    /// Moves plain bytes into TLS: once the handshake is done, or before as early data.
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

    /// Early data that the server did not take goes out again, now under the handshake's keys (RFC 8446 4.2.10); gives
    /// whether the server took any.
    pub(crate) fn settle_early_data(&mut self) -> bool {
        let sent = std::mem::take(&mut self.early);
        let is_taken = matches!(self.tls.as_deref(), Some(Tls::Client(client)) if client.is_early_data_accepted());
        if !sent.is_empty() && !is_taken {
            self.unsent.splice(self.unsent_from..self.unsent_from, sent);
        }
        is_taken
    }

    /// Takes in all that waits; its plain bytes are added to `into`. `scratch` is for what comes off the wire. Where
    /// the other side is known to have closed (`is_closing`), its end is looked for.
    ///
    /// # Errors
    /// When the connection is broken, or its TLS is.
    pub(crate) fn read(&mut self, scratch: &mut [u8], into: &mut Vec<u8>, is_closing: bool) -> io::Result<End> {
        if !self.is_connected {
            return Ok(End::Open);
        }
        loop {
            let count = match self.read_some(scratch) {
                Ok(0) => return Ok(End::Closed),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(End::Open),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let end = match &mut self.tls {
                None => {
                    into.extend_from_slice(&scratch[..count]);
                    End::Open
                }
                Some(tls) => decrypt(tls, &scratch[..count], into)?,
            };
            // A read that leaves room has taken all: epoll(7) tells of what comes later.
            if end == End::Closed || (count < scratch.len() && !is_closing) {
                return Ok(end);
            }
        }
    }

    fn read_some(&mut self, scratch: &mut [u8]) -> io::Result<usize> {
        let (count, came) = system::read_stamped(&self.socket, scratch)?;
        self.came = came;
        self.read_count += u64::from(count > 0);
        Ok(count)
    }

    /// When the last segment that was read had come, on the wall clock; `None` when the kernel does not say.
    pub(crate) const fn came(&self) -> Option<Duration> {
        self.came
    }

    /// Reads that gave bytes.
    pub(crate) const fn read_count(&self) -> u64 {
        self.read_count
    }

    /// On the server's side: early data that has come (RFC 8446 2.3), ahead of all other plain bytes.
    pub(crate) fn read_early_data(&mut self, into: &mut Vec<u8>) {
        let Some(Tls::Server(server)) = self.tls.as_deref_mut() else { return };
        let Some(mut early) = server.early_data() else { return };
        let mut bytes = Vec::new();
        // It reads from memory, and ends where no more has come.
        let _read = early.read_to_end(&mut bytes);
        into.splice(0..0, bytes);
    }

    /// Says good-bye within TLS, as far as the kernel takes it.
    pub(crate) fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // The connection ends either way.
            let _sent = tls.write_tls(&mut self.socket);
        }
    }
}

fn decrypt(tls: &mut Tls, mut bytes: &[u8], into: &mut Vec<u8>) -> io::Result<End> {
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
            return Ok(End::Closed);
        }
    }
    Ok(End::Open)
}
