//! Refuses requests: sends the error, and records the attempt in the audit log.

use super::{Submit, UpdateThread};
use crate::answer::counters::{Refusal, Refused};
use crate::answer::response::Received;
use crate::audit_log::Attempt;
use crate::audit_log::refused::ClientKind;
use crate::listen::Reply;
use crate::sys::clock::{self, now_s};
use policy::Step;
use replica::io::{AuditNames, Verdict};
use replica::update::prescan;
use tsig::Signer;
use wire::Name;
use wire::name::NameRef;
use wire::number::{Opcode, Rcode};
use wire::parse::Request;
use zone::answer::Bare;

impl<S: Submit + 'static> UpdateThread<S> {
    /// Sends an error that has a reason, and counts it.
    pub(super) fn refuse(&mut self, request: &Request<'_>, refused: &Refused, signer: Option<&Signer>, reply: Reply) {
        self.count(&reply).refuse_for(refused.reason);
        self.note_refused(request, &reply, refused, signer);
        self.error(request.into(), refused.rcode, refused.reason.extended(), signer, reply);
    }

    /// Sends an error, signed if there is a signer.
    pub(super) fn error(
        &mut self,
        received: Received<'_>,
        rcode: Rcode,
        extended: Option<u16>,
        signer: Option<&Signer>,
        reply: Reply,
    ) {
        self.count(&reply).response(rcode);
        let (head, bare) = (self.head(received, &reply), Bare { rcode, extended, ..Bare::default() });
        match head.compose(bare, &self.service, signer, now_s(), &mut self.out) {
            Some(len) => reply.send(self.out[..len].to_vec()),
            None => reply.give_up(),
        }
    }

    /// Records a request refused before its key was verified, unless the node was not ready yet.
    pub(super) fn note_unverified(
        &self,
        request: &Request<'_>,
        reply: &Reply,
        reason: &'static str,
        signer: Option<&Signer>,
    ) {
        if reason != Refusal::NotServing.label() {
            self.note(ClientKind::Unverified, || attempt(request, reply, reason, signer));
        }
    }

    /// Records a request refused because of its content or the rights of its key, but not for lack of room.
    fn note_refused(&self, request: &Request<'_>, reply: &Reply, refused: &Refused, signer: Option<&Signer>) {
        let is_for_key = matches!(
            refused.reason,
            Refusal::ZoneUnknown | Refusal::NotGranted | Refusal::Presigned | Refusal::Prescan
        );
        if is_for_key && signer.is_some() {
            self.note(ClientKind::Verified, || attempt(request, reply, refused.reason.label(), signer));
        }
    }

    /// Records an update that the leader refused, or that this node refused and no leader had executed before.
    pub(super) fn note_outcome(&self, request_id: u64, verdict: &Verdict) {
        let Some(pending) = self.pending.pending(request_id) else { return };
        let reason = match (verdict, &pending.local_refusal) {
            (Verdict::Refused, Some(refused)) => refused.reason.label(),
            (Verdict::Refused, None) => Refusal::NotGranted.label(),
            (Verdict::Answer(Rcode::REFUSED), _) => "rule_or_limit",
            _ => return,
        };
        self.note(ClientKind::Verified, || Attempt {
            time_ms: clock::now().wall_ms,
            reason,
            what: "update",
            key: Some(pending.audit.key.clone()),
            source: pending.reply.peer().ip(),
            zone: pending.head.question().and_then(zone_in),
            names: pending.audit.names.clone(),
        });
    }

    fn note(&self, kind: ClientKind, attempt: impl FnOnce() -> Attempt) {
        if let Some(refusals) = self.submit.refusals() {
            refusals.note(kind, attempt);
        }
    }
}

/// The names in an UPDATE; none if it is malformed.
pub(super) fn names_of(request: &Request<'_>) -> AuditNames {
    let Ok(parsed) = prescan(request) else { return AuditNames::default() };
    let records = parsed.steps.iter().map(|step| match step {
        Step::Add { owner, rtype, .. } | Step::DeleteRrset(owner, rtype) | Step::DeleteRecord(owner, rtype, _) => {
            (owner.as_ref(), *rtype)
        }
        Step::DeleteName(owner) => (owner.as_ref(), wire::Rtype::ANY),
    });
    AuditNames::of(records)
}

fn attempt(request: &Request<'_>, reply: &Reply, reason: &'static str, signer: Option<&Signer>) -> Attempt {
    let is_update = request.header.opcode == Opcode::UPDATE;
    Attempt {
        time_ms: clock::now().wall_ms,
        reason,
        what: if is_update { "update" } else { "transfer" },
        key: signer.map(|signer| signer.key_name().to_canonical()),
        source: reply.peer().ip(),
        zone: request.question.as_ref().map(|question| question.qname.to_canonical()),
        names: if is_update { names_of(request) } else { AuditNames::default() },
    }
}

/// The name at the start of a question. The question of an update has been checked.
fn zone_in(question: &[u8]) -> Option<Name> {
    NameRef::split_from(question).ok().map(|(name, _)| name.to_canonical())
}
