//! The limits of this crate.

/// Maximum number of datagrams in one system call of a worker.
pub(crate) const UDP_BATCH_COUNT: usize = 64;
/// Maximum size of a DNS message, over UDP and over streams (RFC 1035 4.2.2).
pub(crate) const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Kernel buffer of each UDP socket. The kernel may grant less.
pub(crate) const UDP_SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// Evicted connections that have not ended yet. At the limit, new connections are refused.
pub(crate) const EVICTED_MAX: usize = 1_024;
/// Connections among which an eviction picks the one that is idle longest.
pub(crate) const EVICTION_LOOK_MAX: usize = 64;
/// Minimum bytes per second that a client must read while data waits for it.
pub(crate) const SEND_BYTES_PER_SECOND_MIN: u64 = 4 << 10;
/// Requests in progress on one connection. At the limit, reading pauses (RFC 7766 6.2.1.1).
pub(crate) const TCP_PIPELINE_MAX: usize = 128;
/// Bytes of responses queued for one connection.
pub(crate) const TCP_WRITE_BACKLOG_BYTES_MAX: usize = 1 << 20;
/// Unsent bytes in the kernel per TCP client. The kernel's default hides the progress of a slow but steady reader.
pub(crate) const TCP_UNSENT_BYTES: u32 = 128 << 10;
/// Size of the length before a message on a stream (RFC 1035 4.2.2).
pub(crate) const MESSAGE_PREFIX_BYTES: usize = 2;
/// Size of one read from a connection.
pub(crate) const CONNECTION_READ_BYTES: usize = 16 << 10;
/// Messages that a connection answers before other tasks run. Clients have fewer in flight.
pub(crate) const CONNECTION_WORK_MESSAGES_MAX: usize = 128;
/// Time after which a connection lets other tasks run even earlier, in microseconds.
pub(crate) const CONNECTION_WORK_US: u64 = 1_000;

/// Time limit of a TLS or QUIC handshake. A tenth of it when most of [`HANDSHAKES_MAX`] are in use.
pub(crate) const HANDSHAKE_MS: u64 = 5_000;
/// Handshakes in progress.
pub(crate) const HANDSHAKES_MAX: usize = 2_048;
/// Handshakes in progress per client.
pub(crate) const HANDSHAKES_PER_CLIENT_MAX: usize = 512;
/// Bytes that TLS buffers for a client that reads slowly.
pub(crate) const TLS_WRITE_BUFFER_BYTES: usize = 16 << 10;
/// Maximum size of a session ticket. Tickets of this server are far smaller.
pub(crate) const TICKET_BYTES_MAX: usize = 16 << 10;
/// Interval between checks of files that are reloaded when they change.
pub(crate) const FILE_LOOK_MS: u64 = 1_000;
/// Secrets of DNS cookies that are valid at the same time.
pub(crate) const COOKIE_SECRETS_MAX: usize = 8;

/// Token buckets of a worker, four per cache line of 64 bytes. The least busy are replaced.
pub(crate) const RATE_LIMIT_BUCKETS: usize = 1 << 16;
/// Most recent networks that a worker caches. A power of two.
pub(crate) const RATE_LIMIT_NETWORKS: usize = 64;

/// Concurrent requests of one HTTP/2 connection (RFC 9113 6.5.2 recommends at least this).
pub(crate) const HTTP_STREAMS_MAX: u32 = 100;
/// Maximum size of the headers of a request.
pub(crate) const HTTP_HEADERS_BYTES_MAX: u32 = 16 << 10;
/// Maximum length of the parameter `dns` of a GET request.
pub(crate) const HTTP_GET_BYTES_MAX: usize = 4 << 10;
/// Receive window of a connection and of a stream: one request body of the maximum size.
pub(crate) const HTTP_WINDOW_BYTES: u32 = 65_535;
/// Bytes of a response that HTTP/2 buffers for a client that reads slowly.
pub(crate) const HTTP_SEND_BUFFER_BYTES: usize = 16 << 10;
/// Requests that a client resets before the server looks at them. Beyond, the connection is closed.
pub(crate) const HTTP_PENDING_RESETS_MAX: usize = 20;
/// Requests that the server resets because they are malformed. Beyond, the connection is closed.
pub(crate) const HTTP_LOCAL_RESETS_MAX: usize = 100;
/// Requests that a client resets before the response. Beyond, and if they are the majority, the connection is closed.
pub(crate) const HTTP_RESETS_MAX: u64 = 100;
/// Time for a client to finish after GOAWAY.
pub(crate) const HTTP_DRAIN_MS: u64 = 1_000;

/// Concurrent queries of one QUIC connection.
pub(crate) const QUIC_STREAMS_MAX: u32 = 100;
/// Receive window of a QUIC stream: the longest message with its length, and one byte to detect that there is more.
pub(crate) const QUIC_STREAM_WINDOW_BYTES: u32 = (MESSAGE_PREFIX_BYTES + DATAGRAM_BYTES_MAX + 1) as u32;
/// Receive window of a QUIC connection. Only data behind a gap stays in it, because queries are read as they arrive.
pub(crate) const QUIC_WINDOW_BYTES: u32 = QUIC_STREAM_WINDOW_BYTES;
/// Bytes of responses that a QUIC connection buffers.
pub(crate) const QUIC_SEND_BYTES: u64 = 256 << 10;
/// Handshakes in progress from which on a QUIC client must first validate its address (RFC 9000 8.1.2).
pub(crate) const QUIC_HALF_OPEN_MAX: usize = 64;
/// Bytes of datagrams queued for a QUIC connection that is not accepted yet.
pub(crate) const QUIC_INCOMING_BYTES: u64 = 16 << 10;
/// Bytes of datagrams queued for all QUIC connections that are not accepted yet.
pub(crate) const QUIC_INCOMING_TOTAL_BYTES: u64 = 4 << 20;
/// Zone transfers in progress.
pub(crate) const TRANSFERS_MAX: usize = 16;
/// Messages of a transfer queued for its client.
pub(crate) const TRANSFER_QUEUE_MAX: usize = 4;

/// Maximum time that an API request waits for a zone to reach a serial.
pub(crate) const AT_WAIT_MS_MAX: u64 = 30_000;
/// Requests that wait for a serial at the same time. The other half of a client's connections is for status requests.
pub(crate) const AT_WAITING_MAX: usize = API_CONNECTIONS_PER_CLIENT_MAX / 2;

/// Requests queued for the update threads: UPDATEs and all signed messages.
pub(crate) const UPDATE_QUEUE_MAX: usize = 4_096;
/// Requests of one network in that queue, while it is at least half full.
pub(crate) const UPDATE_QUEUE_PER_NETWORK_MAX: u32 = 256;
/// Updates given to the replica that have no outcome yet.
pub(crate) const UPDATES_PENDING_MAX: usize = 8_192;
/// Pending updates of one key in one zone, while at least half of [`UPDATES_PENDING_MAX`] are pending.
pub(crate) const UPDATES_PER_KEY_MAX: u32 = 512;
/// Hash slots of a fair quota.
pub(crate) const QUOTA_SLOTS: usize = 4_096;
/// Maximum number of threads that authenticate and sign. There is one per core.
pub(crate) const UPDATE_THREADS_MAX: usize = 4;
/// Time after which the node drops an update without an outcome. It does not respond (UDP) or closes (TCP).
pub(crate) const UPDATE_FORGET_MS: u64 = 10_000;
/// Finished or dropped updates that one work item removes from the table.
pub(crate) const UPDATES_FORGET_COUNT: usize = 64;
/// Time that a silent connection stays open for a deferred response. After it, the response was lost.
pub(crate) const DEFERRED_MS_MAX: u64 = UPDATE_FORGET_MS + 2_000;

/// Administrative requests in flight.
pub(crate) const ADMIN_PENDING_MAX: usize = 64;
/// Time limit of an administrative request.
pub(crate) const ADMIN_WAIT_MS: u64 = 30_000;
/// Connections to the API over TCP. At the limit, a new one replaces the one that is idle longest.
pub(crate) const API_CONNECTIONS_MAX: usize = 256;
/// Connections to the API of one client: an IPv4 address, an IPv6 /64, or this machine.
pub(crate) const API_CONNECTIONS_PER_CLIENT_MAX: usize = API_CONNECTIONS_MAX / 4;
/// Connections to the API over the node's Unix socket.
pub(crate) const API_SOCKET_CONNECTIONS_MAX: usize = 32;
/// Silence after which a connection to the API may be replaced by a new one.
pub(crate) const API_IDLE_MS_MIN: u64 = 100;
/// Time that a new connection waits for a free slot.
pub(crate) const API_PERMIT_WAIT_MS: u64 = 2_000;
/// Maximum size of the head of a request, and number of its header fields.
pub(crate) const API_HEAD_BYTES_MAX: usize = 64 << 10;
pub(crate) const API_HEADERS_MAX: usize = 64;
/// Time in which a client must read some of a response.
pub(crate) const API_WRITE_MS: u64 = 10_000;
/// Silence in both directions after which a connection to the API ends. It is longer than any request.
pub(crate) const API_SILENCE_MS: u64 = 1_000_000;
/// Maximum size of a file with a join token.
pub(crate) const TOKEN_TEXT_BYTES_MAX: u64 = 4 << 10;
/// Records queued for the audit log. More are lost, and the log gets a gap.
pub(crate) const AUDIT_WAITING_MAX: usize = 100_000;
/// Bytes of one file that a request for the last lines reads.
pub(crate) const AUDIT_READ_BYTES_MAX: u64 = 64 << 20;
/// Rates and bursts of lines about refused requests: of clients without a valid key, and of clients with one.
pub(crate) const AUDIT_UNVERIFIED_PER_SECOND: u32 = 1;
pub(crate) const AUDIT_UNVERIFIED_BURST: u32 = 20;
pub(crate) const AUDIT_VERIFIED_PER_SECOND: u32 = 10;
pub(crate) const AUDIT_VERIFIED_BURST: u32 = 100;
/// Work items that the audit log's thread takes before it writes.
pub(crate) const AUDIT_BATCH_MAX: usize = 4096;
/// Bytes that a node reserves for a start on a full disk: two log segments.
pub(crate) const RESERVE_BYTES: u64 = 32 << 20;
/// Lines of the audit log in one response.
pub(crate) const AUDIT_LINES_MAX: usize = 10_000;

/// Maximum size of a frame between nodes.
pub(crate) const PEER_FRAME_BYTES_MAX: usize = replica::limits::FRAME_BYTES_MAX;
/// Maximum size of a frame that the receiving thread handles inline. Larger ones would delay its reads.
pub(crate) const FRAME_AT_ONCE_MAX: usize = 16 << 10;
/// Maximum size of a lone UPDATE or signed message that a packet worker handles itself, without an update thread.
pub(crate) const DATAGRAM_AT_ONCE_MAX: usize = 512;
/// Bytes queued for one channel of a peer. Beyond, frames are dropped, and Raft sends again.
pub(crate) const PEER_CHANNEL_BYTES_MAX: usize = 64 << 20;
/// Frames queued for one channel of a peer.
pub(crate) const PEER_CHANNEL_FRAMES_MAX: usize = 4_096;
/// Bytes that the replica thread encrypts and writes inline, in about 30 us. The connection task writes the rest.
pub(crate) const PEER_WRITE_NOW_BYTES: usize = 64 << 10;
/// Bytes of frames per write to TLS.
pub(crate) const PEER_GATHER_BYTES: usize = 256 << 10;
/// Bytes of queued inbound frames, from all peers.
pub(crate) const PEER_INBOUND_BYTES_MAX: usize = 64 << 20;
/// Time limit of a command to the cluster that updates certificates, CAs or data keys. It is repeated later.
pub(crate) const TRUST_COMMAND_MS: u64 = 5_000;
/// First pause before a peer is dialled again. It doubles up to [`PEER_RETRY_MS_MAX`].
pub(crate) const PEER_RETRY_MS_MIN: u64 = 10;
/// Longest pause before a peer is dialled again.
pub(crate) const PEER_RETRY_MS_MAX: u64 = 500;
/// Time limit to open a TCP connection.
pub(crate) const PEER_CONNECT_MS: u64 = 900;
/// Time limit for the setup of a peer connection, including TLS and greeting.
pub(crate) const PEER_HANDSHAKE_MS: u64 = 3_000;
/// Time without an acknowledgement after which a connection to or from a peer ends.
pub(crate) const PEER_ACK_TIMEOUT_MS: u64 = 5_000;
/// Connections from peers that have not authenticated yet, in total and per address.
pub(crate) const PEER_PENDING_MAX: usize = 256;
pub(crate) const PEER_PENDING_PER_ADDRESS_MAX: usize = 32;
/// Handshakes per second and address on the peer port, except for members. Each costs a signature.
pub(crate) const PEER_HANDSHAKES_PER_SECOND: u32 = 200;
pub(crate) const PEER_HANDSHAKES_BURST: u32 = 400;
/// Concurrent member checks of this node.
pub(crate) const MEMBER_CHECKS_MAX: usize = 32;
/// Time limit of a member check.
pub(crate) const MEMBER_CHECK_MS: u64 = 1_000;
/// Time limit for a member to connect to an address that another member announces.
pub(crate) const PEER_DIAL_BACK_MS: u64 = 1_500;
/// Maximum size of a kernel event. The kernel allows 2 KiB of variables and a path.
pub(crate) const UEVENT_BYTES_MAX: usize = 8 << 10;
/// Maximum length of a cluster id as text.
pub(crate) const SUPERSEDED_TEXT_BYTES_MAX: usize = 64;
/// Time limit for a member's answer to an announcement.
pub(crate) const ANNOUNCE_MS: u64 = PEER_HANDSHAKE_MS;
/// Addresses of a peer that are tried in addition to the one in the cluster's state.
pub(crate) const PEER_HINTS_MAX: usize = 3;
/// Maximum length of a peer's address as text, in bytes.
pub(crate) const PEER_ADDRESS_BYTES_MAX: u64 = replica::limits::ADDRESS_BYTES_MAX as u64;
/// Addresses that are tried for the name of a peer.
pub(crate) const PEER_ADDRESSES_MAX: usize = 4;
/// Threads that resolve names of peers. With two, one slow lookup does not block the others.
pub(crate) const RESOLVER_THREADS: usize = 2;
/// Queued lookups of peer names.
pub(crate) const RESOLVES_WAITING_MAX: usize = 256;
/// Nodes that join at the same time.
pub(crate) const JOINS_MAX: usize = 4;
/// Maximum size of a join request: a secret, an address and a number.
pub(crate) const JOIN_REQUEST_BYTES_MAX: usize = 1 << 10;
/// Maximum size of other messages in JSON between nodes.
pub(crate) const PEER_MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Interval between ticks of the replica.
pub(crate) const TICK_MS: u64 = 10;
/// Inputs per round of the replica. It evaluates fewer at once, and its own queue is fair between keys and zones.
pub(crate) const REPLICA_BATCH_COUNT: usize = 2_048;
/// Outputs that are executed before further inputs.
pub(crate) const REPLICA_OUTPUTS_COUNT: usize = 4_096;
/// Queued inputs that are handled before a late tick, about 40 ms of work.
pub(crate) const EVENTS_BEFORE_TICK_MAX: usize = 4_096;

/// Time in which the nodes of `up` must become ready, plus 1 ms for this many bytes that they have to read.
pub(crate) const UP_READY_MS: u64 = 60_000;
pub(crate) const UP_BYTES_A_MS: u64 = 10_000;
/// Time in which the nodes of `up` must stop before it kills them.
pub(crate) const UP_STOP_MS: u64 = 10_000;

/// Size of the chunks in which a backup is read and sent.
pub(crate) const BACKUP_CHUNK_BYTES: usize = 256 << 10;
/// Queued chunks of a backup.
pub(crate) const BACKUP_CHUNKS_MAX: usize = 4;

/// Threads that query the daemons of `external` rules.
pub(crate) const EXTERNAL_THREADS: usize = 8;
/// Threads that may query the same daemon. The other threads remain for other daemons if one daemon is silent.
pub(crate) const EXTERNAL_THREADS_PER_SOCKET_MAX: usize = 4;
/// Time limit for the answers of all daemons about one update.
pub(crate) const EXTERNAL_WAIT_MS: u64 = 1_000;
/// Maximum time of an update in the queue for daemons.
pub(crate) const EXTERNAL_QUEUE_MS: u64 = 2_000;
/// Updates in the queue for daemons.
pub(crate) const EXTERNAL_WAITING_MAX: usize = 1_024;
/// Updates in the queue for one daemon.
pub(crate) const EXTERNAL_PER_SOCKET_MAX: usize = 512;

/// Divisor of the zone memory for old versions during a checkpoint and each transfer, and for the newest log entries.
pub(crate) const ZONES_HELD_SHARE: u64 = 8;
/// Members to which a node sends parts of its log at the same time. Each makes it read its whole log.
pub(crate) const REPAIR_SESSIONS_MAX: usize = 2;
/// Time limit for the next request about a damaged log, and for its answer, which may need a read of a long log.
pub(crate) const REPAIR_IDLE_MS: u64 = 60_000;
/// Size of the parts of a checkpoint that replaces a damaged one.
pub(crate) const REPAIR_PART_BYTES: usize = 1 << 20;
/// Maximum size of that checkpoint.
pub(crate) const REPAIR_CHECKPOINT_BYTES_MAX: u64 = 64 << 30;
/// Rounds after which a node gives up if all members answer and none can help.
pub(crate) const REPAIR_ROUNDS_MAX: u32 = 5;
/// Maximum size of the file that lists the members.
pub(crate) const MEMBERS_FILE_BYTES_MAX: u64 = 1 << 20;
/// Bytes that a scrub reads per second.
pub(crate) const SCRUB_BYTES_PER_SECOND: u64 = 8 << 20;
/// Maximum size of the file with the time of the last scrub.
pub(crate) const SCRUBBED_BYTES_MAX: u64 = 64;
