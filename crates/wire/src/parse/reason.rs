//! Why a message gets no response, or an immediate error. The labels are part of `/metrics` and must stay stable.

macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $label:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// Every reason, in the order of declaration; `reason as usize` is the index.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The label in `/metrics`.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $label,)* }
            }
        }
    };
}

reasons! {
    /// Why a message gets no response.
    DropReason {
        /// Fewer bytes than a header has.
        Short = "short",
        /// QR is set: responding to a response could loop forever.
        Response = "response",
        /// Sent from port 0, to which nothing can be sent. Detected by the listener, not the parser.
        SourcePortZero = "source_port_zero",
        /// Sent to a multicast or broadcast address. Detected by the listener, not the parser.
        Multicast = "multicast",
    }
}

reasons! {
    /// Why a message gets an error before any zone or key is looked up.
    RejectReason {
        /// An opcode other than QUERY and UPDATE: NOTIMP.
        Opcode = "opcode",
        /// A QUERY with several questions: FORMERR (RFC 9619 4).
        QuestionCountMany = "question_count_many",
        /// A QUERY without question and without COOKIE: FORMERR.
        QuestionCountZero = "question_count_zero",
        /// An UPDATE whose zone section has not exactly one record: FORMERR (RFC 2136 3.1.1).
        ZoneCount = "zone_count",
        /// An UPDATE whose ZTYPE is not SOA: FORMERR (RFC 2136 3.1.1).
        ZoneType = "zone_type",
        /// Counts or lengths run past the end: FORMERR.
        PastEnd = "past_end",
        /// A malformed name: FORMERR.
        NameMalformed = "name_malformed",
        /// Bytes after the last record: FORMERR.
        LeftOver = "left_over",
        /// Two OPT records: FORMERR (RFC 6891 6.1.1).
        OptTwice = "opt_twice",
        /// OPT not owned by the root: FORMERR (RFC 6891 6.1.2).
        OptOwner = "opt_owner",
        /// OPT not in the additional section: FORMERR (RFC 6891 6.1.1).
        OptSection = "opt_section",
        /// An option that runs past the end of the OPT record: FORMERR.
        OptOptions = "opt_options",
        /// A COOKIE of a length other than 8 or 16 to 40: FORMERR (RFC 7873 5.2.2).
        CookieLength = "cookie_length",
        /// An EDNS version above 0: BADVERS (RFC 6891 6.1.3).
        EdnsVersion = "edns_version",
        /// TSIG that is not the last record: FORMERR (RFC 8945 5.1).
        TsigNotLast = "tsig_not_last",
        /// Two TSIG records: FORMERR (RFC 8945 5.1).
        TsigTwice = "tsig_twice",
        /// TSIG of a class other than ANY: FORMERR (RFC 8945 4.2).
        TsigClass = "tsig_class",
        /// Malformed TSIG rdata: FORMERR (RFC 8945 5.2).
        TsigMalformed = "tsig_malformed",
    }
}
