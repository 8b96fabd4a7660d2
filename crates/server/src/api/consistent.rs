//! `?consistent=1`: a read that includes every change acknowledged before it, by any node.

use super::error::ApiError;
use super::parse::parse_flag;
use super::state::Api;
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
        if parse_flag("consistent", self.consistent.as_deref())? {
            api.handle.read_index().await.ok_or_else(ApiError::ending)??;
        }
        Ok(())
    }
}
