//! The TOML format of a net.

use super::{GroupPlan, Mechanism, NetPlan};
use crate::delay::{Loss, Rate, Rtt, Shape};
use crate::limits::{FILE_BYTES_MAX, GROUPS_MAX, QUEUE_BYTES, QUEUE_BYTES_MAX};
use crate::units::{read_duration, read_network, read_rate, read_rtt, read_share};
use serde::Deserialize;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NetForm {
    name: String,
    #[serde(default = "one")]
    seed: u64,
    #[serde(default)]
    mechanism: Mechanism,
    spin: Option<String>,
    group: Vec<GroupForm>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupForm {
    name: String,
    rtt: RttForm,
    jitter: Option<String>,
    loss: Option<String>,
    burst: Option<f64>,
    rate: Option<String>,
    queue_bytes: Option<u64>,
    #[serde(default)]
    reorder: bool,
    #[serde(default)]
    networks: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RttForm {
    Text(String),
    List(Vec<String>),
    Other(RttTable),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum RttTable {
    Normal { mean: String, deviation: String },
    Lognormal { median: String, sigma: f64 },
    Pareto { least: String, shape: f64 },
    File(String),
}

fn one() -> u64 {
    1
}

impl NetPlan {
    /// Reads a TOML file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or its content is wrong.
    pub fn read(path: &Path) -> Result<Self, String> {
        let in_file = |error: String| format!("{}: {error}", path.display());
        let text = bounded(path).map_err(in_file)?;
        Self::parse(&text, path.parent().unwrap_or(Path::new("."))).map_err(in_file)
    }

    /// Reads TOML text. Relative paths start at `folder`.
    ///
    /// # Errors
    ///
    /// The content is wrong.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        let form: NetForm = toml::from_str(text).map_err(|error| error.to_string())?;
        if form.group.is_empty() {
            return Err(format!("a net has 1 to {GROUPS_MAX} groups, this one has none"));
        }
        let groups = form.group.into_iter().map(|group| {
            let name = group.name.clone();
            group.plan(folder).map_err(|error| format!("group {name}: {error}"))
        });
        let plan = Self {
            name: form.name,
            seed: form.seed,
            mechanism: form.mechanism,
            spin: form.spin.map_or(Ok(Duration::ZERO), |spin| read_duration(&spin))?,
            groups: groups.collect::<Result<_, _>>()?,
        };
        plan.check()?;
        Ok(plan)
    }
}

impl GroupForm {
    fn plan(self, folder: &Path) -> Result<GroupPlan, String> {
        let rate = match (self.rate, self.queue_bytes) {
            (Some(rate), queue) => {
                let queue_bytes = queue.unwrap_or(QUEUE_BYTES);
                if queue_bytes > QUEUE_BYTES_MAX {
                    return Err(format!("queue_bytes: the limit is {QUEUE_BYTES_MAX}"));
                }
                Some(Rate { bits: read_rate(&rate)?, queue_bytes })
            }
            (None, Some(_)) => return Err("queue_bytes without a rate".into()),
            (None, None) => None,
        };
        let shape = Shape {
            rtt: self.rtt.rtt(folder)?,
            jitter: self.jitter.map_or(Ok(Duration::ZERO), |jitter| read_duration(&jitter))?,
            loss: Loss {
                share: self.loss.map_or(Ok(0.0), |loss| read_share(&loss))?,
                burst: self.burst.unwrap_or(1.0),
            },
            rate,
            reorder: self.reorder,
        };
        let networks = self.networks.iter().map(|network| read_network(network)).collect::<Result<_, _>>()?;
        Ok(GroupPlan { name: self.name, shape, networks })
    }
}

impl RttForm {
    fn rtt(&self, folder: &Path) -> Result<Rtt, String> {
        Ok(match self {
            Self::Text(rtt) => read_rtt(rtt)?,
            Self::List(list) => Rtt::List(list.iter().map(|rtt| read_duration(rtt)).collect::<Result<_, _>>()?),
            Self::Other(RttTable::Normal { mean, deviation }) => {
                Rtt::Normal { mean: read_duration(mean)?, deviation: read_duration(deviation)? }
            }
            Self::Other(RttTable::Lognormal { median, sigma }) => {
                Rtt::Lognormal { median: read_duration(median)?, sigma: *sigma }
            }
            Self::Other(RttTable::Pareto { least, shape }) => {
                Rtt::Pareto { least: read_duration(least)?, shape: *shape }
            }
            Self::Other(RttTable::File(name)) => Rtt::List(samples(&folder.join(name))?),
        })
    }
}

/// Round trips from a file, one per line. Blank lines and lines with `#` are skipped.
fn samples(path: &Path) -> Result<Vec<Duration>, String> {
    let text = bounded(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|(number, line)| read_duration(line).map_err(|error| format!("{}:{number}: {error}", path.display())))
        .collect()
}

fn bounded(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("more than {FILE_BYTES_MAX} bytes"));
    }
    Ok(text)
}
