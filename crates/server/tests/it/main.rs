//! The daemon from the outside: real processes, real sockets, Debian's `dig` and `nsupdate`.

// A cluster for tests, and its clients.
mod support;

// The response to each kind of message (row by row), and its counters.
mod client_protection;
mod cookies;
mod hostile;
mod metrics;
mod nsid;
mod order_of_answers;
mod scenarios;
mod spoofed_addresses;
// Sizes of datagrams. System calls of packet workers, and the kernel's counters for them.
mod damaged_disks;
mod datagrams;
mod packets;
mod steady;
// `up`: its contract, and its guarantees when nodes die.
mod up;
// Nodes that are removed from a cluster or join it, their votes, and their identities.
mod certificates;
mod data_key;
mod members;
mod moves;
// Access with stolen certificates, and attacks of strangers on nodes.
mod peer_matrix;
mod runbooks;
mod siege;
mod stolen_identity;
// Old majorities that return after a recovery.
mod superseded;
// A voter that answers no queries, and two sites that do.
mod removed;
mod torn;
mod two_sites;
// DNS over TLS, HTTPS and QUIC: their rules, and the same answers as over UDP and TCP.
mod encrypted;
// What the server tells TCP clients about their connection.
mod connections;
// Disks that hang, return wrong data or are missing. Nodes that were away for a long time, or start alone.
mod alone;
mod away;
mod disks;
mod few_open_files;
mod full_disk;
// Nodes that cannot continue: how they exit, and what the next start prints.
mod fatal;
// Log output that fails or blocks; signals.
mod log_output;
mod signals;
// Privileges that a node drops before it serves clients. The units that start nodes and clients.
mod sandbox;
mod units;
// Two builds in one cluster.
mod upgrade;
// Very many zones on one node.
mod many_zones;
// Updates: visible soon on every node. Invalid ones leave no trace.
mod updates;
// One key that floods beside another key, and more updates than a node keeps.
mod fairness;
mod full_queue;
// Memory that one key can make nodes use.
mod owner_memory;
mod zone_memory;
// The version of the program.
mod version;
// A cluster's state as a file, and a new cluster made from it.
mod backup;
// Repeated updates: one outcome, one execution.
mod repeats;
// Consistent reads over the API.
mod consistent;
// Updates that are acknowledged once every node shows them.
mod all_live;
// Updates that are refused: each form, each reason, no trace on any node.
mod refused_updates;
// Compressed names in the rdata of updates: allowed types, and compression in answers.
mod compression;
// Update policies: rules, and BIND under the same rules.
mod policy;
// Keys, and access to their secrets.
mod keys;
// The audit log of the nodes.
mod audit;
// Debian's clients, through each node.
mod real_clients;
// Debian's and other clients, each in its own test: nsupdate, knsupdate, dnspython, Kea, certbot, external-dns.
mod clients;
// A validating client.
mod validating;
// Debian's servers that transfer a zone from a node.
mod secondaries;
mod slow_secondaries;
// The client that keeps names up to date while addresses change, in a network namespace.
mod ddns;
// The commands that talk to a cluster, and attacks of strangers on the API that they use.
mod api_exposure;
mod deadlines;
// Small zone files that expand to much memory. Access to a node's files and memory.
mod commands;
mod private_files;
mod zone_bombs;
