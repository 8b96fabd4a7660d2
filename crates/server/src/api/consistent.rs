//! `?consistent=1`: a read that sees all that was acknowledged before it, through whichever node.

use super::Api;
use super::error::ApiError;
use axum::http::StatusCode;
use serde::Deserialize;

/// The part of a query string that asks for it.
#[derive(Deserialize)]
pub(super) struct Consistency {
    consistent: Option<String>,
}

impl Consistency {
    /// Returns at once when it is not asked for; else when this node shows everything, which a leader with a majority
    /// behind it has confirmed after the question came. What the caller then reads is at least as new.
    pub(super) async fn wait(&self, api: &Api) -> Result<(), ApiError> {
        match self.consistent.as_deref() {
            None | Some("0" | "false") => Ok(()),
            Some("1" | "true") => {
                api.handle.read_index().await.ok_or_else(ApiError::ending)??;
                Ok(())
            }
            Some(other) => Err(ApiError::new(
                StatusCode::BAD_REQUEST,
                format!("`{other}` is no value of consistent"),
                "consistent is 0 or 1",
            )),
        }
    }
}
