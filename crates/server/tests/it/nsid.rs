//! A node identifies itself only if its operator configures an identifier.

use crate::support::cluster::Cluster;
use crate::support::dns::{SILENCE, Transport, exchange};
use crate::support::message::name;
use wire::builder::MessageBuilder;
use wire::number::Rtype;
use wire::parse::Message;

/// NSID (RFC 5001 2.3).
const NSID: u16 = 3;

/// The identifier in the response to a client that asks for it (RFC 5001 2.1).
fn nsid_of(cluster: &Cluster, transport: Transport) -> Option<Vec<u8>> {
    let query = MessageBuilder::query(1, name("example.test.").as_ref(), Rtype::SOA);
    let query = query.edns(1_232, false).option(NSID, &[]).build();
    let response = exchange(transport, cluster.dns(1), &query, 10 * SILENCE).unwrap();
    let message = Message::parse(&response).unwrap();
    message.edns().unwrap().options().find(|(code, _)| *code == NSID).map(|(_, data)| data.to_vec())
}

#[test]
fn nsid_is_sent_only_if_configured() {
    let mut cluster = Cluster::start("nsid", 1, &[]);
    for transport in [Transport::Udp, Transport::Tcp] {
        assert_eq!(nsid_of(&cluster, transport), None);
    }
    cluster.end("TERM");
    cluster.configure(1, "udp_workers = 0", "udp_workers = 0\nnsid = \"east\"");
    cluster.resume(&[]);
    for transport in [Transport::Udp, Transport::Tcp] {
        assert_eq!(nsid_of(&cluster, transport).as_deref(), Some(&b"east"[..]));
    }
}
