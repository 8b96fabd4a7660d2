//! Nets in the background, each held by its own process.

use links::limits::DOWN_WITHIN;
use links::plan::NetPlan;
use links::{Net, RecordedNet, log_of};
use std::error::Error;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Starts the process that holds a net, and waits until the net is ready.
pub(super) fn up(path: &Path, stops: &dyn Fn() -> u8) -> Result<ExitCode, Box<dyn Error>> {
    let plan = NetPlan::read(path)?;
    remove_stale()?;
    if let Some(net) = RecordedNet::find(&plan.name)? {
        return Err(format!("cannot create the net {}: process {} already runs it", net.name, net.pid).into());
    }
    let log = log_of(&plan.name);
    log.parent().map(std::fs::create_dir_all).transpose()?;
    let output = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    let mut keeper = Command::new(std::env::current_exe()?)
        .args(["net", "keep"])
        .arg(path)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        // Ctrl-C in this terminal must not reach it.
        .process_group(0)
        .spawn()?;
    loop {
        if let Some(status) = keeper.try_wait()? {
            let why = std::fs::read_to_string(&log).unwrap_or_default();
            let _gone = std::fs::remove_file(&log);
            return Err(format!("cannot create the net ({status}): {}", why.trim()).into());
        }
        if RecordedNet::find(&plan.name)?.is_some_and(|net| net.is_ready && net.pid == keeper.id()) {
            break;
        }
        if stops() > 0 {
            // Stopping the process also removes the net.
            if let Some(net) = RecordedNet::find(&plan.name)?.filter(|net| net.pid == keeper.id()) {
                net.ask_to_end()?;
            }
            keeper.wait()?;
            return Err("stopped".into());
        }
        sleep(POLL_INTERVAL);
    }
    println!("{}: ip netns exec {} COMMAND for the hub", plan.name, plan.hub());
    for group in &plan.groups {
        println!("{}: ip netns exec {} COMMAND for clients", group.name, plan.namespace_of(group));
    }
    Ok(ExitCode::SUCCESS)
}

/// Holds a net until a signal arrives.
pub(super) fn keep(path: &Path, stops: &dyn Fn() -> u8) -> Result<ExitCode, Box<dyn Error>> {
    let net = Net::make(&NetPlan::read(path)?)?;
    while stops() == 0 {
        if !net.is_alive() {
            eprintln!("a link failed");
            break;
        }
        sleep(POLL_INTERVAL);
    }
    for link in net.finish()? {
        println!("{link}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Stops the process that holds a net, waits until it has exited, and prints the link statistics.
pub(super) fn down(name: &str) -> Result<ExitCode, Box<dyn Error>> {
    let Some(net) = RecordedNet::find(name)? else {
        return Err(format!("no net {name}; `catlab net list` shows all").into());
    };
    let log = log_of(name);
    if !net.is_running() {
        remove_stale()?;
        let _gone = std::fs::remove_file(&log);
        return Ok(ExitCode::SUCCESS);
    }
    net.ask_to_end()?;
    let until = Instant::now() + DOWN_WITHIN;
    while net.is_running() {
        if Instant::now() > until {
            return Err(format!("process {} does not exit; kill it, then run `catlab net clean`", net.pid).into());
        }
        sleep(POLL_INTERVAL);
    }
    print!("{}", std::fs::read_to_string(&log).unwrap_or_default());
    let _gone = std::fs::remove_file(&log);
    Ok(ExitCode::SUCCESS)
}

/// Removes nets whose processes have exited, and prints their names.
pub(crate) fn remove_stale() -> Result<(), Box<dyn Error>> {
    for name in links::clean()? {
        eprintln!("catlab net: removed {name}: its process has exited");
    }
    Ok(())
}
