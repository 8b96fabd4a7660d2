//! What checking finds.

use crate::file::FileLine;
use crate::limits::{NSEC3_ITERATIONS_LOADED_MAX, NSEC3_SALT_LOADED_BYTES_MAX, RRSET_RECORDS_MAX, WARNINGS_MAX};
use crate::record::RecordRef;
use crate::text::{print_name, print_rtype};
use core::fmt;
use wire::name::{Name, NameRef};
use wire::number::Rtype;

/// One thing that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What.
    pub kind: FindingKind,
    /// The owner it is about.
    pub owner: Name,
    /// The type it is about.
    pub rtype: Rtype,
    /// Where the record stands, if it came from a file.
    pub place: Option<FileLine>,
}

/// What may be found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FindingKind {
    /// Error: no SOA at the apex (RFC 1035 5.2).
    SoaMissing,
    /// Error: two SOAs at the apex (RFC 1035 5.2).
    SoaMany,
    /// Error: an SOA below the apex, where another zone would begin.
    SoaBelowApex,
    /// Error: data beside a CNAME, other than what DNSSEC puts there (RFC 2181 10.1, RFC 4034 3 and 4).
    CnameAndOther,
    /// Error: two CNAMEs at one owner (RFC 2181 10.1).
    CnameMany,
    /// Error: two DNAMEs at one owner (RFC 6672 2.4).
    DnameMany,
    /// Error: NSEC3 with so many iterations that an answer would take too long (RFC 9276 3.2).
    Nsec3Iterations,
    /// Error: NSEC3 with so long a salt that each iteration would hash more than one block.
    Nsec3Salt,
    /// Warning: no NS at the apex (RFC 1034 4.2.1). BIND refuses, Knot and NSD serve.
    NsMissing,
    /// Warning: a record that is not in the zone; it is left out.
    OutsideZone,
    /// Warning: a record that was there before; it is left out (RFC 2181 5).
    Duplicate,
    /// Warning: TTLs differ in one RRset; the smallest is taken (RFC 2181 5.2).
    TtlDiffers,
    /// Warning: more records than fit into one message.
    RrsetLarge,
    /// Warning: below a zone cut or a DNAME, so never in an answer but as glue.
    Occluded,
    /// Warning: NS beside a DNAME below the apex, which is never seen (RFC 6672 2.3).
    NsBesideDname,
    /// Warning: NS of a wildcard has no defined meaning (RFC 4592 4.2).
    NsOfWildcard,
    /// Warning: DS at the apex belongs to the zone above (RFC 4035 2.4). It is left out.
    DsAtApex,
    /// Warning: a ZONEMD of a private scheme whose digest does not have the length of scheme 1. BIND 9.18 cannot read
    /// it.
    ZonemdPrivate,
    /// Warning: DS where there is no zone cut.
    DsWithoutNs,
    /// Warning: a name server below its own zone cut that has no address here (RFC 9471 2).
    GlueMissing,
    /// Warning: a name of this zone that a record points to has no address.
    AddressMissing,
    /// Warning: a record points to a CNAME (RFC 2181 10.3).
    TargetIsCname,
}

impl FindingKind {
    /// Whether the zone is refused.
    #[must_use]
    pub const fn is_error(self) -> bool {
        (self as u8) < Self::NsMissing as u8
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SoaMissing => "no SOA at the apex",
            Self::SoaMany => "more than one SOA",
            Self::SoaBelowApex => "SOA below the apex",
            Self::CnameAndOther => "CNAME and other data",
            Self::CnameMany => "more than one CNAME",
            Self::DnameMany => "more than one DNAME",
            Self::Nsec3Iterations => {
                const MOST: u16 = NSEC3_ITERATIONS_LOADED_MAX;
                return write!(f, "more than {MOST} iterations of NSEC3; sign with 0 (RFC 9276 3.1)");
            }
            Self::Nsec3Salt => {
                const MOST: usize = NSEC3_SALT_LOADED_BYTES_MAX;
                return write!(f, "more than {MOST} bytes of NSEC3 salt; sign with none (RFC 9276 3.1)");
            }
            Self::NsMissing => "no NS at the apex",
            Self::OutsideZone => "outside of the zone, left out",
            Self::Duplicate => "is there twice, left out",
            Self::TtlDiffers => "TTLs differ in the RRset, the smallest is taken",
            Self::RrsetLarge => return write!(f, "more than {RRSET_RECORDS_MAX} records in the RRset"),
            Self::Occluded => "occluded by a zone cut or DNAME above",
            Self::NsBesideDname => "NS beside a DNAME",
            Self::NsOfWildcard => "NS of a wildcard",
            Self::DsAtApex => "DS at the apex belongs to the zone above, left out",
            Self::ZonemdPrivate => "BIND 9.18 refuses a transfer with a ZONEMD of this scheme and length",
            Self::DsWithoutNs => "DS without NS",
            Self::GlueMissing => "glue is missing for a name server below the zone cut",
            Self::AddressMissing => "points to a name of this zone without an address",
            Self::TargetIsCname => "points to a CNAME",
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        print_name(self.owner.as_ref(), &mut text);
        text.push(' ');
        print_rtype(self.rtype, &mut text);
        write!(f, "{text}: {}", self.kind)
    }
}

/// Everything that was found; of warnings the first [`WARNINGS_MAX`], of errors as many.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Findings {
    errors: Vec<Finding>,
    warnings: Vec<Finding>,
    error_count: usize,
    warning_count: usize,
}

impl Findings {
    pub(super) fn add(&mut self, kind: FindingKind, record: RecordRef<'_>, place: Option<&FileLine>) {
        self.add_at(kind, record.owner, record.rtype, place);
    }

    pub(super) fn add_at(&mut self, kind: FindingKind, owner: NameRef<'_>, rtype: Rtype, place: Option<&FileLine>) {
        let (kept, count) = if kind.is_error() {
            (&mut self.errors, &mut self.error_count)
        } else {
            (&mut self.warnings, &mut self.warning_count)
        };
        *count += 1;
        if kept.len() < WARNINGS_MAX {
            kept.push(Finding { kind, owner: owner.to_name(), rtype, place: place.copied() });
        }
    }

    /// Whether the zone is refused.
    #[must_use]
    pub const fn has_error(&self) -> bool {
        self.error_count > 0
    }

    /// The errors that were kept.
    #[must_use]
    pub fn errors(&self) -> &[Finding] {
        &self.errors
    }

    /// The warnings that were kept.
    #[must_use]
    pub fn warnings(&self) -> &[Finding] {
        &self.warnings
    }

    /// How many errors and warnings there were.
    #[must_use]
    pub const fn counts(&self) -> (usize, usize) {
        (self.error_count, self.warning_count)
    }
}
