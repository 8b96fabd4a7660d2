//! Size classes of blocks. Sizes up to 32 granules have one class each; above, there are eight classes per doubling.

const EXACT: usize = 31;
/// Number of classes.
pub(crate) const CLASS_COUNT: usize = 256;

/// The greatest class whose blocks fit in `granules`.
pub(crate) fn class_of(granules: usize) -> usize {
    debug_assert!(granules > 0);
    if granules <= EXACT {
        return granules - 1;
    }
    let exponent = granules.ilog2() as usize;
    EXACT + (exponent - 5) * 8 + (granules >> (exponent - 3) & 7)
}

/// Granules of the blocks of a class.
fn class_granules(class: usize) -> usize {
    if class < EXACT {
        return class + 1;
    }
    let step = class - EXACT;
    (8 + step % 8) << (step / 8 + 2)
}

/// The size of the block that is allocated for `granules`.
pub(crate) fn round_up(granules: usize) -> usize {
    let class = class_of(granules);
    if class_granules(class) == granules { granules } else { class_granules(class + 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_ascend_and_waste_little() {
        for class in 0..CLASS_COUNT - 33 {
            assert_eq!(class_of(class_granules(class)), class);
            assert!(class_granules(class) < class_granules(class + 1));
        }
        for granules in 1..100_000 {
            let size = round_up(granules);
            assert!(size >= granules && size <= granules + granules / 8 + 1);
            assert_eq!(round_up(size), size);
        }
        assert!(class_of(1 << 32) < CLASS_COUNT);
    }
}
