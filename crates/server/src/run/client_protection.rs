//! Protection against spoofed addresses and floods: DNS cookies and the rate limit, for each thread.

use crate::answer::QueryResponder;
use crate::answer::cookies::file::SharedSecrets;
use crate::answer::cookies::{Cookies, SecretSource};
use crate::answer::limiter::shared::{RateLimitWatch, SharedRateLimit};
use crate::listen::Transport;
use crate::tls::client_secrets::ClientSecrets;
use config::Config;
use config::files::token::fill_random;
use process::problem::{Exit, Problem};
use std::sync::Arc;

/// The shared state of the protection.
pub(super) struct ClientProtection {
    pub(super) secrets: SecretSource,
    pub(super) rate_limit: Arc<SharedRateLimit>,
}

impl ClientProtection {
    pub(super) fn new(config: &Config, clients: &Arc<ClientSecrets>) -> Result<Self, Problem> {
        let mut secret = [0; 16];
        fill_random(&mut secret).map_err(|error| Problem::new(Exit::Failed, "cannot get random bytes", error))?;
        let rate_limit = Arc::new(SharedRateLimit::new(config.dns.rate_limit.clone(), secret));
        Ok(Self { secrets: cookie_secrets(config, clients)?, rate_limit })
    }

    pub(super) fn cookies(&self) -> Cookies {
        Cookies::new(self.secrets.clone())
    }

    /// Adds the rate limit for one of `threads` threads of a transport. Clients can forge their addresses only over
    /// UDP.
    pub(super) fn limited(&self, responder: QueryResponder, transport: Transport, threads: usize) -> QueryResponder {
        match transport {
            Transport::Udp => QueryResponder { rate_limit: Some(self.rate_limit_of(threads)), ..responder },
            _ => responder,
        }
    }

    /// The rate limit of one of `threads` threads that share it.
    pub(super) fn rate_limit_of(&self, threads: usize) -> RateLimitWatch {
        RateLimitWatch::new(&self.rate_limit, threads)
    }
}

/// The secrets of the operator, or of the cluster.
fn cookie_secrets(config: &Config, clients: &Arc<ClientSecrets>) -> Result<SecretSource, Problem> {
    let Some(file) = &config.dns.cookie_secrets_file else {
        return Ok(SecretSource::Cluster(clients.clone()));
    };
    let loaded = SharedSecrets::load(file).map(|secrets| SecretSource::File(Arc::new(secrets)));
    loaded.map_err(|error| {
        Problem::new(Exit::Input, "cannot use the secrets of DNS cookies", error)
            .at(file.display())
            .hint("write one secret per line, 32 hexadecimal digits: the first makes cookies, all are accepted")
    })
}
