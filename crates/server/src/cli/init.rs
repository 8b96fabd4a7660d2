//! `init`

use super::InitArgs;
use crate::problem::Problem;

pub(crate) fn run(_args: &InitArgs) -> Result<(), Problem> {
    Ok(())
}
