//! Counts of read and unread data, by reason.

/// Declares one reason in each row: variant, name in JSON, group, and meaning.
macro_rules! reasons {
    ($($(#[$doc:meta])* $reason:ident, $label:literal, $group:ident, $meaning:literal;)*) => {
        /// Why a frame, a segment or a line gave no message.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum UnreadReason {
            $($(#[$doc])* $reason,)*
        }

        impl UnreadReason {
            /// All reasons.
            pub const ALL: [Self; [$($label),*].len()] = [$(Self::$reason),*];

            /// Name in JSON.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$reason => $label,)*
                }
            }

            /// Meaning in words.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$reason => $meaning,)*
                }
            }

            /// The group of the reason.
            #[must_use]
            pub const fn group(self) -> Group {
                match self {
                    $(Self::$reason => Group::$group,)*
                }
            }
        }
    };
}

/// Groups of reasons.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// DNS traffic was lost.
    Lost,
    /// The frame has no DNS data, or its data belongs to another message.
    NoMessage,
    /// A protocol similar to DNS at its own port.
    NotDns,
    /// The packet is in a tunnel that is not read.
    Encapsulated,
    /// The message was not selected.
    NotSelected,
}

impl UnreadReason {
    /// One line: the group, the count and the meaning.
    #[must_use]
    pub fn line(self, count: u64) -> String {
        format!("{}: {count} {}", self.group().label(), self.meaning())
    }
}

impl Group {
    /// Text before the count.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::NoMessage => "not a message",
            Self::NotDns => "not DNS",
            Self::Encapsulated => "encapsulated",
            Self::NotSelected => "not selected",
        }
    }
}

reasons! {
    /// An unknown link type.
    LinkUnknown, "link_unknown", Lost, "on an unknown kind of link";
    /// No IP packet in the frame.
    NotIp, "not_ip", NoMessage, "no IP packet";
    /// Headers that are inconsistent or too short.
    HeaderMalformed, "header_malformed", Lost, "inconsistent or short headers";
    /// Neither UDP nor TCP.
    OtherProtocol, "other_protocol", NoMessage, "neither UDP nor TCP";
    /// At none of the selected ports.
    OtherPort, "other_port", NoMessage, "at another port";
    /// NetBIOS Name Service (RFC 1002): port 137.
    NetBios, "netbios", NotDns, "NetBIOS name service (port 137)";
    /// Multicast DNS (RFC 6762): port 5353.
    Mdns, "mdns", NotDns, "mDNS (port 5353)";
    /// LLMNR (RFC 4795): port 5355.
    Llmnr, "llmnr", NotDns, "LLMNR (port 5355)";
    /// IPsec ESP (RFC 4303).
    EncapsulatedEsp, "encapsulated_esp", Encapsulated, "IPsec ESP";
    /// L2TP version 3 (RFC 3931). Only its two endpoints know the header format.
    EncapsulatedL2tp, "encapsulated_l2tp", Encapsulated, "L2TPv3";
    /// PPP that is compressed, encrypted or split.
    EncapsulatedPpp, "encapsulated_ppp", Encapsulated, "PPP, compressed or encrypted";
    /// Encrypted Wi-Fi frames.
    EncapsulatedWifi, "encapsulated_wifi", Encapsulated, "encrypted Wi-Fi";
    /// A tunnel with unknown contents.
    EncapsulatedOther, "encapsulated_other", Encapsulated, "a tunnel with unknown contents";
    /// More headers than [`crate::limits::LAYERS_MAX`].
    EncapsulatedDeep, "encapsulated_deep", Encapsulated, "more than 16 headers around the packet";
    /// A control message between the endpoints of a tunnel.
    TunnelControl, "tunnel_control", NoMessage, "a control message of a tunnel";
    /// The capture has only a part of the packet.
    CutShort, "cut_short", Lost, "captured only in part (snap length)";
    /// A fragment. The last one of the packet gives the message.
    Fragment, "fragment", NoMessage, "a fragment; counted with the last one";
    /// A second copy of a fragment from a capture at two places.
    FragmentRepeated, "fragment_again", NoMessage, "a second copy of a fragment, within 0.1 s";
    /// A fragment of a packet that was not completed.
    FragmentAlone, "fragment_alone", Lost, "a fragment of an incomplete packet";
    /// A segment without data, such as SYN, FIN or ACK.
    SegmentEmpty, "segment_empty", NoMessage, "a TCP segment without data";
    /// A retransmitted segment.
    SegmentRepeated, "segment_again", NoMessage, "a retransmitted TCP segment";
    /// A segment with a part of a message that another segment completes.
    SegmentPart, "segment_part", NoMessage, "part of a message that spans TCP segments";
    /// A segment of an incomplete stream, without the start of a message.
    SegmentUnsynced, "segment_adrift", Lost, "in an incomplete TCP stream";
    /// Shorter than a header.
    TooShort, "too_short", Lost, "shorter than a DNS header";
    /// A record of another kind: statistics, host names, comments.
    OtherRecord, "other_record", NoMessage, "a record of another kind";
    /// dnstap of an authoritative server and its clients.
    DnstapAuth, "dnstap_auth", NotSelected, "dnstap AUTH_QUERY or AUTH_RESPONSE";
    /// dnstap of a resolver and the servers that it queries.
    DnstapResolver, "dnstap_resolver", NotSelected, "dnstap RESOLVER_QUERY or RESOLVER_RESPONSE";
    /// dnstap of a resolver and its clients.
    DnstapClient, "dnstap_client", NotSelected, "dnstap CLIENT_QUERY or CLIENT_RESPONSE";
    /// dnstap of a forwarder and the resolver that it queries.
    DnstapForwarder, "dnstap_forwarder", NotSelected, "dnstap FORWARDER_QUERY or FORWARDER_RESPONSE";
    /// dnstap of a stub resolver.
    DnstapStub, "dnstap_stub", NotSelected, "dnstap STUB_QUERY or STUB_RESPONSE";
    /// dnstap of a tool such as dig.
    DnstapTool, "dnstap_tool", NotSelected, "dnstap TOOL_QUERY or TOOL_RESPONSE";
    /// dnstap of dynamic updates.
    DnstapUpdate, "dnstap_update", NotSelected, "dnstap UPDATE_QUERY or UPDATE_RESPONSE";
    /// A record without the message.
    NoMessage, "no_message", Lost, "a record without the message";
    /// A malformed line.
    LineMalformed, "line_malformed", Lost, "a line that cannot be read";
    /// A name or type that cannot be in a message.
    NotSendable, "not_sendable", Lost, "a name or type that cannot be in a message";
}

impl UnreadReason {
    /// Whether traffic is missing for this reason. Other frames have no DNS data, or their data is in another message.
    #[must_use]
    pub const fn is_loss(self) -> bool {
        matches!(self.group(), Group::Lost)
    }

    /// Reason why traffic between these ports is not read.
    pub(crate) fn of_port(ports: [u16; 2]) -> Self {
        let known = [(137, Self::NetBios), (5353, Self::Mdns), (5355, Self::Llmnr)];
        known.into_iter().find(|(port, _)| ports.contains(port)).map_or(Self::OtherPort, |(_, reason)| reason)
    }
}

/// Counts of read and unread data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames, records or lines read.
    pub records: u64,
    /// Messages in them.
    pub messages: u64,
    /// Messages beyond the first one of each record.
    pub further_messages: u64,
    /// Messages with an earlier time than the message before.
    pub backwards: u64,
    /// Bytes of TCP streams that were captured but belong to no complete message.
    pub bytes_skipped: u64,
    /// Bytes of TCP streams that were not captured.
    pub bytes_missing: u64,
    unread: Counts,
}

/// Count for each reason, in the order of [`UnreadReason::ALL`].
#[derive(Clone, Debug, PartialEq, Eq)]
struct Counts([u64; UnreadReason::ALL.len()]);

impl Default for Counts {
    fn default() -> Self {
        Self([0; UnreadReason::ALL.len()])
    }
}

impl Tally {
    /// Number of records without a message for this reason.
    #[must_use]
    pub const fn unread(&self, reason: UnreadReason) -> u64 {
        self.unread.0[reason as usize]
    }

    /// The reasons that occurred, with their counts.
    pub fn all_unread(&self) -> impl Iterator<Item = (UnreadReason, u64)> {
        UnreadReason::ALL.into_iter().map(|reason| (reason, self.unread(reason))).filter(|&(_, count)| count > 0)
    }

    /// Number of records with missing traffic.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.all_unread().filter(|(reason, _)| reason.is_loss()).map(|(_, count)| count).sum()
    }

    pub(crate) fn count(&mut self, reason: UnreadReason) {
        self.unread.0[reason as usize] += 1;
    }

    /// Counts a record with this number of messages.
    pub(crate) fn count_messages(&mut self, messages: u64) {
        self.messages += messages;
        self.further_messages += messages - 1;
    }

    /// Counts a waiting record: the number of its messages, or the reason why it has none.
    pub(crate) fn resolve_waiting(&mut self, waited: UnreadReason, read: Result<u64, UnreadReason>) {
        self.unread.0[waited as usize] = self.unread.0[waited as usize].saturating_sub(1);
        match read {
            Ok(messages) => self.count_messages(messages),
            Err(reason) => self.count(reason),
        }
    }

    /// Moves waiting records to another reason.
    pub(crate) fn recount(&mut self, from: UnreadReason, to: UnreadReason, count: u64) {
        self.unread.0[from as usize] = self.unread.0[from as usize].saturating_sub(count);
        self.unread.0[to as usize] += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_in_order() {
        for (index, reason) in UnreadReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
        }
        let mut labels: Vec<_> = UnreadReason::ALL.iter().map(|reason| reason.label()).collect();
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), UnreadReason::ALL.len());
    }
}
