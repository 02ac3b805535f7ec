//! Programs that a test starts, listens to, and ends, politely or not.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::timeout;

/// A program that is about to run.
#[derive(Debug)]
pub struct Program {
    command: Command,
    input: Vec<u8>,
}

impl Program {
    /// The program at a path. It inherits the environment, except for `SEMEL_STORE`, which would override the store that
    /// the test's own file names.
    pub fn new(path: impl AsRef<Path>) -> Self {
        let mut command = Command::new(path.as_ref());
        command.env_remove("SEMEL_STORE");
        Self { command, input: Vec::new() }
    }

    /// Add an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Add several arguments.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Set a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Run it in a directory.
    #[must_use]
    pub fn current_dir(mut self, directory: impl AsRef<Path>) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// What it reads from its standard input, which then ends. By default it ends at once.
    #[must_use]
    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// Start it.
    ///
    /// # Panics
    ///
    /// If the program cannot be started.
    pub fn spawn(mut self) -> Running {
        let mut child = self
            .command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {:?}: {error}", self.command.as_std().get_program()));
        let mut stdin = child.stdin.take().expect("standard input is a pipe");
        tokio::spawn(async move {
            // A program may end without having read everything.
            let _ = stdin.write_all(&self.input).await;
        });
        let captured = watch::Sender::new(Captured::default());
        capture(child.stdout.take(), captured.clone(), |captured| &mut captured.stdout);
        capture(child.stderr.take(), captured.clone(), |captured| &mut captured.stderr);
        Running { child, captured }
    }

    /// Start it and wait until it ends.
    ///
    /// # Panics
    ///
    /// If the program cannot be started, or runs longer than `limit`; then it is killed.
    pub async fn run(self, limit: Duration) -> Finished {
        self.spawn().wait(limit).await
    }
}

/// A program that runs. Dropping this kills it, and only it: what it started itself goes on.
#[derive(Debug)]
pub struct Running {
    child: Child,
    captured: watch::Sender<Captured>,
}

impl Running {
    /// What it has written to its standard output until now.
    pub fn stdout(&self) -> String {
        self.captured.borrow().stdout.text()
    }

    /// What it has written to its standard error until now.
    pub fn stderr(&self) -> String {
        self.captured.borrow().stderr.text()
    }

    /// Wait for a whole line that contains `pattern`, on either stream, and return it. Lines from before the call count.
    ///
    /// # Panics
    ///
    /// If both streams end without such a line, or `limit` passes. The message holds what the program has written.
    pub async fn wait_for_line(&self, pattern: &str, limit: Duration) -> String {
        self.wait_for_lines(pattern, 1, limit).await.remove(0)
    }

    /// Wait until there are `count` such lines, and return those of standard output, then those of standard error.
    ///
    /// # Panics
    ///
    /// As [`wait_for_line`](Self::wait_for_line).
    pub async fn wait_for_lines(&self, pattern: &str, count: usize, limit: Duration) -> Vec<String> {
        let mut changes = self.captured.subscribe();
        let seen = timeout(
            limit,
            changes.wait_for(|captured| captured.lines_with(pattern).len() >= count || captured.ended()),
        )
        .await;
        let problem = match seen {
            Ok(Ok(captured)) => {
                let lines = captured.lines_with(pattern);
                if lines.len() >= count {
                    return lines;
                }
                "the program's output ended"
            }
            Ok(Err(_)) => "the program's output is no longer read",
            Err(_) => "the time passed",
        };
        let captured = self.captured.borrow().to_string();
        panic!("{problem} ({limit:?}) before {count} line(s) with {pattern:?}\n{captured}");
    }

    /// Wait until it ends by itself.
    ///
    /// # Panics
    ///
    /// If it runs longer than `limit`; then it is killed. The message holds what the program has written.
    pub async fn wait(mut self, limit: Duration) -> Finished {
        match timeout(limit, self.child.wait()).await {
            Ok(status) => self.finish(status.expect("a child can be waited for")).await,
            Err(_) => {
                let captured = self.captured.borrow().to_string();
                panic!("the program still runs after {limit:?}\n{captured}");
            }
        }
    }

    /// Kill it with SIGKILL, which leaves it no time for anything, and wait until it is gone.
    pub async fn kill9(mut self) -> Finished {
        // It may have ended already, which the status then tells.
        let _ = self.child.start_kill();
        let status = self.child.wait().await.expect("a child can be waited for");
        self.finish(status).await
    }

    /// Ask it to end with SIGTERM, and return at once.
    pub fn sigterm(&self) {
        // A shell's own `kill` exists everywhere, and safe Rust has no other way to send a signal. The id cannot belong
        // to another process, because it is not free before the child was waited for, and then it is `None` here.
        if let Some(id) = self.child.id() {
            let _ = std::process::Command::new("sh").arg("-c").arg(format!("kill -TERM {id}")).status();
        }
    }

    async fn finish(self, status: ExitStatus) -> Finished {
        // What it wrote last may still be in the pipes. They stay open as long as something that it started holds them,
        // which is no reason to wait for ever.
        let mut changes = self.captured.subscribe();
        let _ = timeout(Duration::from_secs(2), changes.wait_for(Captured::ended)).await;
        Finished { status, stdout: self.stdout(), stderr: self.stderr() }
    }
}

/// A program that has ended.
#[derive(Debug, Clone)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// Everything it wrote to its standard output.
    pub stdout: String,
    /// Everything it wrote to its standard error.
    pub stderr: String,
}

impl Finished {
    /// The exit code, or `None` if a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }
}

impl fmt::Display for Finished {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, stdout, stderr } = self;
        write!(formatter, "{status}\n--- stdout\n{stdout}\n--- stderr\n{stderr}")
    }
}

/// One of the two streams.
#[derive(Debug, Default)]
struct Stream {
    bytes: Vec<u8>,
    ended: bool,
}

impl Stream {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

#[derive(Debug, Default)]
struct Captured {
    stdout: Stream,
    stderr: Stream,
}

impl Captured {
    fn ended(&self) -> bool {
        self.stdout.ended && self.stderr.ended
    }

    /// Whole lines only: the rest of an unfinished one may still change what a test reads from it.
    fn lines_with(&self, pattern: &str) -> Vec<String> {
        let mut found = Vec::new();
        for stream in [&self.stdout, &self.stderr] {
            let end = match stream.bytes.iter().rposition(|byte| *byte == b'\n') {
                _ if stream.ended => stream.bytes.len(),
                Some(newline) => newline,
                None => continue,
            };
            let text = String::from_utf8_lossy(&stream.bytes[..end]);
            found.extend(text.lines().filter(|line| line.contains(pattern)).map(str::to_owned));
        }
        found
    }
}

impl fmt::Display for Captured {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "--- stdout\n{}\n--- stderr\n{}", self.stdout.text(), self.stderr.text())
    }
}

/// Read a stream to its end, in a task of its own: a program whose pipe is full would stand still.
fn capture(
    source: Option<impl AsyncRead + Unpin + Send + 'static>,
    captured: watch::Sender<Captured>,
    stream: fn(&mut Captured) -> &mut Stream,
) {
    let mut source = source.expect("the stream is a pipe");
    tokio::spawn(async move {
        let mut chunk = [0; 8192];
        while let Ok(length @ 1..) = source.read(&mut chunk).await {
            captured.send_modify(|captured| stream(captured).bytes.extend_from_slice(&chunk[..length]));
        }
        captured.send_modify(|captured| stream(captured).ended = true);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    fn shell(script: &str) -> Program {
        Program::new("sh").args(["-c", script])
    }

    #[tokio::test]
    async fn output_and_exit_code_are_kept() {
        let finished = shell(r#"cat; echo "$GREETING" >&2; printf unfinished; exit 3"#)
            .env("GREETING", "hello")
            .input("from the test\n")
            .run(LIMIT)
            .await;
        assert_eq!(finished.code(), Some(3));
        assert_eq!(finished.stdout, "from the test\nunfinished");
        assert_eq!(finished.stderr, "hello\n");
    }

    #[tokio::test]
    async fn lines_are_awaited_on_both_streams() {
        let running = shell("echo one; sleep 0.1; echo two >&2; sleep 0.1; echo one more; exec sleep 60").spawn();
        assert_eq!(running.wait_for_line("two", LIMIT).await, "two");
        assert_eq!(running.wait_for_line("one", LIMIT).await, "one");
        assert_eq!(running.wait_for_lines("one", 2, LIMIT).await, ["one", "one more"]);
        let finished = running.kill9().await;
        assert_eq!(finished.code(), None);
    }

    #[tokio::test]
    #[should_panic(expected = "output ended")]
    async fn a_line_that_cannot_come_any_more_is_not_awaited() {
        shell("echo one").spawn().wait_for_line("two", LIMIT).await;
    }

    #[tokio::test]
    #[should_panic(expected = "still runs")]
    async fn a_program_that_runs_too_long_is_an_error() {
        shell("exec sleep 60").run(Duration::from_millis(50)).await;
    }

    #[tokio::test]
    async fn sigterm_can_be_answered() {
        let running = shell("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done").spawn();
        running.wait_for_line("ready", LIMIT).await;
        running.sigterm();
        let finished = running.wait(LIMIT).await;
        assert_eq!((finished.code(), &*finished.stdout), (Some(0), "ready\nbye\n"));
    }

    #[tokio::test]
    async fn dropping_kills() {
        let running = shell("echo $$; exec sleep 60").spawn();
        let id = running.wait_for_line("", LIMIT).await;
        drop(running);
        // The process is gone once it was collected, which the runtime does on its own time.
        let gone = async {
            while shell(&format!("kill -0 {id}")).run(LIMIT).await.code() == Some(0) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(LIMIT, gone).await.expect("the program was killed");
    }
}
