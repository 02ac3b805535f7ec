//! A way to a server whose open connections fall silent for ever, while new ones work: what a client sees of a failover
//! without a goodbye, or of a firewall that forgot it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// It listens on a port of its own until it is dropped.
#[derive(Debug)]
pub struct Freezer {
    address: SocketAddr,
    /// How often everything was frozen. A connection lives while it is as it was when it came.
    generation: watch::Sender<u64>,
    frozen: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Freezer {
    /// On a free loopback port. Connections to it become connections to `upstream`.
    ///
    /// # Panics
    ///
    /// If there is no free port.
    pub async fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free loopback port");
        let address = listener.local_addr().expect("a listening socket has an address");
        let generation = watch::Sender::new(0);
        let frozen = Arc::new(AtomicUsize::new(0));
        let (seen, counted) = (generation.clone(), frozen.clone());
        let accepting = tokio::spawn(async move {
            loop {
                let Ok((client, _)) = listener.accept().await else { continue };
                tokio::spawn(serve(client, upstream, seen.subscribe(), counted.clone()));
            }
        });
        Self { address, generation, frozen, accepting }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// From now on nothing passes on the connections that are open, in either direction, and neither side is told.
    pub fn freeze(&self) {
        self.generation.send_modify(|generation| *generation += 1);
    }

    /// How many connections were frozen.
    pub fn frozen(&self) -> usize {
        self.frozen.load(Ordering::SeqCst)
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(
    client: TcpStream,
    upstream: SocketAddr,
    mut generation: watch::Receiver<u64>,
    frozen: Arc<AtomicUsize>,
) {
    let mine = *generation.borrow_and_update();
    let Ok(mut server) = TcpStream::connect(upstream).await else { return };
    let mut client = client;
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    tokio::select! {
        _ = pass(&mut client, &mut server) => return,
        changed = generation.wait_for(|generation| *generation != mine) => {
            // The end of the test: nobody is left to be silent to.
            if changed.is_err() {
                return;
            }
        }
    }
    frozen.fetch_add(1, Ordering::SeqCst);
    // Both stay open until the test ends, and nobody reads from them.
    while generation.changed().await.is_ok() {}
}

async fn pass(client: &mut TcpStream, server: &mut TcpStream) -> io::Result<()> {
    let (mut from_client, mut from_server) = ([0; 8192], [0; 8192]);
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => match read? {
                0 => return Ok(()),
                length => server.write_all(&from_client[..length]).await?,
            },
            read = server.read(&mut from_server) => match read? {
                0 => return Ok(()),
                length => client.write_all(&from_server[..length]).await?,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    #[tokio::test]
    async fn what_is_frozen_is_silent_and_what_comes_later_is_not() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let freezer = Freezer::start(listener.local_addr().unwrap()).await;
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut byte = [0];
                    while stream.read_exact(&mut byte).await.is_ok() {
                        stream.write_all(&byte).await.unwrap();
                    }
                });
            }
        });
        let ask = async |stream: &mut TcpStream| {
            stream.write_all(b"?").await.unwrap();
            let mut answer = [0];
            timeout(Duration::from_millis(300), stream.read_exact(&mut answer)).await.is_ok_and(|read| read.is_ok())
        };
        let mut first = TcpStream::connect(freezer.addr()).await.unwrap();
        assert!(ask(&mut first).await);
        freezer.freeze();
        assert!(!ask(&mut first).await);
        assert_eq!(freezer.frozen(), 1);
        let mut second = TcpStream::connect(freezer.addr()).await.unwrap();
        assert!(ask(&mut second).await);
        assert!(!ask(&mut first).await);
    }
}
