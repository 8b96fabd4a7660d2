//! Checks an UPDATE before the leader does. Refuses it if the result is certain, and queries daemons if rules need it.

use super::{Flow, Submit, UpdateThread, refusals};
use crate::answer::cookies::CookieStatus;
use crate::answer::counters::{Refusal, Refused};
use crate::answer::response::ResponseHead;
use crate::limits::UPDATES_PENDING_MAX;
use crate::listen::Reply;
use crate::published::rights::Rights;
use crate::update::external::{ExternalRequest, RequestorFields};
use crate::update::outcome::{AuditFields, PendingUpdate};
use crate::update_queue::ExternalAnswers;
use policy::{DaemonAnswers, Question, Requestor};
use replica::io::{Serving, UpdateRequest};
use replica::update::prescan;
use std::time::Instant;
use tsig::{Signer, Verified};
use wire::number::{Class, Rcode};
use wire::parse::Request;
use zone::answer::Head;
use zone::record::ZoneId;
use zone::set::Zone;

/// Why this node refuses a signed update before the leader sees it.
enum LocalRefusal {
    /// Because of zones and rights, which may change.
    Rights(Refused),
    /// Because of its bytes alone.
    Form(Refused),
}

impl<S: Submit + 'static> UpdateThread<S> {
    /// The questions that daemons must answer about an update, and the fields of its requestor.
    pub(super) fn questions(
        &mut self,
        request: &Request<'_>,
        verified: &Verified,
        rights: &Rights,
        reply: &Reply,
        answers: &ExternalAnswers,
    ) -> Option<(Vec<Question>, RequestorFields)> {
        if !rights.asks_daemons() || answers.is_over() {
            return None;
        }
        let requestor = requestor(verified, reply);
        // An update that is refused anyway needs no daemon.
        let id = self.admit_update(request, Some((verified, requestor)), rights).ok()?;
        let parsed = prescan(request).ok()?;
        let set = self.zones.pin();
        let zone = set.zone(&id)?;
        let evaluator = rights.rules(&verified.key_name, &id).evaluator(requestor).with_external(&answers.external);
        let questions: Vec<Question> = evaluator.questions(&parsed.steps, &zone).into_iter().collect();
        let algorithm = rights.status(&verified.key_name.as_ref().to_canonical()).map(|status| status.algorithm);
        (!questions.is_empty()).then(|| (questions, RequestorFields::new(requestor, algorithm)))
    }

    /// Queues a request to daemons. If the queue is full, the client gets an error.
    pub(super) fn query_daemons(&mut self, request: Box<ExternalRequest>) {
        if let Err(request) = self.external.submit(request) {
            self.message(request.message, ExternalAnswers { was_queue_full: true, ..request.answers });
        }
    }

    /// The checks that need no leader: rows 16, 20 and 21 of the order of answers, and whether the key has any grant.
    pub(super) fn admit_update(
        &mut self,
        request: &Request<'_>,
        key: Option<(&Verified, Requestor<'_>)>,
        rights: &Rights,
    ) -> Result<ZoneId, Refused> {
        if self.serving.now().serving == Serving::No {
            // A node that has not caught up may not know all zones.
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
        if !rights.rules(&key.key_name, &id).evaluator(requestor).may_grant() {
            return Err(Refused { rcode: Rcode::REFUSED, reason: Refusal::NotGranted });
        }
        Ok(id)
    }

    /// Refuses what the leader would certainly refuse too. The leader decides the rest.
    fn check_locally(
        &mut self,
        bytes: usize,
        request: &Request<'_>,
        verified: &Verified,
        rights: &Rights,
        reply: &Reply,
        external: &DaemonAnswers,
    ) -> Result<(), LocalRefusal> {
        let requestor = requestor(verified, reply);
        let zone = self.admit_update(request, Some((verified, requestor)), rights).map_err(LocalRefusal::Rights)?;
        let of_form = |rcode| LocalRefusal::Form(Refused { rcode, reason: Refusal::Prescan });
        let parsed = prescan(request).map_err(of_form)?;
        let evaluator = rights.rules(&verified.key_name, &zone).evaluator(requestor).with_external(external);
        if evaluator.permit::<Zone<'_>>(&parsed.steps, bytes, None).is_err() {
            return Err(LocalRefusal::Rights(Refused { rcode: Rcode::REFUSED, reason: Refusal::NotGranted }));
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
        external: DaemonAnswers,
    ) {
        let zone = request.question.as_ref().filter(|zone| zone.qclass == Class::IN);
        let zone = zone.map(|zone| ZoneId { view: 0, apex: zone.qname.to_canonical() });
        let (local_refusal, of_form) =
            match self.check_locally(bytes.len(), request, &verified, rights, &reply, &external) {
                // The class is not IN, so no zone of this server can match.
                Err(LocalRefusal::Rights(refused)) if zone.is_none() => (None, Some(refused)),
                Err(LocalRefusal::Rights(refused)) => (Some(refused), None),
                Err(LocalRefusal::Form(refused)) => (None, Some(refused)),
                Ok(()) => (None, None),
            };
        // Errors that depend on the bytes alone never change, so they are sent at once.
        if let Some(refused) = of_form {
            return self.refuse(request, &refused, Some(&signer), reply);
        }
        let flow = Flow { key: verified.key_name.clone(), zone: zone.clone().filter(|_| local_refusal.is_none()) };
        let request_id = self.pending.next_id(self.threads, self.index);
        let update = UpdateRequest {
            request_id,
            source: reply.peer(),
            transport: reply.transport().of_replica(),
            message: bytes.to_vec(),
            verified,
            // A repeat of an executed update gets its first result, even if this node would refuse it now.
            refused_for: zone.filter(|_| local_refusal.is_some()),
            external,
        };
        let names = local_refusal.map(|_| refusals::names_of(request)).unwrap_or_default();
        let permit = match self.pending.len() < UPDATES_PENDING_MAX {
            true => self.submit.submit(update, &flow),
            false => Err(Refusal::QueueFull),
        };
        match permit {
            Ok(permit) => {
                let (status, cookie) = self.cookie_status(request.edns.as_ref(), &reply);
                let is_proven = status == CookieStatus::Proven;
                let head = ResponseHead::new(&Head::from(request), reply.transport(), cookie);
                let audit = AuditFields { key: flow.key, names };
                let pending = PendingUpdate { head, signer, reply, is_proven, local_refusal, permit, audit };
                self.pending.put(request_id, pending, received_at);
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
