//! Clients: each sends updates to any member, one at a time. Without a response it sends the same bytes again to any
//! member, and finally gives up. Some messages are repeated much later, from the same or another address.

use crate::clients::Clients;
use crate::clock::WALL_START_MS;
use crate::event::{Event, ObservedResponse, Request, Response};
use crate::invariants::Checked;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::policies::POLICIES;
use crate::simulation::Simulation;
use crate::updates::{self, Kind};
use policy::DaemonAnswers;
use replica::io::{Input, NodeId, Right, Serving, Transport, UpdateRequest, Verdict};
use tsig::{Authenticated, Verified, authenticate};
use wire::number::Rcode;
use wire::parse::{Parsed, parse_request};
use zone::ZoneId;

/// Number of attempts with the same bytes before a client gives up. A probe never gives up.
const TRIES_MAX: u32 = 6;
/// How long a client waits for a response.
const WAIT_US: (u64, u64) = (400_000, 3_200_000);
/// Share of updates for the model's zone, in parts of a million.
const CHURN_PPM: u64 = 300_000;
/// Delay of a message between a client and a member.
const WAY_US: (u64, u64) = (50, 3_000);
/// Share of messages between clients and members that are lost, in parts of a million.
const LOSS_PPM: u64 = 20_000;
/// Share of late repeats that are about as old as the oldest session in the table of repeats, in parts of a million.
const OLD_PPM: u64 = 400_000;
/// Number of recent updates that are repeated much later.
const RECENT: u64 = 60;
/// Time during which a lease may still look valid to a machine that was suspended.
const SUSPENDED_US: u64 = 10_000_000;

impl Simulation {
    pub(crate) fn client_begins(&mut self, client: usize) {
        let is_probe = self.clients.clients[client].only.is_some();
        if !self.clients.is_on && !is_probe {
            return;
        }
        if self.clients.rng.happens(150_000) {
            self.repeat_something();
        }
        let to = self.choose_member(client);
        let kind = if is_probe { Kind::Nothing } else { self.choose_kind(client, to) };
        let clock_error_s = self.clients.clients[client].clock_error_s;
        let true_s = (WALL_START_MS + self.events.now_us() / 1_000) / 1_000;
        let time_signed = true_s.saturating_add_signed(clock_error_s);
        let (source, secret) = (Clients::source(client), self.administrator.secret());
        let compose = |number, kind: &_| updates::compose(number, kind, time_signed, secret);
        let update = self.oracle.add(kind, source, secret, compose);
        self.clients.clients[client].current = Some((update, 0));
        self.client_sends(client, to);
    }

    fn choose_member(&mut self, client: usize) -> NodeId {
        if let Some(only) = self.clients.clients[client].only {
            return only;
        }
        let listens = |id: &NodeId| self.machines[id].serves();
        let ids = self.ids();
        let up: Vec<_> = ids.iter().copied().filter(listens).collect();
        let rng = &mut self.clients.rng;
        let any = ids[rng.below(ids.len() as u64) as usize];
        if rng.happens(100_000) { any } else { rng.pick(&up).copied().unwrap_or(any) }
    }

    fn choose_kind(&mut self, client: usize, to: NodeId) -> Kind {
        if self.clients.rng.happens(CHURN_PPM)
            && let Some(owner) = self.clients.owner(client)
        {
            return self.oracle.churn(Plan::random(owner, &mut self.clients.rng));
        }
        // A member must not refuse by an old policy.
        if self.has_old_policy(to) && self.clients.rng.below(2) == 0 {
            return Kind::Ruled { policy: self.oracle.policies().newest().max(1) };
        }
        let draw = self.clients.rng.below(100);
        let counter = self.machines[&to].replica.as_ref().and_then(|replica| {
            let published = replica.zones().published();
            updates::counter_value(&published.zone(&updates::main_zone())?)
        });
        match (draw, self.clients.register(client), counter) {
            (0..50, Some((register, _)), _) => Kind::Set { register },
            (50..65, Some((register, from)), _) => Kind::Swap { register, from },
            (65..73, Some((register, _)), _) => Kind::FailedSwap { register },
            (73..86, _, Some(from)) => Kind::Count { from },
            (86..89, ..) => Kind::Ruled { policy: self.oracle.policies().newest().max(1) },
            (89..91, ..) => Kind::Ruled { policy: 1 + self.clients.rng.below(POLICIES - 1) },
            (91..94, ..) => Kind::Outside,
            (94..97, ..) => Kind::Ungranted,
            _ => Kind::Nothing,
        }
    }

    /// Whether this member's policy is not that of the member that has applied most.
    fn has_old_policy(&self, member: NodeId) -> bool {
        let applied = |id: &&NodeId| self.machines[id].replica.as_ref().map_or(0, |replica| replica.state_hash().0);
        let newest = self.machines.keys().max_by_key(applied);
        newest.is_some_and(|newest| self.known_rules(*newest) != self.known_rules(member))
    }

    fn client_sends(&mut self, client: usize, to: NodeId) {
        let Some((update, tries)) = self.clients.clients[client].current else { return };
        let request = Request { update, to, client: Some(client), is_stranger: false };
        self.send_request(request);
        let wait_us = self.clients.rng.between(WAIT_US.0, WAIT_US.1);
        self.events.after(wait_us, Event::Timeout { client, update, tries });
    }

    fn send_request(&mut self, request: Request) {
        let rng = &mut self.clients.rng;
        let (is_lost, in_us) = (rng.happens(LOSS_PPM), rng.between(WAY_US.0, WAY_US.1));
        if !is_lost {
            self.events.after(in_us, Event::Request(request));
        }
    }

    /// Repeats an old message. From its sender's address, it must get the same response. Some repeats come from another
    /// address.
    fn repeat_something(&mut self) {
        let newest = self.oracle.count();
        if newest == 0 {
            return;
        }
        let ids = self.ids();
        let rng = &mut self.clients.rng;
        // If the table of repeats is small, some repeats are about as old as its oldest session.
        let table = self.setup.session_count_max as u64;
        let is_old = self.setup.forgets() && newest > table && rng.happens(OLD_PPM);
        let base = if is_old { newest - table + rng.below(RECENT.min(table)) } else { newest };
        let update = base - rng.below(RECENT.min(base));
        let is_stranger = rng.happens(300_000);
        let to = ids[rng.below(ids.len() as u64) as usize];
        // Members can distinguish the sender from other addresses only after the first response.
        if self.oracle.update(update).first_rcode.is_some() {
            self.send_request(Request { update, to, client: None, is_stranger });
        }
    }

    /// Acts as the shell of a member: verifies a message and passes it on.
    pub(crate) fn request_arrives(&mut self, request: Request) -> Checked {
        let Request { update, to, .. } = request;
        let now_us = self.events.now_us();
        let machine = &self.machines[&to];
        if !machine.serves() || machine.keys.is_empty() {
            return Ok(());
        }
        let sent = self.oracle.update(update);
        let Parsed::Request(parsed) = parse_request(&sent.bytes) else {
            return Err(self.violation("members_stay_sound", format!("update {update} is not a request")));
        };
        let verified = match authenticate(&parsed, &machine.keys, machine.now(now_us).wall_ms / 1_000) {
            Authenticated::Verified { verified, .. } => verified,
            Authenticated::Unsigned | Authenticated::Rejected { .. } => {
                self.respond(request, ObservedResponse::NotDone);
                return Ok(());
            }
        };
        let mut source = sent.source;
        if request.is_stranger {
            source.set_ip([198, 51, 100, 7].into());
        }
        let message = sent.bytes.clone();
        self.oracle.update_mut(update).attempts += 1;
        self.requests += 1;
        let request_id = self.requests;
        let was_answered = self.oracle.update(update).first_rcode.is_some();
        self.clients.requests.insert(request_id, (request, was_answered));
        self.trace.note(now_us, to, "update", &[update, request_id, u64::from(request.is_stranger)], &[]);
        let (transport, refused_for) = (Transport::Udp, self.refused_for(to, update, &verified));
        let external = DaemonAnswers::default();
        let request = UpdateRequest { request_id, source, transport, message, verified, refused_for, external };
        self.deliver(to, Input::Update(request));
        Ok(())
    }

    /// The zone of an update that the member's shell would refuse, by the state that the member shows.
    fn refused_for(&self, to: NodeId, update: u64, verified: &Verified) -> Option<ZoneId> {
        let replica = self.machines[&to].replica.as_ref()?;
        let zone = self.oracle.update(update).kind.zone();
        let is_open = replica.serving() != Serving::No && replica.zones().published().zone(&zone).is_some();
        // Every second update is passed on as if the shell knew rules that grant it. The leader decides.
        let is_ruled = matches!(self.oracle.update(update).kind, Kind::Ruled { .. }) && update.is_multiple_of(2);
        let is_granted = is_ruled || replica.is_granted(&verified.key_name, &zone, Right::Update);
        (!is_open || !is_granted).then_some(zone)
    }

    /// Handles a member's verdict on an update.
    pub(crate) fn update_done(&mut self, id: NodeId, request_id: u64, verdict: Verdict) -> Checked {
        let invariant = "acknowledged_updates_survive";
        let Some((request, was_answered)) = self.clients.requests.remove(&request_id) else {
            return Err(self.violation(invariant, format!("{id} answers request {request_id} twice, or unasked")));
        };
        let number = request.update;
        self.trace.say(self.events.now_us(), || format!("{id} says {verdict:?} to update {number}"));
        let response = match verdict.plain() {
            Verdict::Answer(rcode) if request.is_stranger => {
                let what = format!("{id} tells a stranger {rcode:?} about update {number}");
                return Err(self.violation(invariant, what));
            }
            Verdict::Answer(rcode) => {
                self.handle_response(id, number, rcode)?;
                ObservedResponse::Outcome(rcode)
            }
            Verdict::BadTime if request.is_stranger || self.setup.forgets() => ObservedResponse::TooOld,
            Verdict::BadTime => {
                let what = format!("{id} takes the sender of update {number} for another");
                return Err(self.violation(invariant, what));
            }
            Verdict::NotProposed => {
                self.oracle.update_mut(number).undone += 1;
                ObservedResponse::NotDone
            }
            Verdict::Refused => {
                if was_answered && self.machines[&id].serves() {
                    let result = self.oracle.update(number);
                    let what = format!("{id} refuses a repeat of update {number} that was answered before: {result:?}");
                    return Err(self.violation(invariant, what));
                }
                self.oracle.update_mut(number).undone += 1;
                self.count.refused_early += 1;
                let update = self.oracle.update(number);
                if !update.allows_rcode(Rcode::REFUSED) && self.machines[&id].serves() {
                    let what = format!("{id} refuses update {number}: {update:?}");
                    return Err(self.violation("policies_hold_when_answered", what));
                }
                // This verdict does not apply to another copy in progress.
                if matches!(self.oracle.update(number).kind, Kind::Ungranted | Kind::Ruled { .. }) {
                    ObservedResponse::Outcome(Rcode::REFUSED)
                } else {
                    ObservedResponse::NotDone
                }
            }
            // No response, and verdicts that cannot occur without a reason.
            Verdict::Unknown | Verdict::NoMemory | Verdict::Limited(_) => return Ok(()),
        };
        self.respond(request, response);
        Ok(())
    }

    fn handle_response(&mut self, id: NodeId, number: u64, rcode: Rcode) -> Checked {
        let Self { oracle, invariants, machines, administrator, .. } = self;
        let Some(replica) = &machines[&id].replica else { return Ok(()) };
        let update = oracle.update_mut(number);
        let before = update.first_rcode;
        update.first_rcode = before.or(Some(rcode));
        if before.is_none() {
            update.first_rcode_index = replica.state_hash().0;
        }
        let index = replica.state_hash().0;
        let published = replica.zones().published();
        let update = (number, oracle.update(number));
        let was_revoked = administrator.was_revoked() || administrator.may_have_voided(update.1.secret);
        let is_ruled = before.is_none() && matches!(update.1.kind, Kind::Ruled { .. });
        if is_ruled && !update.1.allows_rcode(rcode) {
            let what = format!("{id} says {rcode:?} to update {number}: {:?}", update.1);
            return Err(self.violation("policies_hold_when_answered", what));
        }
        let result = invariants.acknowledged.on_response(id, update, before, rcode, was_revoked, &published);
        result.map_err(|what| self.violation("acknowledged_updates_survive", what))?;
        let all_live = self.oracle.update(number).all_live;
        if all_live.is_some() && all_live == self.oracle.ack().all_live() {
            self.check_all_live(number)?;
        }
        self.count.policy_granted += u64::from(is_ruled && rcode == Rcode::NOERROR);
        self.count.policy_refused += u64::from(is_ruled && rcode == Rcode::REFUSED);
        self.trace.note(self.events.now_us(), id, "told", &[number, u64::from(rcode.0)], &[]);
        if before.is_some() {
            self.count.repeats_answered += 1;
        } else {
            self.count.acknowledged += 1;
        }
        self.boundary_of_response(id);
        if self.invariants.durable.is_due() { self.check_disks(index) } else { Ok(()) }
    }

    /// A client got the response to an update with `ack = all-live`. Checks that all members show the update.
    fn check_all_live(&mut self, number: u64) -> Checked {
        let now_us = self.events.now_us();
        let Self { oracle, invariants, machines, .. } = self;
        // A lease depends on the monotonic clock, so it is not safe on a suspended machine
        // (docs/how-to/when-something-fails.md).
        let is_exempt = |machine: &Machine| machine.clock.stood_since(now_us, SUSPENDED_US);
        let members = machines.values().filter(|machine| !is_exempt(machine)).filter_map(|machine| {
            let replica = machine.replica.as_ref()?;
            Some((machine.id, replica, machine.now(now_us)))
        });
        let looked = invariants.all_live.on_response((number, oracle.update(number)), members);
        looked.map_err(|what| self.violation("all_live_is_visible_everywhere", what))
    }

    fn respond(&mut self, request: Request, response: ObservedResponse) {
        let Some(client) = request.client else { return };
        let rng = &mut self.clients.rng;
        let (is_lost, in_us) = (rng.happens(LOSS_PPM), rng.between(WAY_US.0, WAY_US.1));
        if !is_lost {
            self.events.after(in_us, Event::Response(Response { client, update: request.update, response }));
        }
    }

    pub(crate) fn client_hears(&mut self, response: Response) -> Checked {
        let Response { client, update, response } = response;
        let it = &mut self.clients.clients[client];
        let Some((current, tries)) = it.current.filter(|(current, _)| *current == update) else { return Ok(()) };
        match response {
            ObservedResponse::Outcome(rcode) => {
                if let (Rcode::NOERROR, Kind::Set { register } | Kind::Swap { register, .. }) =
                    (rcode, &self.oracle.update(current).kind)
                {
                    it.register = Some((*register, current));
                }
                it.current = None;
                it.is_done = true;
                if let (Rcode::NOERROR, Kind::Churn { plan, .. }) = (rcode, &self.oracle.update(current).kind) {
                    let plan = plan.clone();
                    self.oracle.churned(&plan);
                }
                self.client_rests(client);
            }
            ObservedResponse::NotDone => self.client_tries_again(client, tries),
            ObservedResponse::TooOld => self.client_gives_up(client),
        }
        Ok(())
    }

    pub(crate) fn client_waited(&mut self, client: usize, update: u64, tries: u32) {
        if self.clients.clients[client].current == Some((update, tries)) {
            self.client_tries_again(client, tries);
        }
    }

    fn client_tries_again(&mut self, client: usize, tries: u32) {
        let it = &mut self.clients.clients[client];
        if tries + 1 >= TRIES_MAX && it.only.is_none() {
            return self.client_gives_up(client);
        }
        if let Some((update, _)) = it.current {
            it.current = Some((update, tries + 1));
        }
        let to = self.choose_member(client);
        self.client_sends(client, to);
    }

    /// The outcome of the update is unknown, so its register is not written again.
    fn client_gives_up(&mut self, client: usize) {
        self.count.unknown += 1;
        self.clients.clients[client].current = None;
        self.clients.clients[client].register = None;
        self.clients.clients[client].owner = None;
        self.client_rests(client);
    }

    /// A probe continues until it gets a response. A message that is too old is signed again.
    fn client_rests(&mut self, client: usize) {
        let it = &self.clients.clients[client];
        if it.only.is_none() || !it.is_done {
            let (low, high) = self.setup.pause_us;
            let in_us = self.clients.rng.between(low, high);
            self.events.after(in_us, Event::Client(client));
        }
    }
}
