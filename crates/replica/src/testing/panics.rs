//! Panics that a test plans: while an update is evaluated, or while a change is applied. Without a plan of the same
//! thread, nothing panics.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use zone::Changeset;

/// The first label of records whose evaluation panics, while that is planned.
pub const EVALUATION_LABEL: &str = "message-of-death";
/// The first label of records whose changes are counted.
pub const APPLY_LABEL: &str = "carry-out-of-death";

thread_local! {
    static EVALUATION: Cell<bool> = const { Cell::new(false) };
    static APPLY: RefCell<VecDeque<bool>> = const { RefCell::new(VecDeque::new()) };
}

/// Plans whether the evaluation of an update with [`EVALUATION_LABEL`] panics.
pub fn plan_evaluation(panics: bool) {
    EVALUATION.set(panics);
}

/// Plans which of the next changes to a record with [`APPLY_LABEL`] panic. Later ones do not.
pub fn plan_apply(panics: &[bool]) {
    APPLY.set(panics.iter().copied().collect());
}

/// Called for each update that is evaluated.
pub(crate) fn at_evaluation(message: &[u8]) {
    let is_planned = EVALUATION.get() && contains(message, EVALUATION_LABEL);
    assert!(!is_planned, "a test asks for it");
}

/// Called for each change of a zone that is applied.
pub(crate) fn at_apply(changeset: &Changeset) {
    if changeset.added.iter().any(|record| contains(record.owner.as_bytes(), APPLY_LABEL)) {
        let panics = APPLY.with_borrow_mut(VecDeque::pop_front);
        assert_ne!(panics, Some(true), "a test asks for it");
    }
}

fn contains(bytes: &[u8], label: &str) -> bool {
    bytes.windows(label.len()).any(|window| window == label.as_bytes())
}
