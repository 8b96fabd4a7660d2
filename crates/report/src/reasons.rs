//! Reasons why a run is invalid that its totals show.

use crate::Rules;
use measure::Second;
use std::time::Duration;

/// The send lag is too long.
#[must_use]
pub fn lag(total: &Second, rules: &Rules) -> Option<String> {
    let lag = Duration::from_nanos(total.send_lag.value_at_quantile(0.99));
    (lag > rules.lag_p99_max).then(|| {
        let (lag, limit) = (crate::duration(lag), crate::duration(rules.lag_p99_max));
        format!(
            "p99 of the send lag is {lag}; the limit is {limit} (--lag-limit). Service time, losses and RCODEs \
             still hold"
        )
    })
}

/// The network stack of this machine refused queries.
#[must_use]
pub fn refused(total: &Second) -> Option<String> {
    let count = total.send_errors;
    (count > 0).then(|| {
        format!(
            "{count} queries were refused by this machine's network stack and not sent. Latency and losses hold for \
             the queries that were sent; lower the rate"
        )
    })
}

/// No answer arrived.
#[must_use]
pub fn no_answers(total: &Second) -> Option<String> {
    let is_silent = total.sent > 0 && total.arrived == 0;
    is_silent.then(|| match total.other_address {
        0 => "no answers: check the address of the server".to_owned(),
        count => format!("no answers from the queried address; {count} from other addresses"),
    })
}
