//! Queries that are drawn: which of many names, of which type.

use super::Extras;
use super::template::{Number, Template};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use wire::name::NameRef;
use wire::number::Rtype;

/// Bytes of a message header.
const HEADER_BYTES: usize = 12;

/// How often each of the names is asked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Popularity {
    /// All alike.
    Uniform,
    /// Name `k` (from 1) in proportion to 1 / k^s.
    Zipf(f64),
    /// In order, each once, then from the start.
    Sequential,
    /// A label of its own each time: no cache has seen it.
    Random,
}

/// Which names.
#[derive(Clone, PartialEq, Debug)]
pub struct NameDistribution {
    /// A name with `{n}` where its number goes, 0 to `count` - 1.
    pub pattern: String,
    /// How many names there are.
    pub count: u64,
    /// How they are chosen.
    pub popularity: Popularity,
    /// Share of queries, 0 to 1, for names that do not exist: a random label below the pattern's domain.
    pub nxdomain_share: f64,
}

/// Draws queries; the same seed draws the same.
#[derive(Clone, Debug)]
pub struct Generator {
    names: NameDistribution,
    template: Template,
    /// Types and their weights, summed up.
    types: Vec<(Rtype, f64)>,
    zipf: Option<Zipf>,
    frames: Vec<(Frame, f64)>,
    extras: Extras,
    seed: u64,
    next: u64,
    rng: ChaCha8Rng,
}

/// What stands before and behind the question.
#[derive(Clone, Debug)]
struct Frame {
    header: [u8; HEADER_BYTES],
    behind: Vec<u8>,
}

impl Frame {
    fn new(extras: &Extras) -> Result<Self, String> {
        let query = extras.query(NameRef::ROOT, Rtype::A).map_err(|error| error.to_string())?;
        // The root, a type and a class: five bytes.
        let (header, rest) = query.split_at(HEADER_BYTES);
        let header = header.try_into().map_err(|_| "a query without a header")?;
        Ok(Self { header, behind: rest[5..].to_vec() })
    }
}

impl Generator {
    /// A generator, or what is wrong with its description.
    ///
    /// # Errors
    /// A sentence, when the pattern gives no name, there is no name or no type, or a share is no share.
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
        Ok(Self { names, template, types, zipf, frames, extras, seed, next: 0, rng })
    }

    /// The same with EDNS in a share of all queries, and DO (RFC 3225 3) in a share, which has EDNS with it.
    ///
    /// # Errors
    /// A sentence, when a share is no share, or there is padding too.
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

    /// The types that are drawn.
    pub(super) fn rtypes(&self) -> impl Iterator<Item = Rtype> {
        self.types.iter().map(|&(rtype, _)| rtype)
    }

    /// Another stream of the same distribution.
    #[must_use]
    pub fn fork(&self, index: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(index + 1);
        Self { rng, next: index, ..self.clone() }
    }

    /// Writes the next query and gives its length.
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
        let mut at = HEADER_BYTES + self.template.write(&mut out[HEADER_BYTES..], number);
        out[at..at + 2].copy_from_slice(&qtype.0.to_be_bytes());
        // Class IN (RFC 1035 3.2.4).
        out[at + 2..at + 4].copy_from_slice(&[0, 1]);
        at += 4;
        out[at..at + frame.behind.len()].copy_from_slice(&frame.behind);
        at += frame.behind.len();
        // Padding depends on the name: such queries are made one by one.
        if self.extras.padding_block.is_some() { pad(&self.extras, qtype, out, at) } else { at }
    }
}

/// The query in `out` once more, with padding.
fn pad(extras: &Extras, qtype: Rtype, out: &mut [u8], length: usize) -> usize {
    let name = NameRef::split_from(&out[HEADER_BYTES..length]);
    let query = name.ok().and_then(|(name, _)| extras.query(name, qtype).ok());
    // The constructor has tried the longest of these.
    let Some(query) = query else { return length };
    out[..query.len()].copy_from_slice(&query);
    query.len()
}

/// Draws from Zipf's distribution by rejection from its inverted integral (Hörmann and Derflinger, 1996): no table, so
/// a billion names cost no more than ten.
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

    /// A number from 0; 0 is the most popular.
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
    fn zipf_halves_from_the_first_to_the_second_name() {
        let drawn = draw(&mut generator(Popularity::Zipf(1.0), 0.0), 100_000);
        let count = |name: &[u8]| -> f64 {
            drawn.iter().filter(|(question, _)| question.starts_with(name)).map(|(_, &count)| count as f64).sum()
        };
        let (first, second, tenth) = (count(b"\x02q0\x07"), count(b"\x02q1\x07"), count(b"\x02q9\x07"));
        // 1 / H(1000) of all, half of that, a tenth of that.
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
