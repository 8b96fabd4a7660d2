//! The registered numbers: types, classes, opcodes, RCODEs, and SOA serials.

use core::fmt;

/// The registered spelling, if it is no identifier.
macro_rules! mnemonic {
    (NSAP_PTR) => {
        "NSAP-PTR"
    };
    ($variant:ident) => {
        stringify!($variant)
    };
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($int:ty) { $($(#[$vdoc:meta])* $variant:ident = $value:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $int);

        impl $name {
            $($(#[$vdoc])* #[doc = concat!("`", stringify!($variant), "`")] pub const $variant: Self = Self($value);)*

            /// The registered mnemonic, if this crate knows one.
            #[must_use]
            pub const fn mnemonic(self) -> Option<&'static str> {
                match self.0 { $($value => Some(mnemonic!($variant)),)* _ => None }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.mnemonic() {
                    Some(mnemonic) => f.write_str(mnemonic),
                    None => write!(f, "{}({})", stringify!($name), self.0),
                }
            }
        }
    };
}

number! {
    /// An RR type, or a QTYPE (RFC 1035 3.2.2, 3.2.3).
    Rtype(u16) {
        A = 1, NS = 2, MD = 3, MF = 4, CNAME = 5, SOA = 6, MB = 7, MG = 8, MR = 9, NULL = 10, WKS = 11, PTR = 12,
        HINFO = 13, MINFO = 14, MX = 15, TXT = 16, RP = 17, AFSDB = 18, X25 = 19, ISDN = 20, RT = 21, NSAP = 22,
        NSAP_PTR = 23, SIG = 24, KEY = 25, PX = 26, GPOS = 27, AAAA = 28, LOC = 29, NXT = 30, EID = 31, NIMLOC = 32,
        SRV = 33, ATMA = 34, NAPTR = 35, KX = 36, CERT = 37, A6 = 38, DNAME = 39, SINK = 40, OPT = 41, APL = 42,
        DS = 43, SSHFP = 44, IPSECKEY = 45, RRSIG = 46, NSEC = 47, DNSKEY = 48, DHCID = 49, NSEC3 = 50,
        NSEC3PARAM = 51, TLSA = 52, SMIMEA = 53, HIP = 55, NINFO = 56, RKEY = 57, TALINK = 58, CDS = 59,
        CDNSKEY = 60, OPENPGPKEY = 61, CSYNC = 62, ZONEMD = 63, SVCB = 64, HTTPS = 65, DSYNC = 66, HHIT = 67,
        BRID = 68, SPF = 99, NID = 104, L32 = 105, L64 = 106, LP = 107, EUI48 = 108, EUI64 = 109, TKEY = 249,
        TSIG = 250, IXFR = 251, AXFR = 252, MAILB = 253, MAILA = 254, ANY = 255, URI = 256, CAA = 257, AVC = 258,
        DOA = 259, AMTRELAY = 260, RESINFO = 261, WALLET = 262, CLA = 263, IPN = 264, TA = 32768, DLV = 32769,
    }
}

number! {
    /// A class, or a QCLASS (RFC 1035 3.2.4).
    Class(u16) { IN = 1, CH = 3, HS = 4, NONE = 254, ANY = 255, }
}

number! {
    /// An opcode; four bits (RFC 1035 4.1.1).
    Opcode(u8) { QUERY = 0, IQUERY = 1, STATUS = 2, NOTIFY = 4, UPDATE = 5, DSO = 6, }
}

number! {
    /// A response code; twelve bits with EDNS (RFC 6891 6.1.3), sixteen in TSIG (RFC 8945 4.2).
    Rcode(u16) {
        NOERROR = 0, FORMERR = 1, SERVFAIL = 2, NXDOMAIN = 3, NOTIMP = 4, REFUSED = 5, YXDOMAIN = 6, YXRRSET = 7,
        NXRRSET = 8, NOTAUTH = 9, NOTZONE = 10, BADVERS = 16, BADKEY = 17, BADTIME = 18, BADTRUNC = 22,
        BADCOOKIE = 23,
    }
}

impl Rcode {
    /// The TSIG error for a wrong MAC; shares its number with BADVERS (RFC 8945 3).
    pub const BADSIG: Self = Self(16);
}

impl Rtype {
    /// A type that occurs only in NSEC bitmaps, for a name that does not exist (RFC 9824 3.4). It is printed by its
    /// number, so that other software can read it.
    pub const NXNAME: Self = Self(128);

    /// Whether this is a QTYPE or a meta type, which no zone contains (RFC 6895 3.1: 128 to 255, and OPT).
    #[must_use]
    pub const fn is_meta(self) -> bool {
        self.0 == Self::OPT.0 || (self.0 >= 128 && self.0 <= 255)
    }
}

/// A zone's serial number, compared in the arithmetic of RFC 1982.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Serial(pub u32);

impl Serial {
    /// Whether `self` is newer than `other` (RFC 1982 3.2); false where the RFC leaves it undefined.
    #[must_use]
    pub const fn is_newer_than(self, other: Self) -> bool {
        let ahead = self.0.wrapping_sub(other.0);
        ahead != 0 && ahead < 1 << 31
    }

    /// The next serial. Skips zero, because some software treats it as "none".
    #[must_use]
    pub const fn next(self) -> Self {
        match self.0.wrapping_add(1) {
            0 => Self(1),
            n => Self(n),
        }
    }
}
