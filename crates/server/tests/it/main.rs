//! The daemon as its users meet it: real processes, real sockets, Debian's `dig` and `nsupdate`.

// A cluster to test on, and what talks to it.
mod support;

// Which answer a message gets (row by row), and how it is counted.
mod client_protection;
mod cookies;
mod hostile;
mod metrics;
mod nsid;
mod order_of_answers;
mod scenarios;
mod spoofed_addresses;
// How long datagrams are; what packet workers ask of the kernel, and what it says of them.
mod damaged_disks;
mod datagrams;
mod packets;
mod steady;
// `up`: its contract, and what must hold when nodes die.
mod up;
// Nodes that are removed from their cluster, join it, vote or do not; what they know each other by.
mod certificates;
mod data_key;
mod members;
mod moves;
// What stolen certificates open, and what strangers can do to nodes.
mod peer_matrix;
mod runbooks;
mod siege;
mod stolen_identity;
// Old majorities that come back after a recovery.
mod superseded;
// A voter that answers no queries, and two sites that do.
mod removed;
mod torn;
mod two_sites;
// DNS over TLS, HTTPS and QUIC: their rules, and that answers are those of UDP and TCP.
mod encrypted;
// What clients of TCP are told.
mod connections;
// Disks that hang, return wrong data or are missing; nodes that were away for long, or start alone.
mod alone;
mod away;
mod disks;
mod full_disk;
// Nodes that cannot continue: how they end, and what a start says.
mod fatal;
// Log output that fails or blocks; signals.
mod log_output;
mod signals;
// What a node gives up before it serves anyone; the units that start nodes and clients.
mod sandbox;
mod units;
// Two builds in one cluster.
mod upgrade;
// Very many zones on one node.
mod many_zones;
// Updates: visible everywhere and soon; bad ones leave no trace.
mod updates;
// One key that sends very much, and another; and more updates than there is room for.
mod fairness;
mod full_queue;
// What one key can make nodes keep in memory.
mod owner_memory;
mod zone_memory;
// The version of the program.
mod version;
// A cluster's state as a file, and another cluster made of it.
mod backup;
// The same update again: one outcome, one execution.
mod repeats;
// Reads over the API that see everything.
mod consistent;
// Updates that are told once every node shows them.
mod all_live;
// Updates that are refused: each form, each reason, no trace on any node.
mod refused_updates;
// Names in rdata of updates that are compressed: in which types, and what answers make of them.
mod compression;
// Who may write what: rules, and BIND under the same rules.
mod policy;
// Keys, and who is shown their secrets.
mod keys;
// What nodes write down of it.
mod audit;
// Debian's clients, through each node.
mod real_clients;
// Theirs and others', each on its own: nsupdate, knsupdate, dnspython, Kea, certbot, external-dns.
mod clients;
// A client that checks signatures.
mod validating;
// Debian's servers that take a zone from a node.
mod secondaries;
mod slow_secondaries;
// The client that keeps names on addresses that change, in a namespace of its own.
mod ddns;
// The commands that talk to a cluster, and what strangers can do to the API that they use.
mod api_exposure;
mod deadlines;
// Small zone files that would fill a memory; who may read what of a node, and its memory.
mod commands;
mod private_files;
mod zone_bombs;
