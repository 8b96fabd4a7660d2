//! Agents of a run, as far as they are known here: how far each is, and when it was heard last.

use super::coordinator::FleetError;
use async_nats::Subscriber;
use lab::fleet::{
    AgentInfo, Bus, ClockOffset, ClockSample, Command, Envelope, Heartbeat, Phase, Reply, next, subjects, wall_ns,
};
use lab::limits::{AGENT_NAME_BYTES_MAX, CLOCK_SAMPLES, HEARTBEAT_INTERVAL};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// So long a look at what has come takes at most.
const LOOK: Duration = Duration::from_millis(100);

/// One of them.
pub(super) struct AgentState {
    /// Its name is unlike that of any other here.
    pub(super) info: AgentInfo,
    pub(super) phase: Phase,
    pub(super) sent: u64,
    /// Queries that it is to send, where that is known.
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

    /// Whether nothing more will come of it by itself.
    pub(super) fn has_ended(&self) -> bool {
        self.lost.is_some() || matches!(self.phase, Phase::Finished { .. })
    }
}

/// All of them.
pub(super) struct Agents {
    bus: Bus,
    run: String,
    heartbeats: Subscriber,
    silence: Duration,
    pub(super) states: Vec<AgentState>,
}

/// Asks who is there until there are enough of them.
///
/// # Errors
/// There are not, in that time, or the user has asked to stop.
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
        let asked = Instant::now();
        while found.len() < wanted && asked.elapsed() < HEARTBEAT_INTERVAL {
            let Ok(Some(answer)) = timeout(LOOK, next(&mut answers)).await else { continue };
            let Ok(info) = serde_json::from_slice::<AgentInfo>(&answer.payload) else { continue };
            if !lab::fleet::is_run(&info.id) || found.iter().any(|known| known.id == info.id) {
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

/// Gives those of the same name different ones, of signs that a folder's name may have.
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

    /// Has an agent do something.
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

    /// Learns how far the clock of each is from ours.
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
                .ok_or_else(|| FleetError::Refused(name(), "it does not tell the time".into()))?;
            self.states[index].clock = clock;
        }
        Ok(())
    }

    /// Takes in signs of life for a moment; who has given none for too long is lost.
    pub(super) async fn poll_heartbeats(&mut self) -> Result<(), FleetError> {
        match timeout(LOOK, next(&mut self.heartbeats)).await {
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
                agent.lost = Some(format!("no sign of life for {} s", self.silence.as_secs()));
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

    /// The first that was lost.
    pub(super) fn first_lost(&self) -> Option<(String, String)> {
        self.states.iter().find_map(|agent| Some((agent.info.name.clone(), agent.lost.clone()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_of_one_name_are_told_apart() {
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
