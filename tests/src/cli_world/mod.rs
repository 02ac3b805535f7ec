//! A world for the program `semel`: a directory of its own, a store of its own, and the program that works there.
//!
//! The same test body runs on every store: [`on_both_stores!`](crate::on_both_stores) makes one test for each. What
//! is in the store is asked with plain SQL, never with semel.

mod counts;
mod place;
mod small_disk;
mod store;

pub use counts::Counts;
pub use place::{Letter, Place};
pub use small_disk::SmallDisk;
pub use store::{Kind, Store, sqlite_rows};

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::program::{Finished, Program};

/// No command of these tests runs longer, unless it hangs.
pub const LIMIT: Duration = Duration::from_secs(30);

/// A directory, a store and the program.
#[derive(Debug)]
pub struct World {
    // Fields are dropped in this order: the store before the directory that it may lie in.
    store: Store,
    directory: TempDir,
    program: PathBuf,
}

impl World {
    /// With an SQLite file that does not exist yet.
    pub fn on_sqlite(program: &str) -> Self {
        let directory = directory();
        let store = Store::sqlite(directory.path().join("store.db"));
        Self { store, directory, program: program.into() }
    }

    /// With an empty PostgreSQL database; `None`, after a line that says so, where there is no server.
    pub async fn on_postgresql(program: &str) -> Option<Self> {
        let store = Store::postgresql().await?;
        Some(Self { store, directory: directory(), program: program.into() })
    }

    /// The store, for plain SQL.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Which store it is.
    pub fn kind(&self) -> Kind {
        self.store.kind()
    }

    /// The store's address, the same from every directory.
    pub fn address(&self) -> String {
        self.store.address()
    }

    /// A path in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Write a file, and the directories above it.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a file lies in a directory")).expect("a directory can be made");
        fs::write(&path, content).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        path
    }

    /// Add to a file.
    pub fn append(&self, name: &str, content: impl AsRef<[u8]>) {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(self.path(name)).expect("a file opens");
        file.write_all(content.as_ref()).expect("a file can be written");
    }

    /// Write `semel.toml` with this store, and a table `effect` in which handlers leave what they did, in order.
    pub fn configure(&self, consumers: &str) {
        let effect = match self.kind() {
            Kind::Sqlite => "create table effect (seq integer primary key, id text not null, note text)",
            Kind::Postgres => "create table effect (seq bigserial primary key, id text not null, note text)",
        };
        self.write("effect.sql", effect);
        self.write("semel.toml", format!("store = \"{}\"\nsetup = [\"effect.sql\"]\n{consumers}", self.address()));
    }

    /// One consumer `work` that reads `lines.jsonl`, with the id at `/id`, the kind at `/do`, and settings that may
    /// replace these. Its handler of every kind writes the message's id, and fails as often as the body says:
    /// `"fails": 2`.
    pub fn configure_work(&self, settings: &str) {
        self.configure(&work(settings));
    }

    /// The program with words, in the directory.
    pub fn semel<W: AsRef<str>>(&self, words: impl IntoIterator<Item = W>) -> Program {
        let words = words.into_iter().map(|word| word.as_ref().to_owned());
        Program::new(&self.program).current_dir(self.path("")).args(words)
    }

    /// The program as a user who owns nothing here and may read everything that all may read. Root is one only where
    /// it can become another user; otherwise the answer is `None`, after a line that says so.
    pub fn unprivileged<W: AsRef<str>>(&self, words: impl IntoIterator<Item = W>) -> Option<Program> {
        let words: Vec<String> = words.into_iter().map(|word| word.as_ref().to_owned()).collect();
        let is_root = fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0);
        if !is_root {
            return Some(self.semel(words));
        }
        let become_nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];
        let can =
            std::process::Command::new("setpriv").args(become_nobody).arg(&self.program).arg("--version").output();
        if !can.is_ok_and(|output| output.status.success()) {
            let _ = writeln!(std::io::stderr(), "skipped: the program cannot be run as another user than root here");
            return None;
        }
        Some(Program::new("setpriv").args(become_nobody).arg(&self.program).args(words).current_dir(self.path("")))
    }

    /// Where the program is.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Run a command, given as its words with blanks between, to its end.
    pub async fn command(&self, words: &str) -> Finished {
        self.semel(words.split_whitespace()).run(LIMIT).await
    }

    /// Run a command that must succeed.
    pub async fn done(&self, words: &str) -> Finished {
        let finished = self.command(words).await;
        assert_eq!(finished.code(), Some(0), "semel {words}: {finished}");
        finished
    }

    /// Run a command that must fail with this exit code; answers what it said to the person.
    pub async fn fails(&self, code: i32, words: &str) -> String {
        let finished = self.command(words).await;
        assert_eq!(finished.code(), Some(code), "semel {words}: {finished}");
        assert_eq!(finished.stdout, "", "semel {words}: a failure is no data");
        finished.stderr
    }

    /// `semel run --json` with options, of a file with one consumer: what it counted.
    pub async fn run(&self, options: &str) -> Counts {
        Counts::of(&self.done(&format!("run --json {options}")).await)
    }

    /// Empty the store: no message was ever seen. Files stay.
    pub async fn forget_messages(&self) {
        let tables = ["claim", "inbox", "dead_letter", "position", "floor", "instance", "attempt", "consumer"];
        let delete = tables.map(|table| format!("delete from semel.{table};")).concat();
        self.store.execute(&format!("{delete} delete from effect;")).await;
    }

    /// A command's output as JSON, one object a line.
    pub async fn json(&self, words: &str) -> Vec<serde_json::Value> {
        let finished = self.done(&format!("{words} --json")).await;
        objects(&finished.stdout)
    }
}

/// A consumer's table for [`World::configure_work`]. `settings` may name any key anew: the first of two wins here.
pub fn work(settings: &str) -> String {
    // The column takes no null.
    let id = "case when attempt <= coalesce(cast(body->>'fails' as integer), 0) then null else id end";
    let mut table = String::from("[consumer.work]\n");
    let defaults = [
        ("from", "{ file = \"lines.jsonl\" }"),
        ("id", "\"body:/id\""),
        ("kind", "\"=task\""),
        ("retry", "{ immediate = 0, deferred = [] }"),
    ];
    let names = |line: &str| line.split('=').next().unwrap_or_default().trim().to_owned();
    let own: Vec<String> = settings.lines().map(names).collect();
    for (name, value) in defaults {
        if !own.iter().any(|own| own == name) {
            table += &format!("{name} = {value}\n");
        }
    }
    table += settings;
    if !settings.contains("[consumer.work.on") {
        table += &format!("\n[consumer.work.on.\"*\"]\nsql = \"insert into effect (id) select {id} from messages\"\n");
    }
    table
}

/// The table of a handler of the consumer `work`, to be put behind its settings.
pub fn handler(kind: &str, sql: &str) -> String {
    format!("\n[consumer.work.on.{kind:?}]\nsql = \"\"\"{sql}\"\"\"\n")
}

/// The address of a PostgreSQL database as another user: `name`, or `name:password`.
pub fn as_user(address: &str, user: &str) -> String {
    let (scheme, rest) = address.split_once("://").expect("a URL");
    let place = rest.split_once('@').map_or(rest, |(_, place)| place);
    format!("{scheme}://{user}@{place}")
}

/// One JSON object a line.
pub fn objects(text: &str) -> Vec<serde_json::Value> {
    let object = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("not JSON: {error}: {line}"));
    text.lines().map(object).collect()
}

/// The names of an object's fields, sorted.
pub fn fields(object: &serde_json::Value) -> Vec<&str> {
    object.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// Try until it is so.
///
/// # Panics
///
/// If that takes longer than [`LIMIT`].
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let tried = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout(LIMIT, tried).await.is_err() {
        panic!("not within {LIMIT:?}: {what}");
    }
}

/// Under the system's directory for temporary files, where another user can reach it.
fn directory() -> TempDir {
    let open = fs::Permissions::from_mode(0o755);
    tempfile::Builder::new().prefix("semel-cli-").permissions(open).tempdir().expect("a temporary directory")
}

/// Functions of a [`World`], each as a test on every store: `name::on_sqlite` and `name::on_postgresql`.
#[macro_export]
macro_rules! on_both_stores {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[tokio::test]
            async fn on_sqlite() {
                super::$name($crate::cli_world::World::on_sqlite(env!("CARGO_BIN_EXE_semel-probed"))).await;
            }

            #[tokio::test]
            async fn on_postgresql() {
                if let Some(world) = $crate::cli_world::World::on_postgresql(env!("CARGO_BIN_EXE_semel-probed")).await {
                    super::$name(world).await;
                }
            }
        }
    )+};
}
