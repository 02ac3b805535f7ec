//! A network between a client and PostgreSQL that fails on command.
//!
//! Cutting a connection at a random moment almost never hits the moment that matters: the server has committed and the
//! client does not know. The proxy reads the messages of PostgreSQL's protocol (version 3), so it can hit that moment
//! every time, and its [`Counts`] tell whether it did. A test whose fault did not fire has shown nothing.
//!
//! A COMMIT is recognised in a simple query, which is how sqlx sends it. Inside an encrypted connection nothing can be
//! recognised: such a connection is passed on and can only be cut.

mod wire;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::wire::{Peer, Startup};

/// A proxy on a port of its own. Dropping it closes every connection and the port.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

/// What has happened until now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that were accepted and passed on.
    pub connections: usize,
    /// COMMITs that clients sent, whatever became of them.
    pub commits: usize,
    /// COMMITs that the server has carried out and whose answer the client never got.
    pub swallowed_commits: usize,
    /// COMMITs whose answer the client never got either, but which the server answered with ROLLBACK or an error.
    pub swallowed_refusals: usize,
    /// COMMITs that never reached the server.
    pub cut_before_commit: usize,
    /// COMMITs that were sent to the server after the client had been cut off.
    pub cut_while_committing: usize,
    /// Connections that [`Proxy::cut_all`] closed.
    pub cut_connections: usize,
    /// Connections that were closed as soon as they came.
    pub refused_connections: usize,
    /// Messages that arrived in a black hole, at most one for a connection.
    pub held_messages: usize,
}

impl Proxy {
    /// Start a proxy on a free loopback port. Connections to it become connections to `upstream`.
    ///
    /// # Panics
    ///
    /// If there is no free port.
    pub async fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free loopback port");
        let address = listener.local_addr().expect("a listening socket has an address");
        let shared = Arc::new(Shared {
            upstream,
            state: Mutex::default(),
            refusing: AtomicBool::new(false),
            black_hole: watch::Sender::new(false),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, accepting }
    }

    /// Where the proxy listens.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// What has happened until now.
    pub fn counts(&self) -> Counts {
        self.shared.state().counts
    }

    /// Pass the next `count` COMMITs on, wait until the server has answered, keep the answer, and close the connection:
    /// the transaction is durable, and its client cannot know.
    pub fn swallow_commit_answers(&self, count: usize) {
        self.shared.state().plan(Fault::SwallowAnswer, count);
    }

    /// Close the connection instead of passing on the next `count` COMMITs: the transaction is lost, and its client
    /// cannot know.
    pub fn cut_before_commit(&self, count: usize) {
        self.shared.state().plan(Fault::CutBefore, count);
    }

    /// Close the client's side of the connection and then pass on the next `count` COMMITs, so that the server may still
    /// be at work on it when the client asks again.
    pub fn cut_while_committing(&self, count: usize) {
        self.shared.state().plan(Fault::CutWhile, count);
    }

    /// Close all connections now and return how many there were. When this returns, they are closed.
    pub async fn cut_all(&self) -> usize {
        let tasks = std::mem::take(&mut self.shared.state().tasks);
        let mut cut = 0;
        for task in tasks {
            task.abort();
            cut += usize::from(task.await.is_err_and(|error| error.is_cancelled()));
        }
        self.shared.state().counts.cut_connections += cut;
        cut
    }

    /// While true, messages go no further, in either direction, and nobody is told. Afterwards those that were held go on.
    pub fn black_hole(&self, on: bool) {
        self.shared.black_hole.send_replace(on);
    }

    /// While true, new connections are closed as soon as they come. Those that are open stay.
    pub fn refuse_connections(&self, on: bool) {
        self.shared.refusing.store(on, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        for task in self.shared.state().tasks.drain(..) {
            task.abort();
        }
    }
}

/// What happens to a COMMIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    CutBefore,
    CutWhile,
    SwallowAnswer,
}

#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    state: Mutex<State>,
    refusing: AtomicBool,
    black_hole: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    /// The faults that wait for a COMMIT, in the order in which they were asked for.
    planned: Vec<Fault>,
    counts: Counts,
    tasks: Vec<JoinHandle<io::Result<()>>>,
}

impl State {
    fn plan(&mut self, fault: Fault, count: usize) {
        self.planned.extend(std::iter::repeat_n(fault, count));
    }

    /// A COMMIT has come: what happens to it?
    fn take_fault(&mut self) -> Option<Fault> {
        self.counts.commits += 1;
        let fault = if self.planned.is_empty() { None } else { Some(self.planned.remove(0)) };
        match fault {
            Some(Fault::CutBefore) => self.counts.cut_before_commit += 1,
            Some(Fault::CutWhile) => self.counts.cut_while_committing += 1,
            // Counted when the server has answered.
            Some(Fault::SwallowAnswer) | None => {}
        }
        fault
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics in between, and if it did, the counts would be as good as before.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn pass_black_hole(&self) {
        let mut black_hole = self.black_hole.subscribe();
        if *black_hole.borrow() {
            self.state().counts.held_messages += 1;
            // The sender lives as long as `self`.
            let _ = black_hole.wait_for(|on| !on).await;
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        // An error belongs to a connection that is gone already.
        let Ok((client, _)) = listener.accept().await else { continue };
        if shared.refusing.load(Ordering::SeqCst) {
            shared.state().counts.refused_connections += 1;
            continue;
        }
        let task = tokio::spawn(serve(client, Arc::clone(&shared)));
        let mut state = shared.state();
        state.counts.connections += 1;
        state.tasks.retain(|task| !task.is_finished());
        state.tasks.push(task);
    }
}

/// One connection. Whatever ends this function, an error or being aborted, closes both sides.
async fn serve(client: TcpStream, shared: Arc<Shared>) -> io::Result<()> {
    let server = TcpStream::connect(shared.upstream).await?;
    // Each message is one write: waiting for more would only add time.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut client, mut server) = (Peer::new(client), Peer::new(server));

    // Before the first message of the usual form come any number of requests for encryption, each answered by one byte.
    while let Some(first) = client.next_startup().await? {
        shared.pass_black_hole().await;
        server.write(first.bytes()).await?;
        if first.purpose() == Startup::Session {
            return relay(client, server, &shared).await;
        }
        if first.purpose() == Startup::Encryption {
            let answer = server.next_byte().await?;
            client.write(&[answer]).await?;
            if answer == b'N' {
                continue;
            }
        }
        // An encrypted connection, or one that cancels a query and says no more.
        let (mut client, mut server) = (client.into_stream()?, server.into_stream()?);
        return tokio::io::copy_bidirectional(&mut client, &mut server).await.map(|_| ());
    }
    Ok(())
}

/// Pass messages on until one side ends or a fault ends it.
///
/// One loop for both directions lets a fault see both. The price is that a client that sends without reading blocks its
/// own answers, which no client of ours does.
async fn relay(client: Peer, mut server: Peer, shared: &Shared) -> io::Result<()> {
    let mut client = Some(client);
    // Requests that the server will answer with ReadyForQuery, the first of which is the start of the session.
    let (mut requests, mut answered) = (1_u64, 0_u64);
    // The request whose answer the client must not get. Answers to requests before it still go to the client.
    let mut withheld: Option<(u64, Fault)> = None;
    let mut committed = false;
    loop {
        let request = async {
            match &mut client {
                Some(client) if withheld.is_none() => client.next_message().await,
                _ => std::future::pending().await,
            }
        };
        // Both reads can be abandoned at any moment without losing a byte.
        let (from_client, message) = tokio::select! {
            message = request => (true, message?),
            message = server.next_message() => (false, message?),
        };
        let Some(message) = message else { return Ok(()) };
        shared.pass_black_hole().await;

        if from_client {
            let fault = if message.is_commit() { shared.state().take_fault() } else { None };
            if fault == Some(Fault::CutBefore) {
                return Ok(());
            }
            if fault == Some(Fault::CutWhile) {
                client = None;
            }
            requests += u64::from(message.is_answered_by_ready());
            withheld = fault.map(|fault| (requests, fault));
            server.write(message.bytes()).await?;
            continue;
        }

        let ready = message.is_ready_for_query();
        match withheld {
            Some((request, fault)) if answered + 1 >= request => {
                committed |= message.is_committed();
                if ready {
                    if fault == Fault::SwallowAnswer {
                        let mut state = shared.state();
                        let counts = &mut state.counts;
                        *(if committed { &mut counts.swallowed_commits } else { &mut counts.swallowed_refusals }) += 1;
                    }
                    return Ok(());
                }
            }
            _ => {
                answered += u64::from(ready);
                if let Some(client) = &mut client {
                    client.write(message.bytes()).await?;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
