//! `GET /v1/backup`: the node's state as one file.

use super::error::ApiError;
use super::state::Api;
use crate::limits::{BACKUP_CHUNK_BYTES, BACKUP_CHUNKS_MAX};
use crate::sys::priority::give_way_to_all;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use config::api_types::BACKUP_INDEX;
use futures_core::Stream;
use replica::io::{AdminCommand, AdminReply};
use std::fs::File;
use std::io::{self, Read};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// Attempts to open a checkpoint, which a newer one may replace.
const TRIES_MAX: usize = 3;

/// A backup with everything that was acknowledged before the request.
pub(super) async fn backup(State(api): State<Arc<Api>>) -> Result<Response, ApiError> {
    let busy = |_| {
        ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "another backup is running",
            "try again later, or use another node",
        )
    };
    let permit = api.backups.permits.clone().try_acquire_owned().map_err(busy)?;
    api.handle.read_index().await.ok_or_else(ApiError::ending)??;
    let (file, index) = api.checkpoint().await?;
    let failed =
        |error: io::Error| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string(), "see the node's log");
    let bytes = file.metadata().map_err(failed)?.len();
    let (sender, receiver) = mpsc::channel(BACKUP_CHUNKS_MAX);
    std::thread::Builder::new()
        .name("backup".to_owned())
        .spawn(move || {
            give_way_to_all();
            read(file, bytes, &sender, permit);
        })
        .map_err(failed)?;
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, bytes.to_string()),
        (header::HeaderName::from_static(BACKUP_INDEX), index.to_string()),
    ];
    Ok((headers, Body::from_stream(Chunks(receiver))).into_response())
}

impl Api {
    /// Writes a checkpoint of the current state, and opens it. It may be deleted while it is open.
    async fn checkpoint(&self) -> Result<(File, u64), ApiError> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for _ in 0..TRIES_MAX {
            let AdminReply::Checkpoint { file, index } = self.handle.admin(AdminCommand::Checkpoint).await? else {
                return Err(ApiError::ending());
            };
            match File::open(self.backups.data.join(file)) {
                Ok(file) => return Ok((file, index)),
                Err(error) => last = error,
            }
        }
        let hint = "check the disk and the permissions; see the node's log";
        Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, format!("cannot read the checkpoint: {last}"), hint))
    }
}

/// Sends the file in chunks, until its end or until the client disconnects. If the file is too short, the body ends
/// early, which the client detects by its length.
fn read(mut file: File, bytes: u64, to: &mpsc::Sender<io::Result<Bytes>>, _permit: OwnedSemaphorePermit) {
    let mut left = bytes;
    while left > 0 {
        let mut chunk = vec![0; BACKUP_CHUNK_BYTES.min(usize::try_from(left).unwrap_or(BACKUP_CHUNK_BYTES))];
        let read = file.read_exact(&mut chunk).map(|()| Bytes::from(chunk));
        let is_over = read.is_err();
        left -= read.as_ref().map_or(0, |chunk| chunk.len() as u64);
        if to.blocking_send(read).is_err() || is_over {
            return;
        }
    }
}

/// The chunks as a stream.
struct Chunks(mpsc::Receiver<io::Result<Bytes>>);

impl Stream for Chunks {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}
