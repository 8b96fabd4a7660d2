//! An UPDATE on its way to the leader: what is certain is refused here, and daemons are asked where rules want it.

use super::{Flow, Refused, Submit, UpdateThread, refusals};
use crate::limits::UPDATES_PENDING_MAX;
use crate::listen::Reply;
use crate::node::rights::Rights;
use crate::service::cookies::Standing;
use crate::service::counters::Refusal;
use crate::service::external::{Ask, Asked, Who};
use crate::service::outcome::{Pending, Tried};
use crate::service::response::ResponseHead;
use policy::{External, Question, Requestor};
use replica::io::{Serving, UpdateRequest};
use replica::update::prescan;
use std::time::Instant;
use tsig::{Signer, Verified};
use wire::number::{Class, Rcode};
use wire::parse::Request;
use zone::answer::Head;
use zone::record::ZoneId;
use zone::set::Zone;

/// Why an update that is signed is refused before the leader sees it.
enum Early {
    /// By what this node holds: zones and rights change.
    Rights(Refused),
    /// By its bytes alone.
    Form(Refused),
}

impl<S: Submit + 'static> UpdateThread<S> {
    /// What daemons have to be asked about an update before anything can be said of it, and in whose name.
    pub(super) fn questions(
        &mut self,
        request: &Request<'_>,
        verified: &Verified,
        rights: &Rights,
        reply: &Reply,
        asked: &Asked,
    ) -> Option<(Vec<Question>, Who)> {
        if !rights.asks_daemons() || asked.is_over() {
            return None;
        }
        let requestor = requestor(verified, reply);
        // What is refused anyway is refused.
        let id = self.admit_update(request, Some((verified, requestor)), rights).ok()?;
        let parsed = prescan(request).ok()?;
        let set = self.zones.pin();
        let zone = set.zone(&id)?;
        let judge = rights.rules(&verified.key_name, &id).judge(requestor).with_external(&asked.external);
        let questions: Vec<Question> = judge.questions(&parsed.steps, &zone).into_iter().collect();
        let algorithm = rights.status(&verified.key_name.as_ref().to_canonical()).map(|status| status.algorithm);
        (!questions.is_empty()).then(|| (questions, Who::new(requestor, algorithm)))
    }

    /// Has daemons asked; without room for that the client hears so.
    pub(super) fn ask(&mut self, ask: Box<Ask>) {
        if let Err(ask) = self.asker.ask(ask) {
            self.message(ask.message, Asked { had_no_turn: true, ..ask.asked });
        }
    }

    /// Rows 16, 20 and 21 of the order of answers, and whether there is any grant: what can be said without the leader.
    pub(super) fn admit_update(
        &mut self,
        request: &Request<'_>,
        key: Option<(&Verified, Requestor<'_>)>,
        rights: &Rights,
    ) -> Result<ZoneId, Refused> {
        if self.serving.now().serving == Serving::No {
            // A node that has not caught up does not know which zones there are.
            return Err(Refused { rcode: Rcode::SERVFAIL, reason: Refusal::NotServing });
        }
        let unknown = Refused { rcode: Rcode::NOTAUTH, reason: Refusal::ZoneUnknown };
        let Some(question) = request.question.as_ref().filter(|zone| zone.qclass == Class::IN) else {
            return Err(unknown);
        };
        let id = ZoneId { view: 0, apex: question.qname.to_canonical() };
        let set = self.zones.pin();
        // RFC 2136 3.1.1: NOTAUTH when the server "is not authoritative for the zone".
        let Some(zone) = set.zone(&id) else { return Err(unknown) };
        let Some((key, requestor)) = key else {
            return Err(Refused { rcode: Rcode::REFUSED, reason: Refusal::Unsigned });
        };
        if zone.is_presigned() {
            return Err(Refused { rcode: Rcode::REFUSED, reason: Refusal::Presigned });
        }
        if !rights.rules(&key.key_name, &id).judge(requestor).may_grant() {
            return Err(Refused { rcode: Rcode::REFUSED, reason: Refusal::NotGranted });
        }
        Ok(id)
    }

    /// What the leader would refuse too, as far as that is certain here; its word counts for the rest.
    fn refused_early(
        &mut self,
        bytes: usize,
        request: &Request<'_>,
        verified: &Verified,
        rights: &Rights,
        reply: &Reply,
        external: &External,
    ) -> Result<(), Early> {
        let requestor = requestor(verified, reply);
        let zone = self.admit_update(request, Some((verified, requestor)), rights).map_err(Early::Rights)?;
        let of_form = |rcode| Early::Form(Refused { rcode, reason: Refusal::Prescan });
        let parsed = prescan(request).map_err(of_form)?;
        let judge = rights.rules(&verified.key_name, &zone).judge(requestor).with_external(external);
        if judge.permit::<Zone<'_>>(&parsed.steps, bytes, None).is_err() {
            return Err(Early::Rights(Refused { rcode: Rcode::REFUSED, reason: Refusal::NotGranted }));
        }
        parsed.verdict_without_zone().map_or(Ok(()), |rcode| Err(of_form(rcode)))
    }

    #[expect(clippy::too_many_arguments, reason = "all that is known of one request")]
    pub(super) fn update(
        &mut self,
        bytes: &[u8],
        request: &Request<'_>,
        verified: Verified,
        signer: Signer,
        rights: &Rights,
        reply: Reply,
        received_at: Instant,
        external: External,
    ) {
        let zone = request.question.as_ref().filter(|zone| zone.qclass == Class::IN);
        let zone = zone.map(|zone| ZoneId { view: 0, apex: zone.qname.to_canonical() });
        let (early, of_form) = match self.refused_early(bytes.len(), request, &verified, rights, &reply, &external) {
            // Not of a zone of ours whatever happens.
            Err(Early::Rights(refused)) if zone.is_none() => (None, Some(refused)),
            Err(Early::Rights(refused)) => (Some(refused), None),
            Err(Early::Form(refused)) => (None, Some(refused)),
            Ok(()) => (None, None),
        };
        // What the bytes alone say is said at once, the same each time: FORMERR, and a class that is not ours.
        if let Some(refused) = of_form {
            return self.refuse(request, &refused, Some(&signer), reply);
        }
        let flow = Flow { key: verified.key_name.clone(), zone: zone.clone().filter(|_| early.is_none()) };
        let request_id = self.waiting.next_id(self.threads, self.index);
        let update = UpdateRequest {
            request_id,
            source: reply.peer(),
            transport: reply.transport().of_replica(),
            message: bytes.to_vec(),
            verified,
            // A repeat of what was executed is told so, whatever this node would say of it now.
            refused_for: zone.filter(|_| early.is_some()),
            external,
        };
        let names = early.map(|_| refusals::names_of(request)).unwrap_or_default();
        let place = match self.waiting.len() < UPDATES_PENDING_MAX {
            true => self.submit.submit(update, &flow),
            false => Err(Refusal::QueueFull),
        };
        match place {
            Ok(place) => {
                let (standing, cookie) = self.standing_of(request.edns.as_ref(), &reply);
                let is_proven = standing == Standing::Proven;
                let head = ResponseHead::new(&Head::from(request), reply.transport(), cookie);
                let tried = Tried { key: flow.key, names };
                let pending = Pending { head, signer, reply, is_proven, early, place, tried };
                self.waiting.put(request_id, pending, received_at);
            }
            Err(reason) => {
                let refused = Refused { rcode: Rcode::SERVFAIL, reason };
                self.refuse(request, &refused, Some(&signer), reply);
            }
        }
    }
}

fn requestor<'a>(verified: &'a Verified, reply: &Reply) -> Requestor<'a> {
    let is_connected = reply.transport().of_replica() == replica::io::Transport::Tcp;
    Requestor { key: verified.key_name.as_ref(), source: reply.peer().ip(), is_connected }
}
