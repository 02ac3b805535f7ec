//! The shop: a ledger in a database, a file of payments, and a configuration of `semel run` that books the ones into the
//! other.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::base::{Base, Kind};
use crate::oracle::{self, Violation};
use crate::payments::{Bad, Payments};
use crate::program::{Finished, Program, Running};

/// No run of these tests takes longer, not even on a machine that does other things as well.
pub const LIMIT: Duration = Duration::from_secs(60);

/// How many payments are booked.
pub const BOOKED: &str = "select count(*) from ledger";

/// At which try the last of them was booked.
pub const TRIES: &str = "select cast(max(attempt) as bigint) from ledger";

/// No unique key anywhere: what is booked twice shows as two rows.
const SCHEMA: &str = "
create table ledger (payment_id text not null, account text not null, amount bigint not null, attempt int not null);
create table balance (account text primary key, total bigint not null);
create table frozen (account text not null);
";

/// What can be set.
#[derive(Debug, Clone)]
pub struct Rules {
    /// As in the configuration.
    pub lanes: u32,
    /// As in the configuration.
    pub max_batch: u32,
    /// Tries in place after the first.
    pub immediate: u32,
    /// Waiting times, as in the configuration.
    pub deferred: &'static str,
    /// Whether payments of one account are processed one after the other.
    pub keyed: bool,
    /// Further lines for the consumer.
    pub more: &'static str,
    /// SQL that is run with every batch, before anything is booked.
    pub first: &'static str,
    /// SQL that is run with every batch, after everything is booked.
    pub last: &'static str,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            lanes: 4,
            max_batch: 16,
            immediate: 1,
            deferred: r#"["20ms"]"#,
            keyed: true,
            more: "",
            first: "",
            last: "",
        }
    }
}

/// A shop with a database of its own.
#[derive(Debug)]
pub struct Shop {
    /// Where the payments are booked.
    pub base: Base,
    /// What comes.
    pub payments: Payments,
    program: PathBuf,
    directory: TempDir,
}

impl Shop {
    /// A shop on a new database. `program`: what `semel run` means here. `None` without a server.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    pub async fn open(kind: Kind, program: &str, rules: &Rules, payments: Payments) -> Option<Self> {
        Some(Self::on(Base::new(kind).await?, program, rules, payments))
    }

    /// A shop on this database.
    ///
    /// # Panics
    ///
    /// If its files cannot be written.
    pub fn on(base: Base, program: &str, rules: &Rules, payments: Payments) -> Self {
        let directory = TempDir::new().expect("a directory for the shop");
        let shop = Shop { base, payments, program: program.into(), directory };
        shop.write("schema.sql", SCHEMA);
        shop.write("payments.jsonl", &shop.payments.text());
        shop.write("semel.toml", &configuration(&shop.base.url(), "payments.jsonl", rules));
        shop
    }

    /// The same shop, which reaches its database by another address.
    ///
    /// # Panics
    ///
    /// If its configuration cannot be written.
    pub fn by_way_of(self, store: &str, rules: &Rules) -> Self {
        self.write("semel.toml", &configuration(store, "payments.jsonl", rules));
        self
    }

    /// A file in the shop's directory, written anew.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.directory.path().join(name), text).expect("a file of the shop");
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The program, in the shop's directory.
    pub fn semel(&self, arguments: &[&str]) -> Program {
        Program::new(&self.program).current_dir(self.directory.path()).args(arguments)
    }

    /// `semel run` with a summary as JSON.
    pub fn run(&self) -> Program {
        self.semel(&["run", "--json"])
    }

    /// Wait until so many payments are booked by a program that runs, and return how many there are.
    ///
    /// # Panics
    ///
    /// If that takes too long, or the program ends before, with what it has written.
    pub async fn wait_until_booked(&self, least: i64, running: &Running) -> i64 {
        tokio::select! {
            booked = self.base.wait_for_number(BOOKED, least, LIMIT) => booked,
            // No line is like that: this is how the end of the program is noticed.
            line = running.wait_for_line("\u{1}", LIMIT - Duration::from_secs(1)) => panic!("{line}"),
        }
    }

    /// Run until nothing waits any more. `first`: arguments of the first run.
    ///
    /// # Panics
    ///
    /// If a run does not end well, or messages still wait after many runs.
    pub async fn work_off(&self, first: &[&str]) -> Vec<Summary> {
        let mut summaries = vec![Summary::of(&self.run().args(first).run(LIMIT).await)];
        // What waits and is not yet due is not taken up, and so not counted by the run that finds it.
        while self.waiting().await > 0 {
            assert!(summaries.len() < 100, "messages still wait: {summaries:?}");
            summaries.push(Summary::of(&self.run().run(LIMIT).await));
        }
        summaries
    }

    /// How many messages wait, as `semel status --json` says.
    ///
    /// # Panics
    ///
    /// If it says nothing.
    pub async fn waiting(&self) -> u64 {
        let status = self.semel(&["status", "--json"]).run(LIMIT).await;
        let object: Option<Value> = serde_json::from_str(&status.stdout).ok();
        object.and_then(|object| object["waiting"].as_u64()).unwrap_or_else(|| panic!("{status}"))
    }

    /// The dead letters and what they say, as `semel dead list --json` has them.
    ///
    /// # Panics
    ///
    /// If they cannot be listed.
    pub async fn dead_letters(&self) -> Vec<(Bad, String)> {
        let listed = self.semel(&["dead", "list", "--json"]).run(LIMIT).await;
        assert_eq!(listed.code(), Some(0), "{listed}");
        let letters = listed.stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect("a JSON object"));
        let of = |letter: Value| {
            let bad = Bad { reason: text(&letter["reason"]).unwrap_or_default(), id: text(&letter["id"]) };
            (bad, text(&letter["error"]).unwrap_or_default())
        };
        letters.map(of).collect()
    }

    /// Everything that is wrong at the end: in the ledger, and with the dead letters.
    ///
    /// # Panics
    ///
    /// If it cannot be looked at.
    pub async fn violations(&self) -> Vec<Violation> {
        let mut found = oracle::at_the_end(&self.base, &self.payments).await;
        found.extend(oracle::set_aside(&self.dead_letters().await, &self.payments));
        found
    }
}

/// A configuration that books the payments of a file into the database at `store`.
pub fn configuration(store: &str, file: &str, rules: &Rules) -> String {
    let Rules { lanes, max_batch, immediate, deferred, keyed, more, first, last } = rules;
    let key = if *keyed { "key = \"body:/account\"" } else { "" };
    let tries = immediate + 1;
    // An amount that is null is refused by the table: that is how a payment fails here, on every database alike.
    let book = |amount: &str| {
        let step = |sql: &str| if sql.is_empty() { String::new() } else { format!("'''{sql}''', ") };
        let (first, last) = (step(first), step(last));
        format!(
            "sql = [{first}'''
insert into ledger (payment_id, account, amount, attempt)
select body->>'payment_id', body->>'account', {amount}, attempt from messages
''', '''
insert into balance (account, total)
select body->>'account', sum(cast(body->>'amount' as bigint)) from messages where true group by 1
on conflict (account) do update set total = balance.total + excluded.total
''', {last}]"
        )
    };
    let amount = "cast(body->>'amount' as bigint)";
    let requested = book(amount);
    let flaky = book(&format!("case when attempt > {tries} then {amount} end"));
    let frozen = book(&format!(
        "case when not exists (select 1 from frozen where frozen.account = body->>'account') then {amount} end"
    ));
    let impossible = book("null");
    format!(
        r#"store = "{store}"
setup = ["schema.sql"]

[consumer.payments]
from = {{ file = "{file}" }}
id = "body:/payment_id"
kind = "body:/type"
{key}
lanes = {lanes}
max_batch = {max_batch}
retry = {{ immediate = {immediate}, deferred = {deferred} }}
{more}

[consumer.payments.on."payment.requested"]
{requested}

[consumer.payments.on."payment.flaky"]
{flaky}

[consumer.payments.on."payment.frozen"]
{frozen}

[consumer.payments.on."payment.impossible"]
{impossible}
"#
    )
}

/// What a run says that it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// All messages.
    pub received: u64,
    /// Work done.
    pub processed: u64,
    /// Known.
    pub duplicates: u64,
    /// Other content.
    pub conflicts: u64,
    /// Set aside.
    pub dead_lettered: u64,
    /// Waiting.
    pub deferred: u64,
}

impl Summary {
    /// Of a program that ended well.
    ///
    /// # Panics
    ///
    /// If it did not, or has printed something else.
    pub fn of(finished: &Finished) -> Self {
        assert_eq!(finished.code(), Some(0), "{finished}");
        let object: Value = serde_json::from_str(finished.stdout.trim()).unwrap_or_else(|_| panic!("{finished}"));
        let count = |field: &str| object[field].as_u64().unwrap_or_else(|| panic!("no {field}: {finished}"));
        Summary {
            received: count("received"),
            processed: count("processed"),
            duplicates: count("duplicates"),
            conflicts: count("conflicts"),
            dead_lettered: count("dead_lettered"),
            deferred: count("deferred"),
        }
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}
