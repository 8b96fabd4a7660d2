//! The agents of a run: the phase of each, and its last heartbeat.

use super::error::FleetError;
use async_nats::Subscriber;
use fleet::{
    AgentInfo, Bus, ClockOffset, ClockSample, Command, Envelope, Heartbeat, Phase, Reply, next, subjects, wall_ns,
};
use lab::limits::{AGENT_NAME_BYTES_MAX, CLOCK_SAMPLES, HEARTBEAT_INTERVAL};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// The longest wait for one message.
const MESSAGE_TIMEOUT: Duration = Duration::from_millis(100);

/// The coordinator's state of one agent.
pub(super) struct AgentState {
    /// Its name is unique among these agents.
    pub(super) info: AgentInfo,
    pub(super) phase: Phase,
    pub(super) sent: u64,
    /// Queries that it will send, if known.
    pub(super) planned: Option<u64>,
    pub(super) clock: ClockOffset,
    pub(super) lost: Option<String>,
    heard: Instant,
}

impl AgentState {
    fn new(info: AgentInfo) -> Self {
        Self {
            info,
            phase: Phase::Spooling,
            sent: 0,
            planned: None,
            clock: ClockOffset::default(),
            lost: None,
            heard: Instant::now(),
        }
    }

    /// Whether it has finished or was lost.
    pub(super) fn has_ended(&self) -> bool {
        self.lost.is_some() || matches!(self.phase, Phase::Finished { .. })
    }
}

/// All agents of a run.
pub(super) struct Agents {
    bus: Bus,
    run: String,
    heartbeats: Subscriber,
    silence: Duration,
    pub(super) states: Vec<AgentState>,
}

/// Asks for idle agents until enough have replied.
///
/// # Errors
/// Too few replied in time, or the user stopped the run.
pub(super) async fn discover(
    bus: &Bus,
    wanted: usize,
    wait: Duration,
    stops: &dyn Fn() -> u8,
) -> Result<Vec<AgentInfo>, FleetError> {
    let inbox = bus.inbox();
    let mut answers = bus.subscribe(inbox.clone()).await?;
    let (mut found, began): (Vec<AgentInfo>, _) = (Vec::new(), Instant::now());
    while found.len() < wanted {
        if began.elapsed() > wait || stops() > 0 {
            let names: Vec<_> = found.iter().map(|info| info.name.as_str()).collect();
            return Err(FleetError::Agents(names.len(), wanted, names.join(", "), wait));
        }
        bus.publish_with_reply(subjects::DISCOVER, &inbox).await?;
        let sent_at = Instant::now();
        while found.len() < wanted && sent_at.elapsed() < HEARTBEAT_INTERVAL {
            let Ok(Some(answer)) = timeout(MESSAGE_TIMEOUT, next(&mut answers)).await else { continue };
            let Ok(info) = serde_json::from_slice::<AgentInfo>(&answer.payload) else { continue };
            if !fleet::is_run(&info.id) || found.iter().any(|known| known.id == info.id) {
                continue;
            }
            if info.version != env!("CARGO_PKG_VERSION") {
                return Err(FleetError::Version(info.name, info.version));
            }
            found.push(info);
        }
    }
    found.sort_by(|one, other| (&one.name, &one.id).cmp(&(&other.name, &other.id)));
    Ok(with_unique_names(found))
}

/// Makes names unique, from characters that a folder name may have.
fn with_unique_names(mut agents: Vec<AgentInfo>) -> Vec<AgentInfo> {
    let mut taken = BTreeSet::new();
    for agent in &mut agents {
        let plain = |sign: char| if sign.is_ascii_alphanumeric() || "-_".contains(sign) { sign } else { '-' };
        let name: String = agent.name.chars().map(plain).take(AGENT_NAME_BYTES_MAX).collect();
        let name = if name.is_empty() { "agent".to_owned() } else { name };
        let numbered = std::iter::once(name.clone()).chain((2..).map(|number| format!("{name}-{number}")));
        agent.name = numbered.into_iter().find(|name| !taken.contains(name)).unwrap_or(name);
        taken.insert(agent.name.clone());
    }
    agents
}

impl Agents {
    pub(super) async fn new(
        bus: Bus,
        run: String,
        found: Vec<AgentInfo>,
        silence: Duration,
    ) -> Result<Self, FleetError> {
        let heartbeats = bus.subscribe(subjects::heartbeats(&run)).await?;
        Ok(Self { bus, run, heartbeats, silence, states: found.into_iter().map(AgentState::new).collect() })
    }

    /// Sends a command to an agent.
    pub(super) async fn command(&mut self, index: usize, command: Command) -> Result<Reply, FleetError> {
        let AgentInfo { id, name, .. } = &self.states[index].info;
        let envelope = Envelope { run: self.run.clone(), command };
        match self.bus.request(subjects::commands(id), &envelope).await {
            Ok(Reply::Refused { reason }) => Err(FleetError::Refused(name.clone(), reason)),
            Ok(reply) => {
                self.states[index].heard = Instant::now();
                Ok(reply)
            }
            Err(error) => Err(FleetError::Refused(name.clone(), error.to_string())),
        }
    }

    /// Measures the clock offset of each agent.
    pub(super) async fn compare_clocks(&mut self) -> Result<(), FleetError> {
        for index in (0..self.states.len()).filter(|&index| !self.states[index].has_ended()).collect::<Vec<_>>() {
            let mut samples = Vec::new();
            for _ in 0..CLOCK_SAMPLES {
                let sent_ns = wall_ns();
                if let Reply::Clock { now_ns } = self.command(index, Command::Clock).await? {
                    samples.push(ClockSample { sent_ns, remote_ns: now_ns, received_ns: wall_ns() });
                }
            }
            let name = || self.states[index].info.name.clone();
            let clock = ClockOffset::of(&samples)
                .ok_or_else(|| FleetError::Refused(name(), "it does not report its clock".into()))?;
            self.states[index].clock = clock;
        }
        Ok(())
    }

    /// Handles the next heartbeat, if one arrives soon. An agent without heartbeats for too long is lost.
    pub(super) async fn poll_heartbeats(&mut self) -> Result<(), FleetError> {
        match timeout(MESSAGE_TIMEOUT, next(&mut self.heartbeats)).await {
            Ok(Some(message)) => {
                if let Ok(heartbeat) = serde_json::from_slice::<Heartbeat>(&message.payload) {
                    self.handle_heartbeat(heartbeat);
                }
            }
            Ok(None) => return Err(FleetError::Gone),
            Err(_) => {}
        }
        for agent in self.states.iter_mut().filter(|agent| !agent.has_ended()) {
            if agent.heard.elapsed() > self.silence {
                agent.lost = Some(format!("no heartbeat for {} s", self.silence.as_secs()));
            }
        }
        Ok(())
    }

    fn handle_heartbeat(&mut self, heartbeat: Heartbeat) {
        let Some(agent) = self.states.iter_mut().find(|agent| agent.info.id == heartbeat.id) else { return };
        if agent.lost.is_some() {
            return;
        }
        match &heartbeat.phase {
            Phase::Ready { queries } => agent.planned = agent.planned.or(*queries),
            Phase::Failed { reason } => agent.lost = Some(reason.clone()),
            Phase::Spooling | Phase::Running | Phase::Finished { .. } => {}
        }
        (agent.phase, agent.sent, agent.heard) = (heartbeat.phase, heartbeat.sent, Instant::now());
    }

    /// The first lost agent, and why.
    pub(super) fn first_lost(&self) -> Option<(String, String)> {
        self.states.iter().find_map(|agent| Some((agent.info.name.clone(), agent.lost.clone()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_with_equal_names_are_numbered() {
        let agent = |name: &str| AgentInfo {
            id: String::new(),
            name: name.into(),
            host: String::new(),
            version: String::new(),
        };
        let named = with_unique_names(["a", "a", "a-2", "../b c", ""].map(agent).to_vec());
        let names: Vec<_> = named.iter().map(|agent| agent.name.as_str()).collect();
        assert_eq!(names, ["a", "a-2", "a-2-2", "---b-c", "agent"]);
    }
}
