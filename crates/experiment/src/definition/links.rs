//! The links of a definition.

use super::Links;
use super::variables::substitute;
use links::delay::{Loss, Shape};
use links::plan::GroupPlan;
use links::units;
use std::collections::BTreeMap;
use std::time::Duration;

impl Links {
    /// The shape of the link between loads and servers.
    ///
    /// # Errors
    /// A text is not a time or share, or it is out of range.
    pub(crate) fn shape(&self, values: &BTreeMap<String, String>) -> Result<Shape, String> {
        let text = |text: &Option<String>| text.as_ref().map(|text| substitute(text, values)).transpose();
        let mut shape =
            Shape { rtt: units::read_rtt(&substitute(&self.rtt, values)?)?, ..Shape::constant(Duration::ZERO) };
        if let Some(jitter) = text(&self.jitter)? {
            shape.jitter = units::read_duration(&jitter)?;
        }
        if let Some(loss) = text(&self.loss)? {
            shape.loss = Loss { share: units::read_share(&loss)?, ..Loss::NONE };
        }
        let group = GroupPlan { name: "loads".into(), shape, networks: Vec::new() };
        group.check()?;
        Ok(group.shape)
    }
}
