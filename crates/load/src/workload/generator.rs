//! Queries with random names and types.

use super::Extras;
use super::name_list::NameList;
use super::template::{Number, Template};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;
use wire::limits::HEADER_BYTES;
use wire::name::NameRef;
use wire::number::Rtype;

/// How often each name is queried.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Popularity {
    /// All names with equal probability.
    Uniform,
    /// Name `k` (from 1) with probability proportional to 1 / k^s.
    Zipf(f64),
    /// In order, and again from the start.
    Sequential,
    /// A new random label each time, so that no cache has the name.
    Random,
}

/// The names, and how often each is queried.
#[derive(Clone, PartialEq, Debug)]
pub struct NameDistribution {
    /// A name in which `{n}` is replaced by a number from 0 to `count` - 1.
    pub pattern: String,
    /// Number of names.
    pub count: u64,
    /// How names are chosen.
    pub popularity: Popularity,
    /// Share of queries, 0 to 1, for names that do not exist. These have a random label below the pattern's domain.
    pub nxdomain_share: f64,
}

/// Generates random queries. The same seed gives the same queries.
#[derive(Clone, Debug)]
pub struct Generator {
    names: NameDistribution,
    template: Template,
    /// Names that replace those of the pattern.
    listed: Option<Arc<NameList>>,
    /// Types and their cumulative weights.
    types: Vec<(Rtype, f64)>,
    zipf: Option<Zipf>,
    frames: Vec<(Frame, f64)>,
    extras: Extras,
    seed: u64,
    next: u64,
    rng: ChaCha8Rng,
}

/// The bytes before and after the question.
#[derive(Clone, Debug)]
struct Frame {
    header: [u8; HEADER_BYTES],
    after_name: Vec<u8>,
}

impl Frame {
    fn new(extras: &Extras) -> Result<Self, String> {
        let query = extras.query(NameRef::ROOT, Rtype::A).map_err(|error| error.to_string())?;
        // The root name, a type and a class are five bytes.
        let (header, rest) = query.split_at(HEADER_BYTES);
        let header = header.try_into().map_err(|_| "a query without a header")?;
        Ok(Self { header, after_name: rest[5..].to_vec() })
    }
}

impl Generator {
    /// Creates a generator.
    ///
    /// # Errors
    /// A description of the problem: an invalid pattern, no name, no type, or an invalid share.
    pub fn new(names: NameDistribution, types: &[(Rtype, f64)], extras: Extras, seed: u64) -> Result<Self, String> {
        if names.count == 0 {
            return Err("there must be at least one name".into());
        }
        if !(0.0..=1.0).contains(&names.nxdomain_share) {
            return Err(format!("a share of {} is not between 0 and 1", names.nxdomain_share));
        }
        let mut sum = 0.0;
        let types: Vec<_> = types
            .iter()
            .map(|&(rtype, weight)| {
                (rtype, {
                    sum += weight;
                    sum
                })
            })
            .collect();
        if !(sum > 0.0 && sum.is_finite()) {
            return Err("types need weights above zero".into());
        }
        let zipf = match names.popularity {
            Popularity::Zipf(exponent) => Some(Zipf::new(names.count, exponent)?),
            _ => None,
        };
        let template = Template::new(&names.pattern, names.count)?;
        let frames = vec![(Frame::new(&extras)?, 1.0)];
        let rng = ChaCha8Rng::seed_from_u64(seed);
        Ok(Self { names, template, listed: None, types, zipf, frames, extras, seed, next: 0, rng })
    }

    /// Adds EDNS to a share of all queries, and DO (RFC 3225 3) to another share. Queries with DO also have EDNS.
    ///
    /// # Errors
    /// A description of the problem: an invalid share, or padding is also set.
    pub fn with_shares(mut self, edns: f64, dnssec_ok: f64, payload_bytes: u16) -> Result<Self, String> {
        for share in [edns, dnssec_ok] {
            if !(0.0..=1.0).contains(&share) {
                return Err(format!("a share of {share} is not between 0 and 1"));
            }
        }
        if edns == 0.0 && dnssec_ok == 0.0 {
            return Ok(self);
        }
        if self.extras.padding_block.is_some() {
            return Err("queries are padded either all or not at all".into());
        }
        let with = |dnssec_ok| {
            Frame::new(&Extras { payload_bytes: Some(payload_bytes), ..self.extras.clone() }.with_edns(dnssec_ok))
        };
        let plain = self.frames.remove(0).0;
        let edns = edns.max(dnssec_ok);
        self.frames = vec![(with(true)?, dnssec_ok), (with(false)?, edns), (plain, 1.0)];
        Ok(self)
    }

    /// Takes the names from a list instead of the pattern, with the same popularity: name 0 is the first one. All names
    /// are in the list, so there are no random labels.
    ///
    /// # Errors
    /// The list is empty.
    pub fn with_listed(mut self, listed: Arc<NameList>) -> Result<Self, String> {
        if listed.is_empty() {
            return Err("there must be at least one name".into());
        }
        (self.names.count, self.names.nxdomain_share) = (listed.len() as u64, 0.0);
        match self.names.popularity {
            Popularity::Zipf(exponent) => self.zipf = Some(Zipf::new(self.names.count, exponent)?),
            Popularity::Random => self.names.popularity = Popularity::Uniform,
            Popularity::Uniform | Popularity::Sequential => {}
        }
        self.listed = Some(listed);
        Ok(self)
    }

    /// The types of the queries.
    pub(super) fn rtypes(&self) -> impl Iterator<Item = Rtype> {
        self.types.iter().map(|&(rtype, _)| rtype)
    }

    /// The same distribution with another random stream.
    #[must_use]
    pub fn fork(&self, index: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(index + 1);
        Self { rng, next: index, ..self.clone() }
    }

    /// Writes the next query. Returns its length.
    pub(super) fn fill(&mut self, out: &mut [u8]) -> usize {
        let draw: f64 = self.rng.random_range(0.0..self.types.last().map_or(1.0, |&(_, sum)| sum));
        let qtype = self.types.iter().find(|&&(_, sum)| draw < sum).map_or(Rtype::A, |&(rtype, _)| rtype);
        let is_nxdomain = self.names.nxdomain_share > 0.0 && self.rng.random_bool(self.names.nxdomain_share);
        let number = if is_nxdomain {
            Number::Missing(self.rng.random())
        } else {
            match self.names.popularity {
                Popularity::Uniform => Number::Counted(self.rng.random_range(0..self.names.count)),
                Popularity::Zipf(_) => Number::Counted(self.zipf.as_ref().map_or(0, |zipf| zipf.draw(&mut self.rng))),
                Popularity::Sequential => {
                    self.next += 1;
                    Number::Counted((self.next - 1) % self.names.count)
                }
                Popularity::Random => Number::Random(self.rng.random()),
            }
        };
        let frame = match self.frames.as_slice() {
            [(only, _)] => only,
            several => {
                let draw: f64 = self.rng.random();
                several.iter().find(|(_, up_to)| draw < *up_to).map_or(&several[0].0, |(frame, _)| frame)
            }
        };
        out[..HEADER_BYTES].copy_from_slice(&frame.header);
        let mut at = HEADER_BYTES
            + match (&self.listed, number) {
                (Some(listed), Number::Counted(number)) => {
                    let name = listed.get(number);
                    out[HEADER_BYTES..][..name.len()].copy_from_slice(name);
                    name.len()
                }
                _ => self.template.write(&mut out[HEADER_BYTES..], number),
            };
        out[at..at + 2].copy_from_slice(&qtype.0.to_be_bytes());
        // Class IN (RFC 1035 3.2.4).
        out[at + 2..at + 4].copy_from_slice(&[0, 1]);
        at += 4;
        out[at..at + frame.after_name.len()].copy_from_slice(&frame.after_name);
        at += frame.after_name.len();
        // Padding depends on the length of the name, so such queries are built one by one.
        if self.extras.padding_block.is_some() { pad(&self.extras, qtype, out, at) } else { at }
    }
}

/// Builds the query in `out` again, with padding.
fn pad(extras: &Extras, qtype: Rtype, out: &mut [u8], length: usize) -> usize {
    let name = NameRef::split_from(&out[HEADER_BYTES..length]);
    let query = name.ok().and_then(|(name, _)| extras.query(name, qtype).ok());
    // The constructor has checked the longest query.
    let Some(query) = query else { return length };
    out[..query.len()].copy_from_slice(&query);
    query.len()
}

/// Draws from a Zipf distribution by rejection from its inverted integral (Hörmann and Derflinger, 1996). There is no
/// table, so the cost does not depend on the number of names.
#[derive(Clone, Debug)]
struct Zipf {
    count: f64,
    exponent: f64,
    integral_first: f64,
    integral_last: f64,
    shortcut: f64,
}

impl Zipf {
    fn new(count: u64, exponent: f64) -> Result<Self, String> {
        if !(exponent > 0.0 && exponent.is_finite()) {
            return Err(format!("a Zipf exponent of {exponent} is not above zero"));
        }
        let mut zipf = Self { count: count as f64, exponent, integral_first: 0.0, integral_last: 0.0, shortcut: 0.0 };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(zipf.count + 0.5);
        zipf.shortcut = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        Ok(zipf)
    }

    /// A number from 0. 0 is the most popular.
    fn draw(&self, rng: &mut impl Rng) -> u64 {
        loop {
            let u = self.integral_last + rng.random::<f64>() * (self.integral_first - self.integral_last);
            let x = self.inverse(u);
            let k = x.round().clamp(1.0, self.count);
            if k - x <= self.shortcut || u >= self.integral(k + 0.5) - self.density(k) {
                return k as u64 - 1;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// The integral of the density from 1 to x.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let t = (1.0 - self.exponent) * log;
        log * if t.abs() > 1e-8 { t.exp_m1() / t } else { 1.0 + t / 2.0 }
    }

    fn inverse(&self, u: f64) -> f64 {
        let t = (u * (1.0 - self.exponent)).max(-1.0);
        (u * if t.abs() > 1e-8 { t.ln_1p() / t } else { 1.0 - t / 2.0 }).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn generator(popularity: Popularity, nxdomain_share: f64) -> Generator {
        let names = NameDistribution { pattern: "q{n}.example.com".into(), count: 1_000, popularity, nxdomain_share };
        Generator::new(names, &[(Rtype::A, 3.0), (Rtype::AAAA, 1.0)], Extras::default(), 7).unwrap()
    }

    fn draw(generator: &mut Generator, count: usize) -> BTreeMap<Vec<u8>, usize> {
        let mut drawn = BTreeMap::new();
        let mut out = [0; crate::limits::QUERY_BYTES_MAX];
        for _ in 0..count {
            let length = generator.fill(&mut out);
            *drawn.entry(out[12..length].to_vec()).or_default() += 1;
        }
        drawn
    }

    #[test]
    fn shares_match_the_configuration() {
        let drawn = draw(&mut generator(Popularity::Uniform, 0.25), 40_000);
        let share = |which: &dyn Fn(&[u8]) -> bool| {
            drawn.iter().filter(|(question, _)| which(question)).map(|(_, count)| count).sum::<usize>() as f64
                / 40_000.0
        };
        assert!((share(&|question| question.starts_with(b"\x13qnx")) - 0.25).abs() < 0.01);
        assert!((share(&|question| question.ends_with(&[0, 1, 0, 1])) - 0.75).abs() < 0.01);
    }

    #[test]
    fn zipf_gives_the_second_name_half_the_share() {
        let drawn = draw(&mut generator(Popularity::Zipf(1.0), 0.0), 100_000);
        let count = |name: &[u8]| -> f64 {
            drawn.iter().filter(|(question, _)| question.starts_with(name)).map(|(_, &count)| count as f64).sum()
        };
        let (first, second, tenth) = (count(b"\x02q0\x07"), count(b"\x02q1\x07"), count(b"\x02q9\x07"));
        // 1 / H(1000) of all queries, then a half and a tenth of that.
        assert!((first / 100_000.0 - 0.1336).abs() < 0.005, "{first}");
        assert!((second / first - 0.5).abs() < 0.04 && (tenth / first - 0.1).abs() < 0.02, "{second} {tenth}");
    }

    #[test]
    fn the_same_seed_draws_the_same_and_forks_differ() {
        let generator = generator(Popularity::Random, 0.0);
        assert_eq!(draw(&mut generator.clone(), 100), draw(&mut generator.clone(), 100));
        assert_ne!(draw(&mut generator.fork(0), 100), draw(&mut generator.fork(1), 100));
    }

    #[test]
    fn listed_names_replace_the_pattern() {
        let path = std::env::temp_dir().join(format!("catlab-listed-{}", std::process::id()));
        std::fs::write(&path, "one.example\ntwo.example\nthree.example\n").unwrap();
        let listed = Arc::new(NameList::read(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        let in_order = generator(Popularity::Sequential, 0.5).with_listed(Arc::clone(&listed)).unwrap();
        let mut out = [0; crate::limits::QUERY_BYTES_MAX];
        let mut next = in_order.clone();
        let mut first_label = || {
            let _length = next.fill(&mut out);
            String::from_utf8_lossy(&out[13..13 + usize::from(out[12])]).into_owned()
        };
        let labels: Vec<_> = (0..4).map(|_| first_label()).collect();
        assert_eq!(labels, ["one", "two", "three", "one"]);
        // The weights follow the order of the list: 1, 1/2, 1/3.
        let drawn = draw(&mut generator(Popularity::Zipf(1.0), 0.0).with_listed(Arc::clone(&listed)).unwrap(), 22_000);
        let count = |label: &[u8]| -> usize {
            drawn.iter().filter(|(question, _)| question[1..].starts_with(label)).map(|(_, count)| count).sum()
        };
        let share = |label: &[u8]| count(label) as f64 / 22_000.0;
        assert!((share(b"one") - 6.0 / 11.0).abs() < 0.02 && (share(b"three") - 2.0 / 11.0).abs() < 0.02, "{drawn:?}");
        // A new label each time is not in the list.
        let random = draw(&mut generator(Popularity::Random, 0.0).with_listed(listed).unwrap(), 1_000);
        assert!(random.len() <= 6, "{random:?}");
        assert!(in_order.with_listed(Arc::new(NameList::default())).is_err());
    }

    #[test]
    fn bad_descriptions_are_refused() {
        let names = |pattern: &str, count, nxdomain_share| NameDistribution {
            pattern: pattern.into(),
            count,
            popularity: Popularity::Uniform,
            nxdomain_share,
        };
        let new = |names| Generator::new(names, &[(Rtype::A, 1.0)], Extras::default(), 1);
        assert!(new(names(&format!("{}.example", "a".repeat(64)), 1, 0.0)).is_err());
        assert!(new(names("a.example", 0, 0.0)).is_err());
        assert!(new(names("a.example", 1, 1.5)).is_err());
    }
}
