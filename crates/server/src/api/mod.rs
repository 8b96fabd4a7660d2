//! The HTTP API. Health, status and metrics are open to all local users. Everything else needs the token.
//!
//! | method and path | does | token |
//! |---|---|---|
//! | `GET /healthz` | 200 when the node answers, else 503; `?max_staleness_ms=N`, `?audit=true` | from elsewhere |
//! | `GET /metrics` | Prometheus text | from elsewhere |
//! | `GET /v1/status`, `GET /v1/zones` | status of the node, its zones; `?consistent=1` | from elsewhere |
//! | `GET /v1/zones/NAME?at=SERIAL` | waits until the node serves it; `&wait_ms=N`, `&everywhere=1` | from elsewhere |
//! | `GET /v1/zone?zone=NAME` | the zone as a zone file; `&consistent=1` | always |
//! | `POST /v1/zone?zone=NAME` | adds the zone in the body | always |
//! | `PUT /v1/zone?zone=NAME&base=HASH` | replaces the zone if its hash is still HASH | always |
//! | `PATCH /v1/zone?zone=NAME&stale=expire` | sets options of the zone; `POST` accepts them too | always |
//! | `DELETE /v1/zone?zone=NAME` | removes it | always |
//! | `GET`, `POST`, `DELETE /v1/keys` | TSIG keys and their grants | always |
//! | `PUT /v1/keys`, `PATCH /v1/keys?name=NAME` | adds a second secret to a key; removes the older of two | always |
//! | `POST`, `DELETE /v1/grants?name=NAME&right=RIGHT` | grants, revokes; `&zone=NAME`, else all | always |
//! | `GET /v1/keys/secret?name=NAME` | its secrets, after the request is in the audit log | always |
//! | `GET`, `PUT /v1/policy?zone=NAME` | the rules of a zone, without `zone` those for all | always |
//! | `GET /v1/policy/check?key=K&name=N&type=T` | the decision and its rule; `&source=ADDRESS&tcp=1` | always |
//! | `GET /v1/policy/keys` | the keys that rules grant something | always |
//! | `GET /v1/audit?lines=N` | the last lines of this node's audit log | always |
//! | `DELETE /v1/nodes?node=N` | removes a node from the cluster | always |
//! | `PATCH /v1/nodes?node=N&votes=BOOL` | gives a node a vote, or makes it a learner | always |
//! | `PUT /v1/nodes?node=N&by=M` | removes node N and gives its vote to learner M, in one step | always |
//! | `PUT /v1/nodes/address?node=N&address=A` | sets the address of a node; `&force=true` | always |
//! | `POST /v1/leader`, `?node=N` | transfers the leadership, to node N | always |
//! | `POST /v1/feature-level` | raises it to the highest level of this node's software, if all nodes know it | always |
//! | `GET /v1/backup` | a backup in one file, for `catamaran cluster restore` | always |
//! | `GET`, `DELETE /v1/tokens?id=ID` | lists unused join tokens; revokes one | always |
//! | `POST /v1/tokens`, `?learner=true` | makes a join token for one node, as a voter or as a learner | always |
//! | `POST /v1/certificates` | gives every node a new certificate for connections between nodes | always |
//! | `POST /v1/data-key` | replaces the data key, once every node has the new one | always |
//! | `POST /v1/ca`, `?begin=true` | the next step of replacing the CA, or the first one | always |
//!
//! With `consistent=1`, a response includes every change that any node acknowledged before the request. The node waits
//! until it has them. Without a majority, it responds with 503 after 2.5 s.
//!
//! Over the node's Unix socket, the user of the node and root need no token. Over TCP, the host of a request without
//! the token must be `localhost`, an address that the node listens on, or a name in `api.hosts`.
//!
//! Errors are JSON: `{"error": what failed, "hint": what to do}`.

mod at_serial;
mod audit;
pub(crate) mod backup;
pub(crate) mod backups;
mod connections;
mod consistent;
pub(crate) mod error;
mod guard;
pub(crate) mod host_names;
mod hosts;
pub(crate) mod join_offer;
mod keys;
mod listener;
pub(crate) mod metrics;
mod nodes;
mod page;
mod parse;
mod policy;
pub(crate) mod state;
mod status;
mod tokens;
mod trust;
mod zones;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use config::limits::{API_BODY_BYTES_MAX, API_POLICY_BYTES_MAX, API_ZONE_BYTES_MAX};
use process::log::abort_on_panic;
use state::Api;
use std::sync::Arc;
use tokio::net::{TcpListener, UnixListener};

/// All routes.
pub(crate) fn router(api: Arc<Api>) -> Router {
    let open = Router::new()
        .route("/healthz", get(status::health))
        .route("/metrics", get(page::metrics))
        .route("/v1/status", get(status::status))
        .route("/v1/zones", get(zones::list))
        .route("/v1/zones/{zone}", get(at_serial::show))
        .route_layer(from_fn_with_state(api.clone(), guard::local_or_token));
    let zone = get(zones::export).post(zones::add).put(zones::replace).patch(zones::set_options).delete(zones::remove);
    let zone = Router::new().route("/v1/zone", zone.layer(DefaultBodyLimit::max(API_ZONE_BYTES_MAX)));
    let policy = get(policy::show).put(policy::set).layer(DefaultBodyLimit::max(API_POLICY_BYTES_MAX));
    let policy = Router::new()
        .route("/v1/policy", policy)
        .route("/v1/policy/check", get(policy::check))
        .route("/v1/policy/keys", get(policy::keys));
    let guarded = Router::new()
        .route("/v1/keys", get(keys::list).post(keys::add).put(keys::roll).patch(keys::retire).delete(keys::remove))
        .route("/v1/keys/secret", get(keys::show_secret))
        .route("/v1/grants", axum::routing::post(keys::grant).delete(keys::revoke))
        .route("/v1/audit", get(audit::last))
        .route("/v1/nodes", axum::routing::delete(nodes::remove).patch(nodes::set_vote).put(nodes::replace))
        .route("/v1/nodes/address", axum::routing::put(nodes::move_to))
        .route("/v1/leader", axum::routing::post(nodes::transfer_leader))
        .route("/v1/feature-level", axum::routing::post(nodes::raise_feature_level))
        .route("/v1/backup", get(backup::backup))
        .route("/v1/tokens", get(tokens::list).post(tokens::make).delete(tokens::revoke))
        .route("/v1/certificates", axum::routing::post(trust::renew))
        .route("/v1/ca", axum::routing::post(trust::step))
        .route("/v1/data-key", axum::routing::post(trust::begin_data_key))
        .layer(DefaultBodyLimit::max(API_BODY_BYTES_MAX))
        .merge(zone)
        .merge(policy)
        .route_layer(from_fn_with_state(api.clone(), guard::token));
    let all = open.merge(guarded).fallback(error::no_such_path).method_not_allowed_fallback(error::no_such_method);
    all.layer(from_fn_with_state(api.clone(), hosts::check)).with_state(api)
}

/// Serves until the runtime ends.
pub(crate) async fn serve(tcp: TcpListener, socket: Option<UnixListener>, api: Arc<Api>) {
    let router = router(api);
    if let Some(socket) = socket {
        tokio::spawn(abort_on_panic("api socket", listener::socket(socket, router.clone())));
    }
    listener::tcp(tcp, router).await;
}

/// Responds to every request with `repairing`, until the future is dropped.
pub(crate) async fn serve_repairing(tcp: TcpListener) {
    const REPAIRING: &str = "{\"healthy\":false,\"serving\":\"repairing\"}\n";
    let answer = || async { (axum::http::StatusCode::SERVICE_UNAVAILABLE, REPAIRING) };
    listener::tcp(tcp, Router::new().fallback(answer)).await;
}

#[cfg(test)]
mod tests;
