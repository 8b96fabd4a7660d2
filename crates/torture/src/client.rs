//! One client: sends updates with and without prerequisites, one at a time.

use crate::cluster::name;
use crate::history::{Action, Event, Operation, Outcome};
use crate::limits::{GIVE_UP, REGISTERS, RETRY};
use crate::net::address;
use crate::shared::{Shared, Target};
use rand::Rng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tsig::client::UpdateBuilder;
use wire::Rtype;
use wire::number::Rcode;
use wire::parse::Message;

/// A value that no client writes.
const NEVER: u32 = u32::MAX - 1;
/// How long a client waits for the second response after it sent the same bytes to two nodes.
const SECOND_REPLY: Duration = Duration::from_millis(250);
const DNS_PORT: u16 = 53;

/// An update to send.
struct Update {
    register: String,
    owner: String,
    rtype: Rtype,
    action: Action,
    expected: u32,
    value: u32,
    /// The shared register that it writes.
    shared: Option<usize>,
    is_signed_wrongly: bool,
    is_duplicated: bool,
    /// The client gives up at the first SERVFAIL. Then the update must have no effect.
    gives_up: bool,
}

/// Sends updates until the run is over.
pub(crate) fn run(shared: &Shared, client: u32, mut random: ChaCha8Rng) {
    let Ok(socket) = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)) else { return };
    let mut next = Instant::now();
    for number in 0u64.. {
        if shared.is_over() {
            return;
        }
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        next = (next + shared.pause).max(Instant::now());
        let update = choose(shared, client, number, &mut random);
        execute(shared, &socket, client, &update, &mut random);
    }
}

fn choose(shared: &Shared, client: u32, number: u64, random: &mut ChaCha8Rng) -> Update {
    let value = shared.last_value.fetch_add(1, Ordering::Relaxed) + 1;
    let (is_duplicated, gives_up) = (random.random_ratio(1, 8), random.random_ratio(1, 4));
    let draw = random.random_range(0..100);
    if draw < 50 {
        let owner = format!("u{client}-{number}.{}", shared.records);
        let action = if draw < 4 { Action::Refuse } else { Action::Write };
        return Update {
            register: format!("{owner}/A"),
            owner,
            rtype: Rtype::A,
            action,
            expected: 0,
            value,
            shared: None,
            is_signed_wrongly: draw < 2,
            is_duplicated,
            gives_up,
        };
    }
    let register = random.random_range(0..REGISTERS);
    let owner = format!("c{}.{}", register / 2, shared.registers);
    let (rtype, text) = if register % 2 == 0 { (Rtype::A, "A") } else { (Rtype::AAAA, "AAAA") };
    let guess = shared.guesses[register].load(Ordering::Relaxed);
    let (action, expected) = match draw {
        50..62 => (Action::Write, 0),
        62..70 => (Action::Delete, 0),
        70..80 => (Action::Insert, 0),
        80..95 if guess != 0 => (Action::Swap, guess),
        80..95 => (Action::Insert, 0),
        _ => (Action::Refuse, 0),
    };
    Update {
        register: format!("{owner}/{text}"),
        owner,
        rtype,
        action,
        expected,
        value: if action == Action::Delete { 0 } else { value },
        shared: Some(register),
        is_signed_wrongly: false,
        is_duplicated,
        gives_up,
    }
}

/// The rdata that encodes a value.
fn rdata(rtype: Rtype, value: u32) -> Vec<u8> {
    if rtype == Rtype::A {
        return value.to_be_bytes().to_vec();
    }
    let high = u128::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0));
    (high | u128::from(value)).to_be_bytes().to_vec()
}

fn compose(shared: &Shared, update: &Update, id: u16) -> Option<Vec<u8>> {
    let zone = if update.shared.is_some() { &shared.registers } else { &shared.records };
    let (owner, rtype) = (name(&format!("{}.", update.owner)), update.rtype);
    let message = UpdateBuilder::new(id, name(&format!("{zone}.")).as_ref());
    let written = rdata(rtype, update.value);
    let message = match update.action {
        Action::Write if update.shared.is_none() => message,
        Action::Write => message.delete_rrset(owner.as_ref(), rtype),
        Action::Delete => message.require_rrset(owner.as_ref(), rtype).delete_rrset(owner.as_ref(), rtype),
        Action::Insert => message.require_no_rrset(owner.as_ref(), rtype),
        Action::Swap => {
            let expected = rdata(rtype, update.expected);
            message.require_record(owner.as_ref(), rtype, &expected).delete_rrset(owner.as_ref(), rtype)
        }
        Action::Refuse if update.is_signed_wrongly => message,
        Action::Refuse => message.require_record(owner.as_ref(), rtype, &rdata(rtype, NEVER)),
        Action::Read => return None,
    };
    let message = match update.action {
        Action::Delete => message,
        _ => message.add(owner.as_ref(), 60, rtype, &written),
    };
    let key = if update.is_signed_wrongly { &shared.wrong_key } else { &shared.key };
    key.sign(message.finish(), now_s()).ok()
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn execute(shared: &Shared, socket: &UdpSocket, client: u32, update: &Update, random: &mut ChaCha8Rng) {
    let Some(message) = compose(shared, update, shared.next_id()) else { return };
    let mut targets = shared.targets();
    targets.shuffle(random);
    let call_ns = shared.recorder.now_ns();
    let mut exchange = Exchange { shared, socket, message: &message, sent: Vec::new(), answers: Vec::new() };
    let outcome = exchange.run(&targets, update);
    let return_ns = (outcome != Outcome::Unknown).then(|| shared.recorder.now_ns());
    if exchange.answers.iter().any(|(_, answer)| *answer != outcome) && outcome != Outcome::Unknown {
        let what = format!("the same message had different outcomes: {:?}", exchange.answers);
        shared.recorder.push(Event::Contradiction { register: update.register.clone(), what });
    }
    if let (Some(register), Outcome::Ok) = (update.shared, outcome) {
        shared.guesses[register].store(update.value, Ordering::Relaxed);
    }
    shared.recorder.push(Event::Operation(Operation {
        register: update.register.clone(),
        client,
        nodes: exchange.sent,
        action: update.action,
        call_ns,
        return_ns,
        outcome,
        expected: update.expected,
        value: update.value,
    }));
}

/// One message, which the client sends until a node reports the outcome.
struct Exchange<'a> {
    shared: &'a Shared,
    socket: &'a UdpSocket,
    message: &'a [u8],
    sent: Vec<u64>,
    /// The final responses: the node's address and the outcome.
    answers: Vec<(IpAddr, Outcome)>,
}

impl Exchange<'_> {
    fn run(&mut self, targets: &[Target], update: &Update) -> Outcome {
        let start = Instant::now();
        let mut targets = targets.iter().cycle();
        let mut next = start;
        while start.elapsed() < GIVE_UP {
            if Instant::now() >= next {
                self.send(targets.next());
                if self.sent.len() == 1 && update.is_duplicated {
                    self.send(targets.next());
                }
                next = Instant::now() + RETRY;
            }
            match self.receive(next) {
                Some(Reply::Final(_)) => {
                    let (_, outcome) = self.answers[0];
                    if update.is_duplicated && self.sent.len() == 2 {
                        self.receive_second();
                    }
                    return outcome;
                }
                // Only one copy was sent, and it was not executed (docs/internals/decisions/0014-this-copy.md).
                Some(Reply::Refusal) if self.sent.len() == 1 => return Outcome::Refused,
                Some(Reply::NotExecuted) if self.sent.len() == 1 && update.gives_up => return Outcome::Refused,
                // Another node may still execute it.
                Some(Reply::Refusal | Reply::NotExecuted | Reply::Failure) => {
                    next = next.min(Instant::now() + Duration::from_millis(150))
                }
                None => {}
            }
            if self.shared.is_over() && start.elapsed() > Duration::from_secs(2) {
                break;
            }
        }
        Outcome::Unknown
    }

    fn send(&mut self, target: Option<&Target>) {
        if let Some(Target { node, slot }) = target {
            // A dead node may refuse the datagram, which still counts as sent.
            let _ = self.socket.send_to(self.message, SocketAddr::from((address(*slot), DNS_PORT)));
            self.sent.push(*node);
        }
    }

    fn receive_second(&mut self) {
        let until = Instant::now() + SECOND_REPLY;
        while Instant::now() < until && !matches!(self.receive(until), Some(Reply::Final(_))) {}
    }

    fn receive(&mut self, until: Instant) -> Option<Reply> {
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        self.socket.set_read_timeout(Some(left)).ok()?;
        let mut response = [0; 4096];
        let (len, from) = self.socket.recv_from(&mut response).ok()?;
        let verdict = self.parse_reply(&response[..len])?;
        if let Reply::Final(outcome) = verdict {
            self.answers.push((from.ip(), outcome));
        }
        Some(verdict)
    }

    fn parse_reply(&self, response: &[u8]) -> Option<Reply> {
        let message = Message::parse(response).ok()?;
        if response[..2] != self.message[..2] || !message.header().qr {
            return None;
        }
        let rcode = message.rcode();
        let Ok(verified) = self.shared.key.verify(self.message, response, now_s()) else {
            // Without a MAC, only a refusal of the signature is believed. It decides nothing by itself.
            return Some(if rcode == Rcode::NOTAUTH { Reply::Refusal } else { Reply::Failure });
        };
        Some(match rcode {
            _ if verified.error != Rcode::NOERROR => Reply::Refusal,
            Rcode::NOERROR => Reply::Final(Outcome::Ok),
            Rcode::YXDOMAIN | Rcode::YXRRSET | Rcode::NXDOMAIN | Rcode::NXRRSET => Reply::Final(Outcome::Failed),
            Rcode::SERVFAIL => Reply::NotExecuted,
            _ => Reply::Refusal,
        })
    }
}

#[derive(Clone, Copy)]
enum Reply {
    Final(Outcome),
    /// The node refused the message.
    Refusal,
    /// SERVFAIL with a MAC: this copy of the message was not executed.
    NotExecuted,
    /// A response without a MAC, which proves nothing.
    Failure,
}
