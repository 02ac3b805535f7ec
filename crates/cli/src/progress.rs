//! A progress bar on a terminal; nothing in a pipe.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use semel::Progress;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

/// How far a source has been read, in bytes.
pub(crate) trait Reading: Send + Sync {
    /// Read so far, and all there is.
    fn bytes(&self) -> (u64, u64);
}

#[cfg(feature = "file")]
impl Reading for semel::file::Progress {
    fn bytes(&self) -> (u64, u64) {
        (self.bytes_read(), self.bytes_total())
    }
}

/// Draws until the returned guard is dropped.
pub(crate) fn draw(name: &str, reading: Arc<dyn Reading>, counts: Arc<Progress>) -> Option<Drawing> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr_with_hz(8));
    let style = ProgressStyle::with_template("{prefix}  {bar:30} {percent:>3}%  {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style);
    bar.set_prefix(name.to_owned());
    let task = tokio::spawn({
        let (bar, name) = (bar.clone(), name.to_owned());
        async move {
            loop {
                let (read, total) = reading.bytes();
                bar.set_length(total.max(1));
                bar.set_position(read.min(total));
                let summary = counts.summary(&name, Duration::ZERO);
                bar.set_message(format!("{} processed · {} duplicates", summary.processed, summary.duplicates));
                tokio::time::sleep(Duration::from_millis(125)).await;
            }
        }
    });
    Some(Drawing { bar, task })
}

pub(crate) struct Drawing {
    bar: ProgressBar,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Drawing {
    fn drop(&mut self) {
        self.task.abort();
        self.bar.finish_and_clear();
    }
}
