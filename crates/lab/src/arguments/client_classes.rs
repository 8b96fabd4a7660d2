//! The option that divides clients into busy and other ones.

use clap::Args;
use load::limits::BUSY_QUERIES_DEFAULT;

#[derive(Args)]
pub(crate) struct ClientClassArguments {
    /// Clients of a trace or population that send at least this many queries are busy. The summary has the latency of
    /// busy and of other clients (client_latency).
    #[arg(long, value_name = "N", default_value_t = BUSY_QUERIES_DEFAULT,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) busy_queries: u32,
}
