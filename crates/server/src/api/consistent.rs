//! `?consistent=1`: a read that includes every change acknowledged before it, by any node.

use super::Api;
use super::error::ApiError;
use axum::http::StatusCode;
use serde::Deserialize;

/// The query parameter.
#[derive(Deserialize)]
pub(super) struct Consistency {
    consistent: Option<String>,
}

impl Consistency {
    /// Returns at once without the parameter. Otherwise returns when this node has every earlier change, confirmed by a
    /// leader with a majority after the request.
    pub(super) async fn wait(&self, api: &Api) -> Result<(), ApiError> {
        match self.consistent.as_deref() {
            None | Some("0" | "false") => Ok(()),
            Some("1" | "true") => {
                api.handle.read_index().await.ok_or_else(ApiError::ending)??;
                Ok(())
            }
            Some(other) => Err(ApiError::new(
                StatusCode::BAD_REQUEST,
                format!("`{other}` is not a value of consistent"),
                "consistent is 0 or 1",
            )),
        }
    }
}
