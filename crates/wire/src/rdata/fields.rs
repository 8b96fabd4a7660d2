//! Splits rdata into fields, and finds the names among them.

use super::check::field_end;
use super::error::RdataError;
use super::layout::{Field, layout};
use crate::name::NameRef;
use crate::number::Rtype;

/// Iterator over the fields of rdata; made by [`rdata_fields`]. It ends after the first error.
#[derive(Clone)]
pub struct Fields<'r> {
    fields: &'static [Field],
    rdata: &'r [u8],
    at: usize,
}

/// Splits uncompressed rdata into fields with their bytes. A type without layout has one field, [`Field::Bytes`].
#[must_use]
pub fn rdata_fields(rtype: Rtype, rdata: &[u8]) -> Fields<'_> {
    Fields { fields: layout(rtype).unwrap_or(&[Field::Bytes]), rdata, at: 0 }
}

impl<'r> Iterator for Fields<'r> {
    type Item = Result<(Field, &'r [u8]), RdataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some((&field, after)) = self.fields.split_first() else {
            let is_left_over = self.at < self.rdata.len();
            self.at = self.rdata.len();
            return is_left_over.then_some(Err(RdataError::LeftOver));
        };
        let start = self.at;
        match field_end(field, self.rdata, start) {
            Ok(end) => {
                (self.fields, self.at) = (after, end);
                Some(Ok((field, &self.rdata[start..end])))
            }
            Err(error) => {
                (self.fields, self.at) = (&[], self.rdata.len());
                Some(Err(error))
            }
        }
    }
}

/// The names inside well-formed, uncompressed rdata, in order, including gateways and rendezvous servers.
pub fn rdata_names(rtype: Rtype, rdata: &[u8]) -> impl Iterator<Item = NameRef<'_>> {
    rdata_fields(rtype, rdata)
        .map_while(Result::ok)
        .filter(move |&(field, _)| match field {
            Field::Name(_) | Field::NamesRest | Field::A6Name => true,
            Field::Gateway { type_at, type_mask } => rdata[type_at as usize] & type_mask == 3,
            _ => false,
        })
        .flat_map(|(_, mut bytes)| {
            core::iter::from_fn(move || {
                let (name, rest) = NameRef::split_from(bytes).ok()?;
                bytes = rest;
                Some(name)
            })
        })
}
