//! Outgoing zone transfers (RFC 5936): one version of a zone, in signed messages of up to 64 KiB.
//!
//! IXFR is answered like AXFR, which RFC 1995 4 allows, because differences are not supported yet. Over UDP it is
//! answered with the current SOA, so the client can decide whether to retry over TCP.

// Limits of time and memory.
mod budget;
// Slots for running transfers.
mod slots;
// Their threads.
mod threads;

use crate::answer::context::Service;
use crate::answer::counters::{Refusal, Refused};
use crate::answer::response::ResponseHead;
use crate::limits::{DATAGRAM_BYTES_MAX, TRANSFER_QUEUE_MAX, TRANSFERS_MAX};
use crate::listen::{DeferredResponse, Reply};
use crate::published::readers::Zones;
use crate::published::rights::Rights;
use crate::published::serving::ServingNow;
use crate::sys::clock::now_s;
use crate::update_queue::fair_quota::network;
pub(crate) use budget::Transfers;
use budget::{AbortReason, TransferBudget};
use config::limits::TCP_IDLE_MS;
use process::log_limit::untrusted;
use replica::io::{Right, Serving};
use slots::Slot;
use std::sync::Arc;
use std::time::{Duration, Instant};
pub(crate) use threads::{QueuedTransfer, start_transfers};
use tokio::sync::mpsc::Sender;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tsig::{SequenceSigner, Signer, Verified};
use wire::compose::{Composer, EdnsOut};
use wire::limits::HEADER_BYTES;
use wire::name::NameRef;
use wire::number::{Class, Rcode, Rtype, Serial};
use wire::parse::{Request, Section};
use zone::answer::Servable;
use zone::record::ZoneId;
use zone::set::{Frozen, SetVersion, Zone};

/// Interval between checks whether a waiting transfer must end.
const TRANSFER_LOOK_MS: u64 = 250;

/// A request for a zone transfer.
#[derive(Clone, Debug)]
pub(super) struct TransferRequest {
    zone: ZoneId,
    /// The serial that the client of an IXFR has.
    has: Option<Serial>,
}

/// The transfer that `request` asks for, if any. AXFR needs a transport for many messages: not UDP (RFC 5936 4.2), not
/// HTTP, and TLS only under the conditions of RFC 9103 7. On other transports it is refused as a query.
pub(super) fn transfer_request(request: &Request<'_>, reply: &Reply) -> Option<TransferRequest> {
    let question = request.question.as_ref().filter(|question| question.qclass == Class::IN)?;
    let zone = ZoneId { view: 0, apex: question.qname.to_canonical() };
    match question.qtype {
        Rtype::AXFR if reply.takes_transfers() => Some(TransferRequest { zone, has: None }),
        Rtype::IXFR => Some(TransferRequest { zone, has: client_serial(request) }),
        _ => None,
    }
}

/// The serial in the SOA of the authority section (RFC 1995 3).
fn client_serial(request: &Request<'_>) -> Option<Serial> {
    let soa = request.records(Section::Authority).filter_map(Result::ok).find(|record| record.rtype == Rtype::SOA)?;
    let mut rdata = Vec::new();
    soa.rdata_canonical(&mut rdata).ok()?;
    soa_serial(&rdata)
}

/// The serial in uncompressed SOA rdata. It follows two names.
fn soa_serial(rdata: &[u8]) -> Option<Serial> {
    let (_, rest) = NameRef::split_from(rdata).ok()?;
    let (_, rest) = NameRef::split_from(rest).ok()?;
    Some(Serial(u32::from_be_bytes(rest.get(..4)?.try_into().ok()?)))
}

/// Whether the transfer may start.
pub(super) fn admit(
    zones: &mut Zones,
    transfer: &TransferRequest,
    key: &Verified,
    rights: &Rights,
    serving: ServingNow<'_>,
) -> Result<(), Refused> {
    if serving.serving == Serving::No {
        return Err(Refused { rcode: Rcode::SERVFAIL, reason: Refusal::NotServing });
    }
    // RFC 5936 2.2.1: NotAuth when the server is not authoritative for the zone.
    let set = zones.pin();
    let Some(zone) = set.zone(&transfer.zone) else {
        return Err(Refused { rcode: Rcode::NOTAUTH, reason: Refusal::ZoneUnknown });
    };
    if !rights.is_granted(&key.key_name, &transfer.zone, Right::Transfer) {
        return Err(Refused { rcode: Rcode::REFUSED, reason: Refusal::NotGranted });
    }
    match serving.of(&zone) {
        Servable::Expired => Err(Refused { rcode: Rcode::SERVFAIL, reason: Refusal::Expired }),
        Servable::CutOff => Err(Refused { rcode: Rcode::SERVFAIL, reason: Refusal::CutOff }),
        Servable::Ready | Servable::Loading => Ok(()),
    }
}

/// Writes the response to an IXFR over UDP: "a single SOA record of the server's current version" (RFC 1995 2). It
/// leaves `tsig_bytes` free. A client without room for it gets TC. `None` if the zone is gone.
pub(super) fn current_soa(
    set: SetVersion<'_>,
    head: &ResponseHead,
    transfer: &TransferRequest,
    service: &Service,
    tsig_bytes: usize,
    out: &mut [u8],
) -> Option<usize> {
    let zone = set.zone(&transfer.zone)?;
    let soa = zone.soa()?;
    let edns = head.edns_out_of_zone(service, tsig_bytes, zone.expire());
    let mut composer = Composer::new(out, head.bytes_max(service, tsig_bytes));
    composer.reserve(edns.as_ref().map_or(0, EdnsOut::byte_count));
    composer.start(head.header(), head.question(), Rcode::NOERROR, true);
    let rdata = [soa.first()?];
    if composer.push_rrset(Section::Answer, zone.apex(), Rtype::SOA, Class::IN, soa.ttl, rdata).is_err() {
        composer.truncate_all();
    }
    Some(composer.finish(edns.as_ref()))
}

/// The slot of a running transfer. Dropping it releases the slot.
pub(super) struct RunningTransfer {
    transfers: Arc<Transfers>,
    slot: Arc<Slot>,
}

impl RunningTransfer {
    /// Acquires a slot, if this key and client have not used their share.
    pub(super) fn acquire(transfers: &Arc<Transfers>, key: &Verified, reply: &Reply) -> Option<Self> {
        const { assert!(TRANSFERS_MAX > 0) };
        let key = key.key_name.as_ref().to_canonical();
        let slot = transfers.slots.acquire(&key, network(reply.peer().ip()), Instant::now())?;
        Some(Self { transfers: transfers.clone(), slot })
    }
}

impl Drop for RunningTransfer {
    fn drop(&mut self) {
        self.transfers.slots.release(&self.slot);
    }
}

/// Why a transfer failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TransferError {
    /// The client or the zone is gone.
    Gone,
    /// The server ended it.
    Aborted(AbortReason),
}

impl From<AbortReason> for TransferError {
    fn from(why: AbortReason) -> Self {
        Self::Aborted(why)
    }
}

/// An admitted transfer.
pub(crate) struct Job {
    service: Arc<Service>,
    head: ResponseHead,
    transfer: TransferRequest,
    signer: SequenceSigner,
    reply: Reply,
    budget: TransferBudget,
    running: RunningTransfer,
}

impl Job {
    pub(super) fn new(
        service: Arc<Service>,
        head: ResponseHead,
        transfer: TransferRequest,
        signer: Signer,
        reply: Reply,
        running: RunningTransfer,
    ) -> Self {
        let budget = TransferBudget::new(running.transfers.clone(), Instant::now());
        Self { service, head, transfer, signer: signer.into(), reply, budget, running }
    }

    /// Sends the zone, once its version is known.
    fn run(self, frozen: oneshot::Receiver<Frozen>) {
        match frozen.blocking_recv() {
            Ok(frozen) => self.send_zone(&frozen),
            // The node is ending.
            Err(_) => self.give_up(),
        }
    }

    /// Closes the connection of the client.
    fn give_up(self) {
        self.reply.give_up();
    }

    fn send_zone(mut self, frozen: &Frozen) {
        let Reply::Stream { connection, .. } = self.reply.clone() else { return self.reply.give_up() };
        let set = frozen.set();
        let sent = match set.zone(&self.transfer.zone) {
            Some(zone) => self.send(&zone, connection),
            // The zone was removed after the transfer was admitted.
            None => Err(TransferError::Gone),
        };
        let Self { running, reply, transfer, .. } = self;
        let transfers = running.transfers.clone();
        // The slot is released before the client sees the end.
        drop(running);
        if let Err(TransferError::Aborted(why)) = sent {
            transfers.record_abort(why);
            let (peer, zone) = (reply.peer(), transfer.zone.apex.to_string());
            process::warn_limited!(%peer, zone = %untrusted(&zone), reason = why.label(), "transfer aborted");
        }
        if sent.is_err() {
            reply.give_up();
        }
    }

    /// Sends all messages.
    fn send(&mut self, zone: &Zone<'_>, connection: Sender<DeferredResponse>) -> Result<(), TransferError> {
        let soa = zone.soa().ok_or(TransferError::Gone)?;
        let (ttl, rdata) = (soa.ttl, soa.first().ok_or(TransferError::Gone)?);
        let serial = soa_serial(rdata).ok_or(TransferError::Gone)?;
        let mut stream = Stream::new(self, connection, zone.expire()).ok_or(TransferError::Gone)?;
        stream.push(zone.apex(), Rtype::SOA, ttl, rdata)?;
        // RFC 1995 2: a client with this version or a newer one gets only the SOA.
        let is_current = stream.job.transfer.has.is_some_and(|has| !serial.is_newer_than(has));
        if !is_current {
            let is_apex_soa = |owner: NameRef<'_>, rtype| rtype == Rtype::SOA && owner == zone.apex();
            // RFC 4035 2.4: an apex has no DS. A DS that an older build accepted is left out.
            let is_apex_ds = |owner: NameRef<'_>, rtype| rtype == Rtype::DS && owner == zone.apex();
            let is_left_out = |owner, rtype| is_apex_soa(owner, rtype) || is_apex_ds(owner, rtype);
            for record in zone.records().filter(|record| !is_left_out(record.owner, record.rtype)) {
                stream.push(record.owner, record.rtype, record.ttl, record.rdata)?;
            }
            // RFC 5936 2.2: the transfer ends with the SOA that it started with.
            stream.push(zone.apex(), Rtype::SOA, ttl, rdata)?;
        }
        stream.finish()
    }
}

/// The messages of one transfer.
struct Stream<'j> {
    job: &'j mut Job,
    connection: Sender<DeferredResponse>,
    /// EXPIRE of the zone's SOA.
    expire: Option<u32>,
    permits: Arc<Semaphore>,
    runtime: tokio::runtime::Runtime,
    /// Records of the next message. It is composed when the next record does not fit.
    records: Vec<QueuedRecord>,
    records_bytes: usize,
    /// Bytes for records in one message.
    room: usize,
    /// Bytes of all messages that were passed to the connection.
    sent_bytes: u64,
    is_first: bool,
}

/// A record of the next message.
struct QueuedRecord {
    owner: wire::Name,
    rtype: Rtype,
    ttl: u32,
    rdata: Vec<u8>,
}

impl<'j> Stream<'j> {
    fn new(job: &'j mut Job, connection: Sender<DeferredResponse>, expire: Option<u32>) -> Option<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().ok()?;
        let permits = Arc::new(Semaphore::new(TRANSFER_QUEUE_MAX));
        let tsig_bytes = job.signer.reserve_bytes();
        let opt_bytes = job.head.edns_out_of_zone(&job.service, tsig_bytes, expire);
        let opt_bytes = opt_bytes.map_or(0, |edns| edns.byte_count());
        let head_bytes = HEADER_BYTES + job.head.question().map_or(0, <[u8]>::len) + opt_bytes + tsig_bytes;
        Some(Self {
            job,
            connection,
            expire,
            permits,
            runtime,
            records: Vec::new(),
            records_bytes: 0,
            room: DATAGRAM_BYTES_MAX - head_bytes,
            sent_bytes: 0,
            is_first: true,
        })
    }

    /// Adds one record. Sizes are counted without compression, so the message always fits.
    fn push(&mut self, owner: NameRef<'_>, rtype: Rtype, ttl: u32, rdata: &[u8]) -> Result<(), TransferError> {
        /// TYPE, CLASS, TTL, RDLENGTH.
        const FIXED_BYTES: usize = 10;
        let bytes = owner.as_bytes().len() + FIXED_BYTES + rdata.len();
        if self.records_bytes + bytes > self.room {
            self.flush(false)?;
        }
        self.records_bytes += bytes;
        self.records.push(QueuedRecord { owner: owner.to_name(), rtype, ttl, rdata: rdata.to_vec() });
        Ok(())
    }

    fn finish(mut self) -> Result<(), TransferError> {
        self.flush(true)
    }

    fn flush(&mut self, is_last: bool) -> Result<(), TransferError> {
        let mut out = vec![0; DATAGRAM_BYTES_MAX];
        let Job { service, head, signer, .. } = &mut *self.job;
        let tsig_bytes = signer.reserve_bytes();
        let mut composer = Composer::new(&mut out, DATAGRAM_BYTES_MAX - tsig_bytes);
        // RFC 5936 2.2: the question must be in the first message, and may be in the others. So may OPT (2.2.5).
        let edns = head.edns_out_of_zone(service, tsig_bytes, self.expire).filter(|_| self.is_first);
        composer.reserve(edns.as_ref().map_or(0, EdnsOut::byte_count));
        composer.start(head.header(), head.question().filter(|_| self.is_first), Rcode::NOERROR, true);
        for record in self.records.drain(..) {
            let rdata = [&record.rdata[..]];
            composer
                .push_rrset(Section::Answer, record.owner.as_ref(), record.rtype, Class::IN, record.ttl, rdata)
                .map_err(|_| TransferError::Gone)?;
        }
        let len = composer.finish(edns.as_ref());
        let len = signer.sign(&mut out, len, now_s()).map_err(|_| TransferError::Gone)?;
        out.truncate(len);
        (self.records_bytes, self.is_first) = (0, false);
        let late = if is_last { DeferredResponse::Message(out) } else { DeferredResponse::Part(out, self.permit()?) };
        self.connection.try_send(late).map_err(|_| TransferError::Gone)?;
        self.sent_bytes += len as u64;
        self.job.running.slot.sent(self.sent_bytes);
        Ok(())
    }

    /// Waits until the queue has room. A slow client delays only its own transfer, and only up to a limit.
    fn permit(&self) -> Result<OwnedSemaphorePermit, TransferError> {
        let silent_at = Instant::now() + Duration::from_millis(2 * TCP_IDLE_MS);
        let look = Duration::from_millis(TRANSFER_LOOK_MS);
        loop {
            let now = Instant::now();
            if self.job.running.slot.is_evicted() {
                return Err(AbortReason::Evicted.into());
            }
            self.job.budget.check(self.sent_bytes, now)?;
            if now > silent_at {
                return Err(AbortReason::Slow.into());
            }
            let permit = self.permits.clone().acquire_owned();
            if let Ok(permit) = self.runtime.block_on(async { tokio::time::timeout(look, permit).await }) {
                return permit.map_err(|_| TransferError::Gone);
            }
        }
    }
}
