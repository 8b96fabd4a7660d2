//! Reads a net from a file or from options.

use clap::Args;
use links::delay::{Loss, Rate, Rtt, Shape};
use links::limits::QUEUE_BYTES;
use links::plan::{GroupPlan, Mechanism, NetPlan};
use links::units::{read_duration, read_network, read_rate, read_share};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

/// One group of clients without a file.
#[derive(Args)]
pub(super) struct LinkArguments {
    /// Round-trip time.
    #[arg(long, value_parser = read_duration, value_name = "TIME")]
    rtt: Option<Duration>,
    /// Maximum jitter of the round trip, uniformly distributed. Packets of a client stay in order.
    #[arg(long, value_parser = read_duration, value_name = "TIME", default_value = "0s")]
    jitter: Duration,
    /// Packet loss in each direction, such as 0.1%.
    #[arg(long, value_parser = read_share, value_name = "SHARE", default_value = "0")]
    loss: f64,
    /// Average number of packets lost in a row.
    #[arg(long, value_name = "PACKETS", default_value_t = 1.0)]
    burst: f64,
    /// Bandwidth of each direction, such as 100mbit.
    #[arg(long, value_parser = read_rate, value_name = "RATE")]
    rate: Option<u64>,
    /// Size of the queue of --rate.
    #[arg(long, value_name = "BYTES", requires = "rate", default_value_t = QUEUE_BYTES)]
    queue_bytes: u64,
    /// Let jitter reorder packets.
    #[arg(long)]
    reorder: bool,
    /// Additional network of client addresses, such as 10.0.0.0/8. May be given several times.
    #[arg(long = "network", value_parser = read_network, value_name = "NETWORK")]
    networks: Vec<(IpAddr, u8)>,
    /// Seed of packet loss.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How to emulate links: auto, netem or relay.
    #[arg(long, default_value = "auto")]
    mechanism: Mechanism,
    /// How long the relay busy-waits before a packet is due. This improves timing and uses more CPU.
    #[arg(long, value_parser = read_duration, value_name = "TIME", default_value = "0s")]
    spin: Duration,
}

/// A net from a file or from options.
pub(super) struct NetSource<'a> {
    pub(super) file: Option<&'a Path>,
    pub(super) link: &'a LinkArguments,
}

impl NetSource<'_> {
    pub(super) fn plan(&self) -> Result<NetPlan, String> {
        match (self.file, self.link.rtt) {
            (Some(path), _) => NetPlan::read(path),
            (None, Some(rtt)) => self.link.plan(rtt),
            (None, None) => Err("no net described: name a file, or use --rtt 20ms".into()),
        }
    }
}

impl LinkArguments {
    fn plan(&self, rtt: Duration) -> Result<NetPlan, String> {
        let rate = self.rate.map(|bits| Rate { bits, queue_bytes: self.queue_bytes });
        let shape = Shape {
            rtt: Rtt::Constant(rtt),
            jitter: self.jitter,
            loss: Loss { share: self.loss, burst: self.burst },
            rate,
            reorder: self.reorder,
        };
        let group = GroupPlan { name: "clients".into(), shape, networks: self.networks.clone() };
        let plan = NetPlan {
            name: name_of(std::process::id()),
            seed: self.seed,
            mechanism: self.mechanism,
            spin: self.spin,
            groups: vec![group],
        };
        plan.check()?;
        Ok(plan)
    }
}

/// A short unique name for the net of a process without a named net.
pub(crate) fn name_of(pid: u32) -> String {
    let mut rest = pid;
    let mut letters = Vec::new();
    while rest > 0 {
        letters.push(b"0123456789abcdefghijklmnopqrstuvwxyz"[rest as usize % 36]);
        rest /= 36;
    }
    letters.push(b'n');
    letters.iter().rev().map(|letter| char::from(*letter)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_number_of_a_process_still_makes_a_name() {
        // The kernel's PID_MAX_LIMIT.
        assert!(name_of(1 << 22).len() <= links::limits::NET_NAME_BYTES_MAX);
        assert_eq!(name_of(36), "n10");
        assert_ne!(name_of(36), name_of(37));
    }
}
