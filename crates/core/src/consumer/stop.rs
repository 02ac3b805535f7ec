//! Stopping a run from outside.

use tokio::sync::watch;

/// A signal to stop, to be given once and seen by all clones.
#[derive(Debug, Clone)]
pub struct Stop(watch::Sender<bool>);

impl Default for Stop {
    fn default() -> Self {
        Stop::new()
    }
}

impl Stop {
    /// Not stopped yet.
    pub fn new() -> Self {
        Stop(watch::Sender::new(false))
    }

    /// Stops. Calling it again changes nothing.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    /// Whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is stopped.
    pub async fn stopped(&self) {
        let _ = self.0.subscribe().wait_for(|stopped| *stopped).await;
    }
}
