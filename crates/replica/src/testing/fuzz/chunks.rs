//! Splits one input into chunks. Each is a length in two bytes, a tag, and the bytes.

use super::limits::CHUNKS_MAX;

/// A chunk and its tag.
pub(super) type Chunk<'i> = (u8, &'i [u8]);

pub(super) fn split(mut input: &[u8]) -> Vec<Chunk<'_>> {
    let mut chunks = Vec::new();
    while chunks.len() < CHUNKS_MAX
        && let Some((length, rest)) = input.split_first_chunk::<2>()
        && let Some((&tag, rest)) = rest.split_first()
    {
        // The last chunk may be cut short, so that an input with a wrong length is still valid.
        let (chunk, rest) = rest.split_at(rest.len().min(usize::from(u16::from_be_bytes(*length))));
        chunks.push((tag, chunk));
        input = rest;
    }
    chunks
}

pub(super) fn join<'c>(chunks: impl IntoIterator<Item = (u8, &'c [u8])>) -> Vec<u8> {
    let mut input = Vec::new();
    for (tag, chunk) in chunks {
        let length = u16::try_from(chunk.len()).expect("chunks of seeds are small");
        input.extend_from_slice(&length.to_be_bytes());
        input.push(tag);
        input.extend_from_slice(chunk);
    }
    input
}
