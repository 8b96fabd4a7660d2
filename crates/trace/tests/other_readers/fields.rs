//! What a reader tells of one message.

/// The fields that are compared, in the order of [`MessageFields::fields`].
pub(crate) const FIELDS: [&str; 20] = [
    "time", "opcode", "AA", "TC", "RD", "RA", "AD", "CD", "RCODE", "QD", "AN", "NS", "AR", "name", "type", "class",
    "EDNS", "size", "version", "DO",
];

/// Where a field stands.
pub(crate) fn field(name: &str) -> usize {
    FIELDS.iter().position(|field| *field == name).unwrap()
}

/// One message.
#[derive(Clone, Debug)]
pub(crate) struct MessageFields {
    /// Transport, addresses, ports, ID and QR: by these messages of two readers are found to be the same.
    pub(crate) key: String,
    /// `None` of what the reader does not tell; [`NONE`] where it tells that there is none.
    pub(crate) fields: [Option<String>; FIELDS.len()],
    /// Whether the reader says that it is no whole message.
    pub(crate) is_malformed: bool,
}

/// Of a field that the message does not have.
pub(crate) const NONE: &str = "none";

impl MessageFields {
    pub(crate) fn new(key: String) -> Self {
        Self { key, fields: Default::default(), is_malformed: false }
    }

    /// Leaves the seconds of a time in nanoseconds, for readers that tell no more.
    pub(crate) fn drop_parts_of_seconds(&mut self) {
        let time = self.fields[field("time")].as_mut().unwrap();
        *time = (time.parse::<u64>().unwrap() / 1_000_000_000).to_string();
    }

    pub(crate) fn set(&mut self, name: &str, value: impl ToString) {
        self.fields[field(name)] = Some(value.to_string());
    }

    /// Says it unless it was said: of several questions the first counts.
    pub(crate) fn set_first(&mut self, name: &str, value: impl ToString) {
        self.fields[field(name)].get_or_insert_with(|| value.to_string());
    }
}
