//! The limits of this crate.

use std::time::Duration;

/// Datagrams a worker takes from, or gives to, the kernel in one call.
pub(crate) const UDP_BATCH_COUNT: usize = 64;
/// Bytes of a datagram that is received; anything a datagram can carry (RFC 1035 4.2.2 has the same for TCP).
pub(crate) const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Interval between checks for wrong clocks.
pub(crate) const CLOCK_LOOK_EVERY: Duration = Duration::from_secs(1);
/// Interval between warnings about wrong clocks.
pub(crate) const CLOCK_WARN_EVERY: Duration = Duration::from_secs(60);
/// Bytes of a response over UDP, whatever the client advertises.
pub(crate) const UDP_RESPONSE_BYTES_MAX: usize = 4_096;
/// Bytes of a response over UDP unless the operator says otherwise (RFC 9715 3.1; DNS flag day 2020).
pub(crate) const UDP_PAYLOAD_DEFAULT: u16 = 1_232;
/// Longest sleep of a UDP worker; it looks for a stop order this often.
pub(crate) const UDP_WAIT_MS: i32 = 100;
/// Kernel buffer of each UDP socket, bytes; the kernel may grant less.
pub(crate) const UDP_SOCKET_BUFFER_BYTES: usize = 4 << 20;
/// UDP workers of a node.
pub(crate) const UDP_WORKERS_MAX: usize = 64;
/// Nice value of threads that answer queries, so that the replica gets CPU time during a flood.
pub(crate) const PACKET_NICE_STEP: i32 = 5;
/// Nice value of the API thread: large zone files must not delay queries.
pub(crate) const API_NICE_STEP: i32 = 10;
/// Nice value of long background work, if it cannot be idle: transfers, backups, zone files.
pub(crate) const BULK_NICE_STEP: i32 = 15;
/// If the idle thread runs within this time, the core was idle.
pub(crate) const BACKGROUND_PROMPT_US: u64 = 500;
/// Pause between steps of background work on busy cores while clients are answered.
pub(crate) const BACKGROUND_PAUSE_MS: u64 = 20;
/// Messages per second and core above which the clients count as many: a tenth of the core.
pub(crate) const BACKGROUND_BUSY_PER_SECOND: u64 = 20_000;
/// Minimum window of that count.
pub(crate) const BACKGROUND_WINDOW_MS: u64 = 10;
/// Addresses a node listens on.
pub(crate) const LISTEN_ADDRESSES_MAX: usize = 64;

/// Connections of a node, over all transports that have them.
pub(crate) const TCP_CONNECTIONS_MAX: usize = 16_384;
/// Connections of one client (RFC 7766 6.2.2 lets a server limit them).
pub(crate) const TCP_CONNECTIONS_PER_CLIENT_MAX: usize = 2_048;
/// Connections that were evicted and have not ended yet; while there are more, newcomers are refused. Each ends as soon
/// as its task is polled.
pub(crate) const EVICTED_MAX: usize = 1_024;
/// Connections that are looked at to find an idle one: so many that the idlest of them is among the idlest of all.
pub(crate) const EVICTION_LOOK_MAX: usize = 64;
/// Silence after which a connection is closed, and the time in which a slow reader has to take something of what waits
/// for it (RFC 7766 6.2.3).
pub(crate) const TCP_IDLE_MS: u64 = 10_000;
/// Minimum bytes per second that a client must read while data waits for it.
pub(crate) const SEND_BYTES_PER_SECOND_MIN: u64 = 4 << 10;
/// Window of that rate, in idle timeouts.
pub(crate) const SEND_RATE_WINDOW_IDLES: u32 = 3;
/// Requests of one connection that are being answered; reading stops until one is done (RFC 7766 6.2.1.1).
pub(crate) const TCP_PIPELINE_MAX: usize = 128;
/// Bytes of responses that wait for a connection's client to read them.
pub(crate) const TCP_WRITE_BACKLOG_BYTES_MAX: usize = 1 << 20;
/// Bytes that the kernel keeps unsent for one client of TCP before there is no room for more. Without it they are
/// megabytes, and there is room again when a third of them is gone: a steady client that reads slowly seems to stand.
pub(crate) const TCP_UNSENT_BYTES: u32 = 128 << 10;
/// Bytes of the length before a message on a stream (RFC 1035 4.2.2).
pub(crate) const MESSAGE_PREFIX_BYTES: usize = 2;
/// Bytes that a connection reads at once.
pub(crate) const CONNECTION_READ_BYTES: usize = 16 << 10;
/// Messages that a connection answers before other tasks run: more than clients have in flight.
pub(crate) const CONNECTION_WORK_MESSAGES_MAX: usize = 128;
/// Time after which it yields even sooner, in microseconds.
pub(crate) const CONNECTION_WORK_US: u64 = 1_000;
/// Bytes that all connections of a node may take, unless the operator says otherwise: what each is counted as, and
/// what waits on them in either direction. As many connections as there may be fit, whatever they speak, unless some
/// client has a thousand of them: none gets more than it leaves.
pub(crate) const CONNECTIONS_MEMORY_BYTES_MAX: usize = 1 << 30;
/// The least that an operator can set: some connections of each kind.
pub(crate) const CONNECTIONS_MEMORY_BYTES_MIN: usize = 1 << 20;
/// Interval at which each runtime checks whether to trim memory of connections.
pub(crate) const CONNECTIONS_TRIM_CHECK_MS: u64 = 1_000;
/// Minimum freed bytes for a trim.
pub(crate) const CONNECTIONS_TRIM_BYTES_MIN: usize = 4 << 20;
/// Bytes of messages that are counted with the connection that they wait on; those beyond are counted as they come.
pub(crate) const CONNECTION_MEMORY_FREE_BYTES: usize = 4 << 10;
/// What a connection is counted as: its state when it is idle (1.6, 11, 48 and 39 KiB were measured,
/// docs/history/transports.md), the bytes above, and under TLS what is on its way out, or the beginning of a
/// record whose end does not come (30 KiB with it).
pub(crate) const CONNECTION_TCP_BYTES: usize = 8 << 10;
/// The same over TLS.
pub(crate) const CONNECTION_DOT_BYTES: usize = 32 << 10;
/// The same over HTTPS, with the beginning of a block of headers: a record and a block are 40 KiB beside an idle state.
pub(crate) const CONNECTION_DOH_BYTES: usize = 92 << 10;
/// The same over QUIC.
pub(crate) const CONNECTION_DOQ_BYTES: usize = 48 << 10;

/// Time that a handshake of TLS or QUIC has; a tenth of it while most places are taken.
pub(crate) const HANDSHAKE_MS: u64 = 5_000;
/// Handshakes that are under way.
pub(crate) const HANDSHAKES_MAX: usize = 2_048;
/// Handshakes of one client that are under way.
pub(crate) const HANDSHAKES_PER_CLIENT_MAX: usize = 512;
/// Handshakes a second that a client may begin, unless the operator says otherwise: each costs the server a signature.
pub(crate) const HANDSHAKES_PER_SECOND: u32 = 100;
/// So many it may begin at once, after silence.
pub(crate) const HANDSHAKES_BURST: u32 = 500;
/// Bytes that TLS holds for a client that does not take them.
pub(crate) const TLS_WRITE_BUFFER_BYTES: usize = 16 << 10;
/// Time for which a key makes tickets of TLS sessions; a ticket is good for as long, and with the key after it.
pub(crate) const TICKET_PERIOD_S: u64 = 12 * 3_600;
/// Bytes of a ticket; ours are far shorter.
pub(crate) const TICKET_BYTES_MAX: usize = 16 << 10;
/// How often files are looked at that are read again when they change.
pub(crate) const FILE_LOOK_MS: u64 = 1_000;
/// Secrets of DNS cookies that are accepted at once.
pub(crate) const COOKIE_SECRETS_MAX: usize = 8;

/// Responses a second over UDP that are alike and go to one network, unless the operator says otherwise.
pub(crate) const RATE_LIMIT_PER_SECOND: u32 = 50;
/// Burst.
pub(crate) const RATE_LIMIT_BURST: u32 = 125;
/// Responses a second over UDP that go to one network, whatever they are: 32 clients' worth, as Knot 3.4 gives a /24.
pub(crate) const RATE_LIMIT_ALL_PER_SECOND: u32 = 32 * RATE_LIMIT_PER_SECOND;
/// Burst.
pub(crate) const RATE_LIMIT_ALL_BURST: u32 = 32 * RATE_LIMIT_BURST;
/// How many bits shorter than a network the wider ones of IPv4 are (/20 and /18 around a /24), and how many times as
/// much they get.
pub(crate) const RATE_LIMIT_WIDER_IPV4: [(u8, f64); 2] = [(4, 4.0), (6, 8.0)];
/// The same of IPv6: /48 and /32 around a /56.
pub(crate) const RATE_LIMIT_WIDER_IPV6: [(u8, f64); 2] = [(8, 2.0), (24, 16.0)];
/// Responses a second over UDP that go to one address, whatever they are: twice those that are alike.
pub(crate) const RATE_LIMIT_ADDRESS_PER_SECOND: u32 = 2 * RATE_LIMIT_PER_SECOND;
/// Burst.
pub(crate) const RATE_LIMIT_ADDRESS_BURST: u32 = 2 * RATE_LIMIT_BURST;
/// The most that an operator can set for any of them.
pub(crate) const RATE_LIMIT_MAX: u32 = 100_000_000;
/// Kinds of response that a worker remembers, four to a cache line of 64 bytes; the least busy are forgotten.
pub(crate) const RATE_LIMIT_BUCKETS: usize = 1 << 16;
/// Networks that a worker has at hand, those that asked last; a power of two.
pub(crate) const RATE_LIMIT_NETWORKS: usize = 64;
/// Networks whose clients are not limited.
pub(crate) const RATE_LIMIT_EXEMPT_MAX: usize = 64;
/// Bytes that OPT pads responses to a multiple of, when asked (RFC 8467 4.1).
pub(crate) const PADDING_BLOCK_BYTES: u16 = 468;

/// Requests of one HTTP/2 connection at once (RFC 9113 6.5.2 recommends no fewer).
pub(crate) const HTTP_STREAMS_MAX: u32 = 100;
/// Bytes of the headers of a request.
pub(crate) const HTTP_HEADERS_BYTES_MAX: u32 = 16 << 10;
/// What a request is counted as while it waits, beside its message: its state, its task, and what h2 keeps of a stream.
pub(crate) const HTTP_EXCHANGE_BYTES: usize = 3 << 10;
/// Bytes of the parameter `dns` of a GET.
pub(crate) const HTTP_GET_BYTES_MAX: usize = 4 << 10;
/// Bytes of bodies that a client may send unasked: one of the largest there is.
pub(crate) const HTTP_WINDOW_BYTES: u32 = 65_535;
/// Bytes of a response that HTTP/2 holds for a client that does not take them.
pub(crate) const HTTP_SEND_BUFFER_BYTES: usize = 16 << 10;
/// Requests that were taken back before they were looked at, after which a connection is closed.
pub(crate) const HTTP_PENDING_RESETS_MAX: usize = 20;
/// Requests that were refused for a mistake in them, after which a connection is closed.
pub(crate) const HTTP_LOCAL_RESETS_MAX: usize = 100;
/// Requests that were taken back before they were answered, after which a connection is closed where they are most.
pub(crate) const HTTP_RESETS_MAX: u64 = 100;
/// Time for a client to finish after GOAWAY.
pub(crate) const HTTP_DRAIN_MS: u64 = 1_000;

/// Queries of one QUIC connection at once.
pub(crate) const QUIC_STREAMS_MAX: u32 = 100;
/// What a query is counted as while it waits, beside its message: its state, its task, and what QUIC keeps of a stream.
pub(crate) const QUIC_EXCHANGE_BYTES: usize = 3 << 10;
/// What a query is counted as beside that while its end has not come: QUIC may keep a window of data behind a gap, or
/// half as much of the datagrams around little data.
pub(crate) const QUIC_GAPS_BYTES: usize = 64 << 10;
/// Bytes that a QUIC client may send unasked, on one stream: the longest message, and one byte more to see that there
/// is more.
pub(crate) const QUIC_STREAM_WINDOW_BYTES: u32 = (MESSAGE_PREFIX_BYTES + DATAGRAM_BYTES_MAX + 1) as u32;
/// Bytes that a QUIC client may send unasked, on all streams. No more are wanted: a query is taken from QUIC as it
/// comes, and what stays there is what has a gap before it.
pub(crate) const QUIC_WINDOW_BYTES: u32 = QUIC_STREAM_WINDOW_BYTES;
/// Bytes of responses that a QUIC connection holds.
pub(crate) const QUIC_SEND_BYTES: u64 = 256 << 10;
/// Handshakes under way from which on a QUIC client shows first that its address is its own (RFC 9000 8.1.2).
pub(crate) const QUIC_HALF_OPEN_MAX: usize = 64;
/// Bytes of datagrams that wait for a QUIC connection that is not yet accepted.
pub(crate) const QUIC_INCOMING_BYTES: u64 = 16 << 10;
/// The same of all of them.
pub(crate) const QUIC_INCOMING_TOTAL_BYTES: u64 = 4 << 20;
/// Zone transfers that run at once.
pub(crate) const TRANSFERS_MAX: usize = 16;
/// Messages of a transfer that wait for its client.
pub(crate) const TRANSFER_QUEUE_MAX: usize = 4;
/// Bytes a second that the client of a transfer has to take, unless the operator says otherwise.
pub(crate) const TRANSFER_RATE_MIN: u64 = 64 << 10;
/// Time that a transfer has whatever its rate.
pub(crate) const TRANSFER_GRACE_MS: u64 = 60_000;
/// Bytes of former versions of zones that one transfer keeps in memory.
pub(crate) const TRANSFER_HELD_BYTES_MAX: u64 = 256 << 20;
/// How often a transfer that waits for its client looks whether it may go on.
pub(crate) const TRANSFER_LOOK_MS: u64 = 250;

/// How long a request of the API waits for a zone to show a serial, at most.
pub(crate) const AT_WAIT_MS_MAX: u64 = 30_000;
/// Requests that wait so: half of what one client may have. The rest of its connections are for looks at how the node
/// is.
pub(crate) const AT_WAITING_MAX: usize = API_CONNECTIONS_PER_CLIENT_MAX / 2;
/// Time between two looks, at least.
pub(crate) const AT_POLL_MS: u64 = 5;

/// Requests that wait for an update thread: UPDATEs and everything signed.
pub(crate) const UPDATE_QUEUE_MAX: usize = 4_096;
/// Of them, those of one network while the queue is at least half full.
pub(crate) const UPDATE_QUEUE_PER_NETWORK_MAX: u32 = 256;
/// Updates handed to the replica that have no outcome yet.
pub(crate) const UPDATES_PENDING_MAX: usize = 8_192;
/// Of them, those of one key in one zone while the queue is at least half full.
pub(crate) const UPDATES_PER_KEY_MAX: u32 = 512;
/// Hash slots of a fair quota.
pub(crate) const QUOTA_SLOTS: usize = 4_096;
/// Threads that authenticate and sign: one a core, so many at most.
pub(crate) const UPDATE_THREADS_MAX: usize = 4;
/// Time after which the node forgets an update that got no outcome: it stays silent (UDP) or closes (TCP).
pub(crate) const UPDATE_FORGET_MS: u64 = 10_000;
/// Of those that are done, or are forgotten, so many are cleared away with each piece of work.
pub(crate) const UPDATES_FORGET_COUNT: usize = 64;
/// Time that a connection whose client is silent stays while it waits for a response: all that is deferred has ended by
/// then, unless the response got lost.
pub(crate) const DEFERRED_MS_MAX: u64 = UPDATE_FORGET_MS + 2_000;

/// Administrative requests in flight.
pub(crate) const ADMIN_PENDING_MAX: usize = 64;
/// Time an administrative request may take.
pub(crate) const ADMIN_WAIT_MS: u64 = 30_000;
/// Default time limit of a command for a change. It is longer than the node's own limit.
pub(crate) const CLI_CHANGE_MS: u64 = 60_000;
/// Default time limit of a command for a change that carries a zone.
pub(crate) const CLI_LOAD_MS: u64 = 900_000;
/// Default time limit of a command for a read, over all nodes that are tried.
pub(crate) const CLI_READ_MS: u64 = 60_000;
/// Default time limit of a command for a backup.
pub(crate) const CLI_DOWNLOAD_MS: u64 = 3_600_000;
/// Maximum of `--timeout`, in seconds.
pub(crate) const CLI_TIMEOUT_S_MAX: u64 = 86_400;
/// Bytes of a zone file that the API takes.
pub(crate) const API_ZONE_BYTES_MAX: usize = 1 << 30;
/// Connections to the API over TCP; for one more the idlest ends.
pub(crate) const API_CONNECTIONS_MAX: usize = 256;
/// Those of them of one client: an IPv4 address, an IPv6 /64, this machine.
pub(crate) const API_CONNECTIONS_PER_CLIENT_MAX: usize = API_CONNECTIONS_MAX / 4;
/// Connections to the API over the node's Unix socket.
pub(crate) const API_SOCKET_CONNECTIONS_MAX: usize = 32;
/// Silence after which a connection is idle, and may end for another.
pub(crate) const API_IDLE_MS_MIN: u64 = 100;
/// Time that a connection waits for a place, and between two looks for one.
pub(crate) const API_PERMIT_WAIT_MS: u64 = 2_000;
pub(crate) const API_PERMIT_POLL_MS: u64 = 20;
/// Time that the head of a request has, the silence before it counted.
pub(crate) const API_HEAD_MS: u64 = 5_000;
/// Bytes of it, and its header fields.
pub(crate) const API_HEAD_BYTES_MAX: usize = 64 << 10;
pub(crate) const API_HEADERS_MAX: usize = 64;
/// Time that a client has to take something of a response that waits for it.
pub(crate) const API_WRITE_MS: u64 = 10_000;
/// Bytes of the kernel's table of TCP sockets that a command reads.
pub(crate) const LISTENERS_BYTES_MAX: u64 = 64 << 20;
/// Names in `api.hosts`.
pub(crate) const API_HOSTS_MAX: usize = 64;
/// Silence of both sides after which a connection to the API ends: longer than any request may take, so that a change
/// that is being made is not cut off.
pub(crate) const API_SILENCE_MS: u64 = 1_000_000;
/// Bytes of a file from which the token of a node that joins is read.
pub(crate) const TOKEN_TEXT_BYTES_MAX: u64 = 4 << 10;
/// Records queued for the audit log. More are lost, and the log gets a gap.
pub(crate) const AUDIT_WAITING_MAX: usize = 100_000;
/// Total size of the audit log: default and minimum.
pub(crate) const AUDIT_BYTES_MAX: u64 = 1 << 30;
pub(crate) const AUDIT_BYTES_MIN: u64 = 1 << 20;
/// Files of the audit log, of the same size.
pub(crate) const AUDIT_FILES_MAX: usize = 8;
/// Bytes of one file that a request for the last lines reads.
pub(crate) const AUDIT_READ_BYTES_MAX: u64 = 64 << 20;
/// Lines per second, and bursts, for refused requests: of clients without a valid key, and of those with one.
pub(crate) const AUDIT_STRANGERS_PER_SECOND: u32 = 1;
pub(crate) const AUDIT_STRANGERS_BURST: u32 = 20;
pub(crate) const AUDIT_KEYS_PER_SECOND: u32 = 10;
pub(crate) const AUDIT_KEYS_BURST: u32 = 100;
/// Maximum size of a line: two names of 1,004 characters, an address, numbers.
pub(crate) const AUDIT_LINE_BYTES_MAX: usize = 8 << 10;
/// Pause of the audit log's thread after a write, in milliseconds, so that one wakeup covers many updates.
pub(crate) const AUDIT_PAUSE_MS: u64 = 20;
/// Maximum number of work items that the audit log's thread takes before it writes to the file.
pub(crate) const AUDIT_BATCH_MAX: usize = 4096;
/// Interval between the attempts of a write on a full disk.
pub(crate) const DISK_FULL_RETRY_MS: u64 = 500;
/// Bytes that a node reserves for a start on a full disk: twice the size of a log segment.
pub(crate) const RESERVE_BYTES: u64 = 32 << 20;
/// Interval at which a node without its reserve checks for room for the reserve.
pub(crate) const RESERVE_LOOK_MS: u64 = 5_000;
/// Interval between fsyncs of the audit log.
pub(crate) const AUDIT_SYNC_MS: u64 = 1_000;
/// Interval between `through` lines of the audit log, without updates.
pub(crate) const AUDIT_MARK_MS: u64 = 60_000;
/// Lines of the audit log in one response.
pub(crate) const AUDIT_LINES_MAX: usize = 10_000;
/// Minimum length of a TSIG secret without `--allow-short-secret`, in bytes.
pub(crate) const TSIG_SECRET_BYTES_MIN: usize = 16;
/// Bytes of one file of a `named.conf`.
pub(crate) const NAMED_CONF_BYTES_MAX: u64 = 16 << 20;
/// Maximum nesting depth of statements and lists in a `named.conf`.
pub(crate) const NAMED_CONF_DEPTH_MAX: usize = 64;
/// Maximum number of errors shown for a `named.conf`.
pub(crate) const NAMED_CONF_ERRORS_MAX: usize = 100;
/// Files that a `named.conf` is made of.
pub(crate) const NAMED_CONF_FILES_MAX: usize = 1_000;
/// Bytes of the text of an update policy that the API takes: of more than one of the most bytes needs.
pub(crate) const API_POLICY_BYTES_MAX: usize = 4 << 20;
/// Bytes of any other body that the API takes.
pub(crate) const API_BODY_BYTES_MAX: usize = 64 << 10;

/// Bytes of a frame between nodes.
pub(crate) const PEER_FRAME_BYTES_MAX: usize = replica::limits::FRAME_BYTES_MAX;
/// Maximum size of a frame that the receiving thread handles inline. Larger ones would keep it from reading.
pub(crate) const FRAME_AT_ONCE_MAX: usize = 16 << 10;
/// Bytes of an UPDATE, or of what is signed, that a packet worker may carry out itself when it comes alone: what is
/// larger takes longer than to wake an update thread.
pub(crate) const DATAGRAM_AT_ONCE_MAX: usize = 512;
/// Bytes queued for one channel of a peer. More are dropped, and raft sends again.
pub(crate) const PEER_CHANNEL_BYTES_MAX: usize = 64 << 20;
/// Frames queued for one channel of a peer.
pub(crate) const PEER_CHANNEL_FRAMES_MAX: usize = 4_096;
/// Bytes that the replica thread encrypts and writes itself, in about 30 us. The connection task writes more.
pub(crate) const PEER_WRITE_NOW_BYTES: usize = 64 << 10;
/// Bytes of frames per write to TLS.
pub(crate) const PEER_GATHER_BYTES: usize = 256 << 10;
/// Bytes of queued inbound frames, from all peers.
pub(crate) const PEER_INBOUND_BYTES_MAX: usize = 64 << 20;
/// Interval between checks of certificates, CAs and data keys.
pub(crate) const TRUST_LOOK_MS: u64 = 1_000;
/// Time limit of a command about them. It is repeated later.
pub(crate) const TRUST_COMMAND_MS: u64 = 5_000;
/// Rounds in a row without the next data key after which the leader creates another one.
pub(crate) const DATA_KEY_MISSING_ROUNDS: u32 = 30;
/// First pause before a peer is dialled again. It doubles up to [`PEER_RETRY_MS_MAX`].
pub(crate) const PEER_RETRY_MS_MIN: u64 = 10;
/// Longest pause before a peer is dialled again.
pub(crate) const PEER_RETRY_MS_MAX: u64 = 500;
/// A peer that closes the connection at the greeting this often in a row is not just stopping.
pub(crate) const PEER_HANG_UPS: u64 = 30;
/// Time limit to open a TCP connection.
pub(crate) const PEER_CONNECT_MS: u64 = 900;
/// Time limit for the setup of a peer connection, including TLS and greeting.
pub(crate) const PEER_HANDSHAKE_MS: u64 = 3_000;
/// Time without an acknowledgement after which a connection to or from a peer ends.
pub(crate) const PEER_ACK_TIMEOUT_MS: u64 = 5_000;
/// Connections from peers that have not authenticated yet, in total and per address.
pub(crate) const PEER_PENDING_MAX: usize = 256;
pub(crate) const PEER_PENDING_PER_ADDRESS_MAX: usize = 32;
/// Handshakes of one address on the peer port. Each costs a signature on the thread of the heartbeats.
pub(crate) const PEER_HANDSHAKES_PER_SECOND: u32 = 200;
pub(crate) const PEER_HANDSHAKES_BURST: u32 = 400;
/// Member checks of this node at the same time.
pub(crate) const MEMBER_CHECKS_MAX: usize = 32;
/// Time limit of a member check.
pub(crate) const MEMBER_CHECK_MS: u64 = 1_000;
/// Time limit for a member to connect to an address that another member announces.
pub(crate) const PEER_DIAL_BACK_MS: u64 = 1_500;
/// Maximum bytes to read of a kernel event. The kernel's own limit is 2 KiB of variables, and a path.
pub(crate) const UEVENT_BYTES_MAX: usize = 8 << 10;
/// Pause between two rounds in which a node notifies the members of the old cluster that it is superseded.
pub(crate) const SUPERSEDES_EVERY: Duration = Duration::from_secs(2);
/// Maximum length of a cluster id as text.
pub(crate) const SUPERSEDED_TEXT_BYTES_MAX: usize = 64;
/// Time limit for a member's answer to an announcement.
pub(crate) const ANNOUNCE_MS: u64 = PEER_HANDSHAKE_MS;
/// Pause between announcements until the cluster's state has the address.
pub(crate) const ANNOUNCE_PAUSE: Duration = Duration::from_secs(1);
/// Pause between announcements while the feature level is too low to change the state, and between warnings.
pub(crate) const ANNOUNCE_EVERY: Duration = Duration::from_secs(30);
/// Maximum number of addresses of a peer that are tried besides the one in the cluster's state.
pub(crate) const PEER_HINTS_MAX: usize = 3;
/// Maximum length of a peer's address as text, in bytes.
pub(crate) const PEER_ADDRESS_BYTES_MAX: u64 = replica::limits::ADDRESS_BYTES_MAX as u64;
/// Maximum number of addresses that are tried for the name of a peer.
pub(crate) const PEER_ADDRESSES_MAX: usize = 4;
/// Threads that resolve names of peers. With two, a lookup that hangs does not block the others.
pub(crate) const RESOLVER_THREADS: usize = 2;
/// Maximum number of queued lookups of peer names.
pub(crate) const RESOLVES_WAITING_MAX: usize = 256;
/// An unreachable peer is logged after `PEER_WARN_AFTER`, and then every `PEER_WARN_EVERY`.
pub(crate) const PEER_WARN_AFTER: Duration = Duration::from_secs(3);
pub(crate) const PEER_WARN_EVERY: Duration = Duration::from_secs(60);
/// Nodes that join at the same time.
pub(crate) const JOINS_MAX: usize = 4;
/// Maximum size of a join request: a secret, an address and a number.
pub(crate) const JOIN_REQUEST_BYTES_MAX: usize = 1 << 10;
/// Maximum size of other messages of a join.
pub(crate) const JOIN_MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Members of a cluster that `up` starts.
pub(crate) const UP_NODES_MAX: u64 = 9;

/// Bytes of log after which a checkpoint is written, at least: each is a sync of the disk that updates wait beside.
pub(crate) const CHECKPOINT_BYTES_MIN: u64 = 64 << 10;

/// Interval between ticks of the replica.
pub(crate) const TICK_MS: u64 = 10;
/// Inputs per round of the replica, more than it evaluates at once. So inputs wait in its own queue, which is fair
/// between keys and zones.
pub(crate) const REPLICA_BATCH_COUNT: usize = 2_048;
/// Outputs that are executed before further inputs.
pub(crate) const REPLICA_OUTPUTS_COUNT: usize = 4_096;
/// Queued inputs that are handled before a late tick, about 40 ms of work.
pub(crate) const EVENTS_BEFORE_TICK_MAX: usize = 4_096;

/// Bytes of all files of a zone as they lie on disk.
pub(crate) const ZONE_FILE_BYTES_MAX: u64 = 4 << 30;
/// Bytes that those of them decompress to that are compressed: the API takes no larger zone.
pub(crate) const DECOMPRESSED_BYTES_MAX: u64 = API_ZONE_BYTES_MAX as u64;
/// How many times their size they may decompress to, beyond what any file may: real zones shrink to a tenth or so,
/// those with generated names to a thirtieth.
pub(crate) const DECOMPRESSED_RATIO_MAX: u64 = 100;
/// Bytes that any file may decompress to.
pub(crate) const DECOMPRESSED_BYTES_FREE: u64 = 32 << 20;
/// KiB of what was unpacked that an xz file may refer back to: four times what `xz -9` wants.
pub(crate) const XZ_MEMORY_KIB_MAX: u32 = 256 << 10;
/// Bytes of a configuration, key or token file.
pub(crate) const SMALL_FILE_BYTES_MAX: u64 = 1 << 20;
/// Time `up` gives its nodes to become ready, and what it adds for each so many bytes that they have to read.
pub(crate) const UP_READY_MS: u64 = 60_000;
pub(crate) const UP_BYTES_A_MS: u64 = 10_000;
/// Time `up` gives its nodes to stop before it kills them.
pub(crate) const UP_STOP_MS: u64 = 10_000;
/// Bytes of a zone from which on the memory that it leaves unused is given back at once.
pub(crate) const TRIM_BYTES_MIN: usize = 1 << 20;

/// Bytes of a backup that are read and sent at once.
pub(crate) const BACKUP_CHUNK_BYTES: usize = 256 << 10;
/// Parts of a backup that wait to be sent.
pub(crate) const BACKUP_CHUNKS_MAX: usize = 4;

/// Threads that query the daemons of `external` rules.
pub(crate) const EXTERNAL_THREADS: usize = 8;
/// Of them, those that query one daemon at a time: a silent daemon does not block the others.
pub(crate) const EXTERNAL_THREADS_PER_SOCKET_MAX: usize = 4;
/// Time limit for the answers of all daemons about one update.
pub(crate) const EXTERNAL_WAIT_MS: u64 = 1_000;
/// Maximum time of an update in the queue for daemons.
pub(crate) const EXTERNAL_QUEUE_MS: u64 = 2_000;
/// Updates in the queue for daemons.
pub(crate) const EXTERNAL_WAITING_MAX: usize = 1_024;
/// Of them, those for one daemon.
pub(crate) const EXTERNAL_PER_SOCKET_MAX: usize = 512;
/// Interval between log lines about daemons that do not answer.
pub(crate) const EXTERNAL_LOG_MS: u64 = 10_000;
/// Log lines a second from one place in the code that a stranger or a weak client can cause.
pub(crate) const LOG_LINES_PER_SECOND_MAX: u32 = 5;
/// Bytes of text from the network in a log line.
pub(crate) const LOG_UNTRUSTED_BYTES_MAX: usize = 100;
/// Maximum bytes of a log line, or of a text for standard error. Longer ones are truncated.
pub(crate) const LOG_LINE_BYTES_MAX: usize = 64 << 10;
/// Maximum bytes in the log queue. Further lines are lost.
pub(crate) const LOG_QUEUE_BYTES_MAX: usize = 1 << 20;
/// Maximum number of lines in the log queue.
pub(crate) const LOG_QUEUE_LINES_MAX: usize = 8_192;
/// Pause before a retry when a non-blocking output is full.
pub(crate) const LOG_RETRY_MS: u64 = 20;
/// Maximum wait for the log when the process ends.
pub(crate) const LOG_END_MS: u64 = 1_000;
/// Maximum wait for the log when the process ends because of a fatal error.
pub(crate) const LOG_FATAL_MS: u64 = 500;

/// Minimum memory for the zones of a node: thousands of records, and copies during changes.
pub(crate) const ZONES_MEMORY_BYTES_MIN: u64 = 16 << 20;
/// Fraction of the memory of the machine or control group that zones may use by default. The log, repeats, history and
/// connections need some too, and zones need more during changes.
pub(crate) const ZONES_MEMORY_SHARE: u64 = 2;
/// Fraction of that for former versions during a checkpoint, during each transfer, and for the newest log entries.
pub(crate) const ZONES_HELD_SHARE: u64 = 8;
/// Fraction of the zone memory that one key may add to one zone by default, in bytes of records, so that a faulty key
/// leaves room for others.
pub(crate) const KEY_GROWTH_SHARE: u64 = 4;
/// Zones that copied this many bytes since the last check are busy.
pub(crate) const ZONES_QUIET_BYTES: u64 = 8 << 20;
/// Maximum number of members to which a node sends parts of its log at the same time. Each makes it read its whole log.
pub(crate) const REPAIR_SESSIONS_MAX: usize = 2;
/// Time limit for the next question about a damaged log, and for its answer. The answering node may first read a long
/// log.
pub(crate) const REPAIR_IDLE_MS: u64 = 60_000;
/// Bytes of one part of a checkpoint that replaces a damaged one.
pub(crate) const REPAIR_PART_BYTES: usize = 1 << 20;
/// Maximum size of that checkpoint.
pub(crate) const REPAIR_CHECKPOINT_BYTES_MAX: u64 = 64 << 30;
/// Pause between two rounds in which a node asks all members for parts of its log.
pub(crate) const REPAIR_ROUND_MS: u64 = 1_000;
/// Number of rounds after which a node gives up if all members answer and none can help.
pub(crate) const REPAIR_ROUNDS_MAX: u32 = 5;
/// Interval between log lines that name the members that a node under repair waits for.
pub(crate) const REPAIR_LOG_MS: u64 = 30_000;
/// Maximum bytes of the file that lists the members.
pub(crate) const MEMBERS_FILE_BYTES_MAX: u64 = 1 << 20;
/// Default number of seconds between two scrubs of log and checkpoints.
pub(crate) const SCRUB_INTERVAL_S: u64 = 7 * 24 * 3_600;
/// A scrub is delayed by up to the interval divided by this number, so that the nodes do not all read at the same time.
pub(crate) const SCRUB_JITTER_SHARE: u64 = 7;
/// Bytes that a scrub reads per second.
pub(crate) const SCRUB_BYTES_PER_SECOND: u64 = 8 << 20;
/// Pause before a damaged place is checked again. The file may have been written or recycled meanwhile.
pub(crate) const SCRUB_AGAIN_MS: u64 = 2_000;
/// Interval between checks whether the next scrub is due.
pub(crate) const SCRUB_LOOK_MS: u64 = 1_000;
/// Maximum bytes of the file with the time of the last scrub.
pub(crate) const SCRUBBED_BYTES_MAX: u64 = 64;
