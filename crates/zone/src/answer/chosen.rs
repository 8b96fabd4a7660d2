//! Answers from a zone that somebody else has chosen: where one process stands for many servers, which zone answers
//! depends on which of them was asked.

use super::chain::Responder;
use super::{AnswerContext, AnswerKind, Answered, admit, refuse_question, respond, start};
use crate::key;
use crate::set::Zone;
use store::Path;
use wire::compose::{Composer, EdnsOut};
use wire::parse::{FirstQuestion, Request};

/// As [`super::answer`], from this zone and no other; as a server without the zone where there is none, or where the
/// name of the question is not in it. Names of class CH are refused.
#[must_use]
pub fn answer_from(
    zone: Option<Zone<'_>>,
    request: &Request<'_>,
    context: &AnswerContext<'_>,
    out: &mut [u8],
) -> Answered {
    respond(request, context, out, |question, composer, edns| {
        answer_question(zone, request, question, context, composer, edns)
    })
}

fn answer_question(
    zone: Option<Zone<'_>>,
    request: &Request<'_>,
    question: &FirstQuestion<'_>,
    context: &AnswerContext<'_>,
    composer: &mut Composer<'_>,
    edns: Option<&mut EdnsOut<'_>>,
) -> (AnswerKind, usize) {
    let zone = zone.filter(|zone| question.qname.is_at_or_below(zone.apex()));
    match refuse_question(question).map_or_else(|| admit(zone, context), Err) {
        Err(refusal) => refusal.write(request, composer, edns),
        Ok(zone) => {
            start(&zone, request, composer, edns);
            let mut qkey = key::of(question.qname);
            let trail = zone.store().trail(zone.names(), &qkey);
            let mut responder = Responder::new(composer, zone, *question, request.dnssec_ok());
            responder.respond(&mut qkey, &trail, &mut Path::new())
        }
    }
}
