//! The controller of a run on several hosts: finds agents, sends each its input, starts them together, collects their
//! results and merges them.

// The options of such a run.
mod arguments;
pub(crate) use arguments::FleetArguments;
// The options that agents get.
mod forwarded_args;
pub(crate) use forwarded_args::{check_args, forwarded_args};
// Why a run failed.
mod error;
// The agents and their state.
mod agents;
// One run, step by step.
mod coordinator;
pub(crate) use coordinator::{AgentInput, Task, run_on_agents, write_results};
