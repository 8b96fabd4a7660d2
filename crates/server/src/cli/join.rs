//! `join`

use super::JoinArgs;
use crate::problem::Problem;

pub(crate) fn run(_args: &JoinArgs) -> Result<(), Problem> {
    Ok(())
}
