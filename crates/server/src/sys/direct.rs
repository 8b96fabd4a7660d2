//! Direct writes, which bypass the page cache: alignment of offsets and memory.

/// Offset and length of a direct write must be multiples of this on most disks; it is the unit of the log. A disk with
/// larger blocks refuses such writes.
const BLOCK_BYTES: usize = 512;
/// Addresses are aligned to a page, which suits every disk.
const PAGE_BYTES: usize = 4_096;
/// Maximum memory kept between writes.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Whether this offset and length allow a direct write.
pub(crate) fn is_aligned(offset: u64, len: usize) -> bool {
    offset.is_multiple_of(BLOCK_BYTES as u64) && len.is_multiple_of(BLOCK_BYTES)
}

/// A buffer at an aligned address.
#[derive(Default)]
pub(crate) struct AlignedBuffer {
    memory: Vec<u8>,
}

impl AlignedBuffer {
    /// Copies the bytes to an aligned address.
    pub(crate) fn filled(&mut self, bytes: &[u8]) -> &[u8] {
        let wanted = bytes.len() + PAGE_BYTES;
        if self.memory.len() < wanted || self.memory.len() > wanted.max(KEPT_BYTES_MAX) {
            self.memory = vec![0; wanted];
        }
        let start = self.memory.as_ptr().align_offset(PAGE_BYTES);
        let filled = &mut self.memory[start..start + bytes.len()];
        filled.copy_from_slice(bytes);
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_little_of_it_is_kept() {
        let mut buffer = AlignedBuffer::default();
        for len in [512, 4 << 20, 1_024, 0] {
            let bytes: Vec<u8> = (0..len).map(|index| index as u8).collect();
            let filled = buffer.filled(&bytes);
            assert_eq!(filled, bytes);
            assert_eq!(filled.as_ptr().align_offset(PAGE_BYTES), 0);
        }
        assert!(buffer.memory.len() <= KEPT_BYTES_MAX);
    }

    #[test]
    fn only_whole_blocks_are_written_directly() {
        assert!(is_aligned(0, 512) && is_aligned(1_536, 1 << 20));
        assert!(!is_aligned(1, 512) && !is_aligned(512, 700));
    }
}
