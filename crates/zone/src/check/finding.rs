//! The findings of a check.

use crate::file::FileLine;
use crate::limits::{NSEC3_ITERATIONS_LOADED_MAX, NSEC3_SALT_LOADED_BYTES_MAX, RRSET_RECORDS_MAX, WARNINGS_MAX};
use crate::record::RecordRef;
use crate::text::{print_name, print_rtype};
use core::fmt;
use wire::name::{Name, NameRef};
use wire::number::Rtype;

/// One finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What.
    pub kind: FindingKind,
    /// The affected owner.
    pub owner: Name,
    /// The affected type.
    pub rtype: Rtype,
    /// The line of the record, if it came from a file.
    pub location: Option<FileLine>,
}

/// The kinds of findings.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FindingKind {
    /// Error: no SOA at the apex (RFC 1035 5.2).
    SoaMissing,
    /// Error: two SOAs at the apex (RFC 1035 5.2).
    SoaMany,
    /// Error: an SOA below the apex.
    SoaBelowApex,
    /// Error: other records beside a CNAME, except those of DNSSEC (RFC 2181 10.1, RFC 4034 3 and 4).
    CnameAndOther,
    /// Error: two CNAMEs at one owner (RFC 2181 10.1).
    CnameMany,
    /// Error: two DNAMEs at one owner (RFC 6672 2.4).
    DnameMany,
    /// Error: NSEC3 with too many iterations, which would make answers too slow (RFC 9276 3.2).
    Nsec3Iterations,
    /// Error: NSEC3 with a salt so long that each iteration would hash more than one block.
    Nsec3Salt,
    /// Warning: no NS at the apex (RFC 1034 4.2.1). BIND refuses, Knot and NSD serve.
    NsMissing,
    /// Warning: a record outside the zone. It is left out.
    OutsideZone,
    /// Warning: a duplicate record. It is left out (RFC 2181 5).
    Duplicate,
    /// Warning: different TTLs in one RRset. The lowest one is used (RFC 2181 5.2).
    TtlDiffers,
    /// Warning: an RRset that does not fit into one message.
    RrsetLarge,
    /// Warning: a record below a zone cut or a DNAME. It is never sent, except as glue.
    Occluded,
    /// Warning: NS beside a DNAME below the apex. It is never sent (RFC 6672 2.3).
    NsBesideDname,
    /// Warning: NS of a wildcard has no defined meaning (RFC 4592 4.2).
    NsOfWildcard,
    /// Warning: DS at the apex belongs to the zone above (RFC 4035 2.4). It is left out.
    DsAtApex,
    /// Warning: a ZONEMD of a private scheme whose digest does not have the length of scheme 1. BIND 9.18 cannot read
    /// it.
    ZonemdPrivate,
    /// Warning: DS without a zone cut.
    DsWithoutNs,
    /// Warning: a name server below its own zone cut without an address (RFC 9471 2).
    GlueMissing,
    /// Warning: a record points to a name of this zone that has no address.
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

/// All findings. Only the first [`WARNINGS_MAX`] errors and as many warnings are kept.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Findings {
    errors: Vec<Finding>,
    warnings: Vec<Finding>,
    error_count: usize,
    warning_count: usize,
}

impl Findings {
    pub(super) fn add(&mut self, kind: FindingKind, record: RecordRef<'_>, location: Option<&FileLine>) {
        self.add_at(kind, record.owner, record.rtype, location);
    }

    pub(super) fn add_at(&mut self, kind: FindingKind, owner: NameRef<'_>, rtype: Rtype, location: Option<&FileLine>) {
        let (list, count) = if kind.is_error() {
            (&mut self.errors, &mut self.error_count)
        } else {
            (&mut self.warnings, &mut self.warning_count)
        };
        *count += 1;
        if list.len() < WARNINGS_MAX {
            list.push(Finding { kind, owner: owner.to_name(), rtype, location: location.copied() });
        }
    }

    /// Whether the zone is refused.
    #[must_use]
    pub const fn has_error(&self) -> bool {
        self.error_count > 0
    }

    /// The kept errors.
    #[must_use]
    pub fn errors(&self) -> &[Finding] {
        &self.errors
    }

    /// The kept warnings.
    #[must_use]
    pub fn warnings(&self) -> &[Finding] {
        &self.warnings
    }

    /// Number of all errors and of all warnings.
    #[must_use]
    pub const fn counts(&self) -> (usize, usize) {
        (self.error_count, self.warning_count)
    }
}
