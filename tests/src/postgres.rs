//! Databases and servers of PostgreSQL for one test.
//!
//! `scripts/services start postgres` starts a server, and `eval "$(scripts/services env)"` puts its address into
//! `SEMEL_TEST_POSTGRES`; `scripts/test` does both. A test that shares the server takes a [`database`]; a test that
//! crashes the server takes a [`server`], because the others are using the shared one.

use std::fmt::Display;
use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// The variable with the address of a server on which databases may be created.
pub const URL_VARIABLE: &str = "SEMEL_TEST_POSTGRES";
/// The variable with a command, to be completed with arguments of `scripts/services` and run by `bash -c`.
pub const CONTROL_VARIABLE: &str = "SEMEL_TEST_POSTGRES_CTL";

/// A database that is dropped with this value, together with whatever is still connected to it.
#[derive(Debug)]
pub struct TempDatabase {
    server: Url,
    name: String,
}

/// A new, empty database on the shared server. Without a server the answer is `None`, after a line that says so.
///
/// # Panics
///
/// If the server does not answer or does not create the database.
pub async fn database() -> Option<TempDatabase> {
    let url = variable(URL_VARIABLE)?;
    Some(TempDatabase::create(Url::parse(&url)).await)
}

impl TempDatabase {
    async fn create(server: Url) -> Self {
        let name = unique("semel_test");
        execute(&server.full(), &format!("create database {name}"))
            .await
            .unwrap_or_else(|error| panic!("cannot create a database on {}: {error}", server.host));
        Self { server, name }
    }

    /// The address, as a store takes it.
    pub fn url(&self) -> String {
        self.server.with_database(&self.name).full()
    }

    /// The same database by way of another address, such as that of a [`Proxy`](crate::proxy::Proxy).
    pub fn url_through(&self, address: SocketAddr) -> String {
        self.server.with_database(&self.name).with_host(&address.to_string()).full()
    }

    /// Where the server listens.
    ///
    /// # Panics
    ///
    /// If the host of the server's address has no address itself.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }
}

impl Drop for TempDatabase {
    /// Best effort: a server that crashed or hangs costs at most some seconds, never a failed test.
    fn drop(&mut self) {
        let url = self.server.full();
        let statement = format!("drop database if exists {} with (force)", self.name);
        // A runtime cannot be started inside another one, hence the thread. It is waited for, since the process may end
        // with this test; it tells by dropping its end of the channel.
        let (running, done) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            let _running = running;
            if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
                let _ = runtime.block_on(execute(&url, &statement));
            }
        });
        let _ = done.recv_timeout(Duration::from_secs(5));
    }
}

/// A server that belongs to one test, which may crash it. It is stopped, and its files are removed, with this value.
#[derive(Debug)]
pub struct PrivateServer {
    control: String,
    url: Url,
}

/// A server of the test's own, started in about a second. Where `scripts/services` did not set
/// `SEMEL_TEST_POSTGRES_CTL`, the answer is `None`, after a line that says so.
///
/// # Panics
///
/// If the server does not start.
pub async fn server() -> Option<PrivateServer> {
    let control = format!("{} --set {}", variable(CONTROL_VARIABLE)?, unique("test"));
    let started = blocking(format!("{control} start postgres && {control} env postgres"));
    let printed = started.await;
    let prefix = format!("export {URL_VARIABLE}=");
    let url = printed.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or_else(|| {
        panic!("no address of a new server in: {printed}");
    });
    Some(PrivateServer { url: Url::parse(url), control })
}

impl PrivateServer {
    /// A new, empty database on this server.
    ///
    /// # Panics
    ///
    /// If the server does not answer or does not create the database.
    pub async fn database(&self) -> TempDatabase {
        TempDatabase::create(self.url.clone()).await
    }

    /// Crash the server as a power cut would, without a checkpoint, and start it on the same address. Returns when it
    /// answers again.
    ///
    /// # Panics
    ///
    /// If the server does not start again.
    pub async fn restart_immediate(&self) {
        blocking(format!("{} restart-immediate postgres", self.control)).await;
    }
}

impl Drop for PrivateServer {
    /// What fails here is ended by the `scripts/services stop` that ends the shared server.
    fn drop(&mut self) {
        let _ = Command::new("bash").arg("-c").arg(format!("{} stop", self.control)).output();
    }
}

/// Run a command beside the runtime, whose other tasks (a proxy, for one) go on, and return what it printed.
async fn blocking(command: String) -> String {
    tokio::task::spawn_blocking(move || {
        let output = Command::new("bash").arg("-c").arg(&command).output().expect("bash runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {}\n{stderr}", output.status);
        String::from_utf8_lossy(&output.stdout).into_owned()
    })
    .await
    .unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

async fn execute(url: &str, statement: &str) -> Result<(), sqlx::Error> {
    let mut connection = PgConnection::connect(url).await?;
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await?;
    connection.close().await
}

/// The variable's value, or a line that says that a test is skipped. The line goes around the test harness, which keeps
/// what a passing test prints with `println!` to itself: a skipped test must not look like a passed one.
fn variable(name: &str) -> Option<String> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty());
    if value.is_none() {
        let _ = writeln!(std::io::stderr(), "skipped: {name} is not set");
    }
    value
}

/// A name that no other test has, in this process, another one, or a run that was killed before it could clean up.
fn unique(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_millis());
    format!("{prefix}_{}_{next}_{now}", std::process::id())
}

/// An address in its parts. They are kept as they were written: a parser's own form would add parameters that only sqlx
/// knows, and a test hands the address to programs.
#[derive(Debug, Clone)]
struct Url {
    /// `postgres://`, user and password.
    head: String,
    /// Host and port.
    host: String,
    database: String,
    /// From the question mark on.
    parameters: String,
}

impl Url {
    fn parse(url: &str) -> Self {
        let (plain, parameters) = url.split_at(url.find('?').unwrap_or(url.len()));
        let after_scheme = plain.find("://").map_or(0, |position| position + 3);
        let (authority, database) = match plain[after_scheme..].find('/') {
            Some(slash) => (&plain[..after_scheme + slash], &plain[after_scheme + slash + 1..]),
            None => (plain, ""),
        };
        let host_start = authority.rfind('@').map_or(after_scheme, |at| at + 1);
        Self {
            head: authority[..host_start].to_owned(),
            host: authority[host_start..].to_owned(),
            database: database.to_owned(),
            parameters: parameters.to_owned(),
        }
    }

    fn full(&self) -> String {
        let Self { head, host, database, parameters } = self;
        format!("{head}{host}/{database}{parameters}")
    }

    fn with_database(&self, name: &str) -> Self {
        Self { database: name.to_owned(), ..self.clone() }
    }

    fn with_host(&self, host: &str) -> Self {
        Self { host: host.to_owned(), ..self.clone() }
    }

    fn address(&self) -> SocketAddr {
        fn resolve(address: impl ToSocketAddrs + Display) -> SocketAddr {
            address
                .to_socket_addrs()
                .ok()
                .and_then(|mut found| found.next())
                .unwrap_or_else(|| panic!("{address} has no address"))
        }
        // The port is what follows the last colon, unless that colon is inside an IPv6 address.
        match self.host.rsplit_once(':') {
            Some((_, port)) if !port.contains(']') => resolve(&*self.host),
            _ => resolve(&*format!("{}:5432", self.host)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_what_is_not_replaced() {
        let url = Url::parse("postgres://user:p%40ss@127.0.0.1:5433/main?sslmode=disable");
        assert_eq!(url.full(), "postgres://user:p%40ss@127.0.0.1:5433/main?sslmode=disable");
        assert_eq!(url.address(), "127.0.0.1:5433".parse().unwrap());
        assert_eq!(
            url.with_database("other").with_host("127.0.0.2:1").full(),
            "postgres://user:p%40ss@127.0.0.2:1/other?sslmode=disable"
        );
        assert_eq!(Url::parse("postgres://127.0.0.1").address(), "127.0.0.1:5432".parse().unwrap());
        assert_eq!(Url::parse("postgres://[::1]/x").address(), "[::1]:5432".parse().unwrap());
    }

    #[tokio::test]
    async fn a_database_is_empty_and_leaves_with_its_value() {
        let Some(database) = database().await else { return };
        let server = database.server.full();
        let exists = format!("select 1 / count(*) from pg_database where datname = '{}'", database.name);
        execute(&server, &exists).await.unwrap();
        execute(&database.url(), "create table t (id int)").await.unwrap();

        // Somebody who is still connected does not keep it.
        let mut connected = PgConnection::connect(&database.url()).await.unwrap();
        drop(database);
        connected.ping().await.unwrap_err();
        execute(&server, &exists).await.unwrap_err();
    }

    #[tokio::test]
    async fn a_private_server_comes_back_with_what_was_committed() {
        let Some(server) = server().await else { return };
        let database = server.database().await;
        let mut connected = PgConnection::connect(&database.url()).await.unwrap();
        execute(&database.url(), "create table t as select 1").await.unwrap();
        server.restart_immediate().await;
        connected.ping().await.unwrap_err();
        execute(&database.url(), "select 1 / count(*) from t").await.unwrap();
    }
}
