//! What was read of a trace, and what was not, by reason.

/// Declares one reason in each row: variant, name in JSON, group, and meaning.
macro_rules! reasons {
    ($($(#[$doc:meta])* $reason:ident, $label:literal, $group:ident, $meaning:literal;)*) => {
        /// Why a frame, a segment or a line gave no message.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Unread {
            $($(#[$doc])* $reason,)*
        }

        impl Unread {
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

impl Unread {
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
    /// A kind of link that is not known.
    LinkUnknown, "link_unknown", Lost, "on an unknown kind of link";
    /// No IP packet in the frame.
    NotIp, "not_ip", NoMessage, "no IP packet";
    /// Headers that contradict one another, or end before they should.
    HeaderMalformed, "header_malformed", Lost, "inconsistent or short headers";
    /// Neither UDP nor TCP.
    OtherProtocol, "other_protocol", NoMessage, "neither UDP nor TCP";
    /// At none of the ports that were asked for.
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
    /// Encrypted frames of Wi-Fi.
    EncapsulatedWifi, "encapsulated_wifi", Encapsulated, "encrypted Wi-Fi";
    /// A tunnel with unknown contents.
    EncapsulatedOther, "encapsulated_other", Encapsulated, "a tunnel with unknown contents";
    /// More headers than [`crate::limits::LAYERS_MAX`].
    EncapsulatedDeep, "encapsulated_deep", Encapsulated, "more than 16 headers around the packet";
    /// A control message between the endpoints of a tunnel.
    TunnelControl, "tunnel_control", NoMessage, "a control message of a tunnel";
    /// Less of the packet was captured than it had.
    CutShort, "cut_short", Lost, "captured only in part (snap length)";
    /// A fragment, which waits for the others; the last one gives the packet.
    Fragment, "fragment", NoMessage, "a fragment; counted with the last one";
    /// A second copy of a fragment from a capture at two places.
    FragmentAgain, "fragment_again", NoMessage, "a second copy of a fragment, within 0.1 s";
    /// A fragment of a packet whose others never came, or were too many.
    FragmentAlone, "fragment_alone", Lost, "a fragment of an incomplete packet";
    /// A segment without data: it opens or closes a connection, or acknowledges.
    SegmentEmpty, "segment_empty", NoMessage, "a TCP segment without data";
    /// A segment that was sent again.
    SegmentAgain, "segment_again", NoMessage, "a retransmitted TCP segment";
    /// A segment that begins, continues or ends a message that another one gives whole.
    SegmentPart, "segment_part", NoMessage, "part of a message that spans TCP segments";
    /// A segment of a stream whose beginning was not captured, or of which a part is missing, where no message begins.
    SegmentAdrift, "segment_adrift", Lost, "in an incomplete TCP stream";
    /// Shorter than a header.
    TooShort, "too_short", Lost, "shorter than a DNS header";
    /// A record of another kind: statistics, names of hosts, comments.
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
    /// A line that does not say what its format wants.
    LineMalformed, "line_malformed", Lost, "a line that cannot be read";
    /// A name or a type that no message can have.
    NotSendable, "not_sendable", Lost, "a name or type that cannot be in a message";
}

impl Unread {
    /// Whether something of the traffic is missing for it: other frames were never DNS, or are in another message.
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

/// What was read, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames, records or lines that were looked at.
    pub records: u64,
    /// Messages that they gave.
    pub messages: u64,
    /// Records that gave more messages than one, by how many more.
    pub further_messages: u64,
    /// Messages that were seen earlier than the one before them.
    pub backwards: u64,
    /// Bytes of TCP streams that were captured but belong to no complete message.
    pub bytes_skipped: u64,
    /// Bytes of TCP streams that were not captured.
    pub bytes_missing: u64,
    unread: Counts,
}

/// Count for each reason, in the order of [`Unread::ALL`].
#[derive(Clone, Debug, PartialEq, Eq)]
struct Counts([u64; Unread::ALL.len()]);

impl Default for Counts {
    fn default() -> Self {
        Self([0; Unread::ALL.len()])
    }
}

impl Tally {
    /// How many gave no message for this reason.
    #[must_use]
    pub const fn unread(&self, reason: Unread) -> u64 {
        self.unread.0[reason as usize]
    }

    /// The reasons that there were, and how often.
    pub fn all_unread(&self) -> impl Iterator<Item = (Unread, u64)> {
        Unread::ALL.into_iter().map(|reason| (reason, self.unread(reason))).filter(|&(_, count)| count > 0)
    }

    /// How many records something is missing of.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.all_unread().filter(|(reason, _)| reason.is_loss()).map(|(_, count)| count).sum()
    }

    pub(crate) fn count(&mut self, reason: Unread) {
        self.unread.0[reason as usize] += 1;
    }

    /// A record gave so many messages.
    pub(crate) fn gave(&mut self, messages: u64) {
        self.messages += messages;
        self.further_messages += messages - 1;
    }

    /// What was counted as waiting was read: it gave so many messages, or none for a reason of its own.
    pub(crate) fn settle(&mut self, waited: Unread, read: Result<u64, Unread>) {
        self.unread.0[waited as usize] = self.unread.0[waited as usize].saturating_sub(1);
        match read {
            Ok(messages) => self.gave(messages),
            Err(reason) => self.count(reason),
        }
    }

    /// What was waiting turned out to be something else.
    pub(crate) fn recount(&mut self, from: Unread, to: Unread, count: u64) {
        self.unread.0[from as usize] = self.unread.0[from as usize].saturating_sub(count);
        self.unread.0[to as usize] += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_stand_in_their_order() {
        for (index, reason) in Unread::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
        }
        let mut labels: Vec<_> = Unread::ALL.iter().map(|reason| reason.label()).collect();
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), Unread::ALL.len());
    }
}
