//! What was read of a trace, and what was not, by reason.

/// Why a frame, a segment or a line gave no message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Unread {
    /// A kind of link that is not known.
    LinkUnknown,
    /// No IP packet in the frame.
    NotIp,
    /// Headers that contradict one another, or end before they should.
    HeaderMalformed,
    /// Neither UDP nor TCP.
    OtherProtocol,
    /// At none of the ports that were asked for.
    OtherPort,
    /// Less of the packet was captured than it had.
    CutShort,
    /// A fragment, which waits for the others; the last one gives the packet.
    Fragment,
    /// A fragment of a packet whose others never came, or were too many.
    FragmentAlone,
    /// A segment without data: it opens or closes a connection, or acknowledges.
    SegmentEmpty,
    /// A segment that was sent again.
    SegmentAgain,
    /// A segment that begins, continues or ends a message that another one gives whole.
    SegmentPart,
    /// A segment of a stream whose beginning was not captured, or of which a part is missing, where no message begins.
    SegmentAdrift,
    /// Shorter than a header.
    TooShort,
    /// A record of another kind: statistics, names of hosts, comments.
    OtherRecord,
    /// A record without the message.
    NoMessage,
    /// A line that does not say what its format wants.
    LineMalformed,
    /// A name or a type that no message can have.
    NotSendable,
}

impl Unread {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::LinkUnknown,
        Self::NotIp,
        Self::HeaderMalformed,
        Self::OtherProtocol,
        Self::OtherPort,
        Self::CutShort,
        Self::Fragment,
        Self::FragmentAlone,
        Self::SegmentEmpty,
        Self::SegmentAgain,
        Self::SegmentPart,
        Self::SegmentAdrift,
        Self::TooShort,
        Self::OtherRecord,
        Self::NoMessage,
        Self::LineMalformed,
        Self::NotSendable,
    ];

    /// Its name in JSON.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::LinkUnknown => "link_unknown",
            Self::NotIp => "not_ip",
            Self::HeaderMalformed => "header_malformed",
            Self::OtherProtocol => "other_protocol",
            Self::OtherPort => "other_port",
            Self::CutShort => "cut_short",
            Self::Fragment => "fragment",
            Self::FragmentAlone => "fragment_alone",
            Self::SegmentEmpty => "segment_empty",
            Self::SegmentAgain => "segment_again",
            Self::SegmentPart => "segment_part",
            Self::SegmentAdrift => "segment_adrift",
            Self::TooShort => "too_short",
            Self::OtherRecord => "other_record",
            Self::NoMessage => "no_message",
            Self::LineMalformed => "line_malformed",
            Self::NotSendable => "not_sendable",
        }
    }

    /// What it means, for people.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::LinkUnknown => "on a kind of link that is not known",
            Self::NotIp => "no IP packet",
            Self::HeaderMalformed => "headers contradict one another or end early",
            Self::OtherProtocol => "neither UDP nor TCP",
            Self::OtherPort => "at another port",
            Self::CutShort => "captured in part only (snap length)",
            Self::Fragment => "a fragment; the last one gives the packet",
            Self::FragmentAlone => "a fragment whose others are missing",
            Self::SegmentEmpty => "a TCP segment without data",
            Self::SegmentAgain => "a TCP segment that was sent again",
            Self::SegmentPart => "part of a message that spans TCP segments",
            Self::SegmentAdrift => "in a TCP stream whose beginning or a part is missing",
            Self::TooShort => "shorter than a DNS header",
            Self::OtherRecord => "a record of another kind",
            Self::NoMessage => "a record without the message",
            Self::LineMalformed => "a line that cannot be read",
            Self::NotSendable => "a name or type that no message can have",
        }
    }

    /// Whether something of the traffic is missing for it: other frames were never DNS, or are in another message.
    #[must_use]
    pub const fn is_loss(self) -> bool {
        matches!(
            self,
            Self::LinkUnknown
                | Self::HeaderMalformed
                | Self::CutShort
                | Self::FragmentAlone
                | Self::SegmentAdrift
                | Self::TooShort
                | Self::NoMessage
                | Self::LineMalformed
                | Self::NotSendable
        )
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
    /// Octets of TCP streams that were captured and skipped: no whole message is known to have them.
    pub octets_skipped: u64,
    /// Octets of TCP streams that were not captured.
    pub octets_missing: u64,
    unread: [u64; Unread::ALL.len()],
}

impl Tally {
    /// How many gave no message for this reason.
    #[must_use]
    pub const fn unread(&self, reason: Unread) -> u64 {
        self.unread[reason as usize]
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
        self.unread[reason as usize] += 1;
    }

    /// A record gave so many messages.
    pub(crate) fn gave(&mut self, messages: u64) {
        self.messages += messages;
        self.further_messages += messages - 1;
    }

    /// What was counted as waiting was read: it gave so many messages, or none for a reason of its own.
    pub(crate) fn settle(&mut self, waited: Unread, read: Result<u64, Unread>) {
        self.unread[waited as usize] = self.unread[waited as usize].saturating_sub(1);
        match read {
            Ok(messages) => self.gave(messages),
            Err(reason) => self.count(reason),
        }
    }

    /// What was waiting turned out to be something else.
    pub(crate) fn recount(&mut self, from: Unread, to: Unread, count: u64) {
        self.unread[from as usize] = self.unread[from as usize].saturating_sub(count);
        self.unread[to as usize] += count;
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
