//! The arguments of `cluster restore` and `cluster recover`.

use super::init::InitArgs;
use crate::limits::SERIAL_GAP_MAX;
use clap::Args;
use std::path::PathBuf;

/// Arguments of `cluster restore`.
#[derive(Args, Debug)]
pub struct RestoreArgs {
    /// Path of the backup file.
    pub file: PathBuf,
    /// File with the data key of the backup's cluster.
    #[arg(long, value_name = "FILE")]
    pub data_key: PathBuf,
    /// Configuration file of a stopped node of the old cluster. The new node then stops each node of the old
    /// cluster that it can reach.
    #[arg(long, value_name = "FILE")]
    pub old_node: Option<PathBuf>,
    /// How far serials jump ahead of those in the backup [default: 1073741824]
    #[arg(long, value_name = "N", value_parser = serial_gap)]
    pub serial_gap: Option<u32>,
    /// The new cluster.
    #[command(flatten)]
    pub new: InitArgs,
}

/// Arguments of `cluster recover`.
#[derive(Args, Debug)]
pub struct RecoverArgs {
    /// Configuration file of that node, which must be stopped.
    pub config: PathBuf,
    /// Accept the loss of updates that only the lost nodes had.
    #[arg(long, required = true)]
    pub accept_loss: bool,
    /// Accept a node with damaged data, a removed node, or a node whose log lacks or contradicts acknowledged
    /// entries.
    #[arg(long)]
    pub accept_damage: bool,
    /// Leave the nodes of the old cluster alone. By default, the new node stops each of them that it can reach.
    #[arg(long)]
    pub rehearsal: bool,
    /// How far serials jump ahead of those in the node's data [default: 1073741824]
    #[arg(long, value_name = "N", value_parser = serial_gap)]
    pub serial_gap: Option<u32>,
    /// The new cluster.
    #[command(flatten)]
    pub new: InitArgs,
}

/// Reads `--serial-gap`.
fn serial_gap(text: &str) -> Result<u32, String> {
    let gap = text.parse().ok().filter(|gap| (1..=SERIAL_GAP_MAX).contains(gap));
    gap.ok_or_else(|| {
        format!("use a number from 1 to {SERIAL_GAP_MAX}: with a larger step, serials would go back (RFC 1982)")
    })
}
