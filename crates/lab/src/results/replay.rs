//! How closely a replay followed its trace.

use load::engine::{Outcome, Plan, SecondReading};
use load::replay::{LatePolicy, Replay, Survey};
use measure::{Pacing, Quantiles};
use report::{ReplayFigures, ReplaySettings, Shares};
use std::path::Path;

/// The results of a replay. `None` for other runs.
pub(super) fn figures(plan: &Plan, outcome: &Outcome) -> Option<ReplayFigures> {
    let replay = plan.pace.traffic::<Replay>()?;
    let mut pacing = Pacing::default();
    outcome.workers.iter().filter_map(|worker| worker.pacing.as_deref()).for_each(|own| pacing.merge(own));
    let is_timed = !replay.mode().is_fast;
    Some(ReplayFigures {
        send_error_us: is_timed.then(|| Quantiles::of(&outcome.total.send_lag)),
        interval_error_us: is_timed.then(|| Quantiles::of(&pacing.interval_error)),
        rate_error: is_timed.then(|| rate_error(replay, &pacing)).flatten(),
        second_rate_error: is_timed.then(|| second_rate_error(replay, outcome)),
        replay: replay_settings(replay, &outcome.second_reading, &pacing),
    })
}

/// Adds the properties of the whole trace to the results of processes that replayed parts of it.
pub fn describe_whole_trace(figures: &mut ReplaySettings, trace: &Path, speed: f64, survey: &Survey) {
    figures.trace = trace.display().to_string();
    figures.speed = speed;
    figures.trace_seconds = survey.duration().as_secs_f64();
    (figures.responses, figures.too_long, figures.lost) = (survey.responses, survey.too_long, survey.lost);
    (figures.sorted, figures.backwards, figures.jumps) = (survey.is_sorted, survey.backwards, survey.jumps);
    figures.damaged.clone_from(&survey.damaged);
}

fn replay_settings(replay: &Replay, again: &SecondReading, pacing: &Pacing) -> ReplaySettings {
    let (survey, mode, us) = (replay.survey(), replay.mode(), 1e6);
    ReplaySettings {
        trace: replay.trace().display().to_string(),
        queries: survey.queries,
        sources: survey.source_count() as u64,
        clients: survey.client_count() as u64,
        trace_seconds: survey.duration().as_secs_f64(),
        source_mode: replay.sources().to_string(),
        sources_share_addresses: replay.has_shared_addresses(),
        timing: if mode.is_fast { "fast" } else { "trace" }.to_owned(),
        speed: replay.selection().speed,
        wait_for_answer: mode.is_dependent,
        late: if mode.late == LatePolicy::Slip { "slip" } else { "stop" }.to_owned(),
        late_limit_us: match mode.late {
            LatePolicy::Slip => None,
            LatePolicy::Stop(limit) => Some(limit.as_secs_f64() * us),
        },
        stopped: pacing.stopped.map(|(planned, late)| [planned.as_secs_f64(), late.as_secs_f64() * us]),
        responses: survey.responses,
        too_long: survey.too_long,
        sorted: survey.is_sorted,
        backwards: survey.backwards,
        jumps: survey.jumps,
        lost: survey.lost,
        damaged: survey.damaged.clone(),
        queries_again: again.queries.filter(|&queries| queries != survey.queries),
        newcomers: again.newcomers,
        dry: pacing.dry,
        crowded: pacing.crowded,
    }
}

/// Deviation of the rate between the first and the last query. `None` with fewer than two queries.
fn rate_error(replay: &Replay, pacing: &Pacing) -> Option<f64> {
    let survey = replay.survey();
    let (first_ns, last_ns) = pacing.span_ns?;
    let rate = |queries: u64, span_ns: u64| (queries > 1 && span_ns > 0).then(|| (queries - 1) as f64 / span_ns as f64);
    let (planned, seen) =
        (rate(survey.queries, survey.last_ns - survey.first_ns)?, rate(pacing.sent, last_ns - first_ns)?);
    Some((seen / planned - 1.0).abs())
}

/// Deviation of the rate in each second with planned queries.
fn second_rate_error(replay: &Replay, outcome: &Outcome) -> Shares {
    let sent = |second: usize| {
        let rows = outcome.transports.values().filter_map(|account| account.seconds.get(second));
        rows.map(|row| row.sent).sum::<u64>() as f64
    };
    let planned = replay.survey().by_second.iter().enumerate().filter(|&(_, &planned)| planned > 0);
    Shares::of(planned.map(|(second, &planned)| (sent(second) / f64::from(planned) - 1.0).abs()).collect())
}
