//! Agents of a run, as far as they are known here: how far each is, and when it was heard last.

use super::conduct::Broken;
use async_nats::Subscriber;
use lab::fleet::{Beat, Bus, Command, Envelope, Offset, Phase, Presence, Reply, Round, next, subjects, wall_ns};
use lab::limits::{AGENT_NAME_BYTES_MAX, BEAT_INTERVAL, CLOCK_ROUNDS};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// So long a look at what has come takes at most.
const LOOK: Duration = Duration::from_millis(100);

/// One of them.
pub(super) struct Hired {
    /// Its name is unlike that of any other here.
    pub(super) presence: Presence,
    pub(super) phase: Phase,
    pub(super) sent: u64,
    /// Queries that it is to send, where that is known.
    pub(super) planned: Option<u64>,
    pub(super) clock: Offset,
    pub(super) lost: Option<String>,
    heard: Instant,
}

impl Hired {
    fn new(presence: Presence) -> Self {
        Self {
            presence,
            phase: Phase::Spooling,
            sent: 0,
            planned: None,
            clock: Offset::default(),
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
pub(super) struct Crew {
    bus: Bus,
    run: String,
    beats: Subscriber,
    silence: Duration,
    pub(super) agents: Vec<Hired>,
}

/// Asks who is there until there are enough of them.
///
/// # Errors
/// There are not, in that time, or the user has asked to stop.
pub(super) async fn gather(
    bus: &Bus,
    wanted: usize,
    wait: Duration,
    stops: &dyn Fn() -> u8,
) -> Result<Vec<Presence>, Broken> {
    let inbox = bus.inbox();
    let mut answers = bus.subscribe(inbox.clone()).await?;
    let (mut found, began): (Vec<Presence>, _) = (Vec::new(), Instant::now());
    while found.len() < wanted {
        if began.elapsed() > wait || stops() > 0 {
            let names: Vec<_> = found.iter().map(|presence| presence.name.as_str()).collect();
            return Err(Broken::Agents(names.len(), wanted, names.join(", "), wait));
        }
        bus.ask_all(subjects::HAIL, &inbox).await?;
        let asked = Instant::now();
        while found.len() < wanted && asked.elapsed() < BEAT_INTERVAL {
            let Ok(Some(answer)) = timeout(LOOK, next(&mut answers)).await else { continue };
            let Ok(presence) = serde_json::from_slice::<Presence>(&answer.payload) else { continue };
            if !lab::fleet::is_run(&presence.id) || found.iter().any(|known| known.id == presence.id) {
                continue;
            }
            if presence.version != env!("CARGO_PKG_VERSION") {
                return Err(Broken::Version(presence.name, presence.version));
            }
            found.push(presence);
        }
    }
    found.sort_by(|one, other| (&one.name, &one.id).cmp(&(&other.name, &other.id)));
    Ok(apart(found))
}

/// Gives those of the same name different ones, of signs that a folder's name may have.
fn apart(mut agents: Vec<Presence>) -> Vec<Presence> {
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

impl Crew {
    pub(super) async fn new(bus: Bus, run: String, found: Vec<Presence>, silence: Duration) -> Result<Self, Broken> {
        let beats = bus.subscribe(subjects::beats(&run)).await?;
        Ok(Self { bus, run, beats, silence, agents: found.into_iter().map(Hired::new).collect() })
    }

    /// Has an agent do something.
    pub(super) async fn command(&mut self, index: usize, command: Command) -> Result<Reply, Broken> {
        let Presence { id, name, .. } = &self.agents[index].presence;
        let envelope = Envelope { run: self.run.clone(), command };
        match self.bus.ask(subjects::commands(id), &envelope).await {
            Ok(Reply::Refused { reason }) => Err(Broken::Refused(name.clone(), reason)),
            Ok(reply) => {
                self.agents[index].heard = Instant::now();
                Ok(reply)
            }
            Err(error) => Err(Broken::Refused(name.clone(), error.to_string())),
        }
    }

    /// Learns how far the clock of each is from ours.
    pub(super) async fn compare_clocks(&mut self) -> Result<(), Broken> {
        for index in (0..self.agents.len()).filter(|&index| !self.agents[index].has_ended()).collect::<Vec<_>>() {
            let mut rounds = Vec::new();
            for _ in 0..CLOCK_ROUNDS {
                let asked_ns = wall_ns();
                if let Reply::Clock { now_ns } = self.command(index, Command::Clock).await? {
                    rounds.push(Round { asked_ns, told_ns: now_ns, heard_ns: wall_ns() });
                }
            }
            let name = || self.agents[index].presence.name.clone();
            let clock =
                Offset::of(&rounds).ok_or_else(|| Broken::Refused(name(), "it does not tell the time".into()))?;
            self.agents[index].clock = clock;
        }
        Ok(())
    }

    /// Takes in signs of life for a moment; who has given none for too long is lost.
    pub(super) async fn listen(&mut self) -> Result<(), Broken> {
        match timeout(LOOK, next(&mut self.beats)).await {
            Ok(Some(message)) => {
                if let Ok(beat) = serde_json::from_slice::<Beat>(&message.payload) {
                    self.take(beat);
                }
            }
            Ok(None) => return Err(Broken::Gone),
            Err(_) => {}
        }
        for agent in self.agents.iter_mut().filter(|agent| !agent.has_ended()) {
            if agent.heard.elapsed() > self.silence {
                agent.lost = Some(format!("no sign of life for {} s", self.silence.as_secs()));
            }
        }
        Ok(())
    }

    fn take(&mut self, beat: Beat) {
        let Some(agent) = self.agents.iter_mut().find(|agent| agent.presence.id == beat.id) else { return };
        if agent.lost.is_some() {
            return;
        }
        match &beat.phase {
            Phase::Ready { queries } => agent.planned = agent.planned.or(*queries),
            Phase::Failed { reason } => agent.lost = Some(reason.clone()),
            Phase::Spooling | Phase::Running | Phase::Finished { .. } => {}
        }
        (agent.phase, agent.sent, agent.heard) = (beat.phase, beat.sent, Instant::now());
    }

    /// The first that was lost.
    pub(super) fn first_lost(&self) -> Option<(String, String)> {
        self.agents.iter().find_map(|agent| Some((agent.presence.name.clone(), agent.lost.clone()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_of_one_name_are_told_apart() {
        let agent =
            |name: &str| Presence { id: String::new(), name: name.into(), host: String::new(), version: String::new() };
        let named = apart(["a", "a", "a-2", "../b c", ""].map(agent).to_vec());
        let names: Vec<_> = named.iter().map(|agent| agent.name.as_str()).collect();
        assert_eq!(names, ["a", "a-2", "a-2-2", "---b-c", "agent"]);
    }
}
