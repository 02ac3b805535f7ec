//! The program `lab`, whose handler does what each message says, and what is left when it has ended.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::base::{Base, Kind};
use crate::program::{Finished, Program};
use crate::shop::LIMIT;

/// How often a supervisor starts the program again before the test fails.
const STARTS_MAX: usize = 12;

/// Messages, a database, and the programs that work on them.
#[derive(Debug)]
pub struct Laboratory {
    /// The database, with the table `effect(id text)`.
    pub base: Base,
    /// Ids, and what the handler is to do with each.
    pub tasks: Vec<(String, &'static str)>,
    lab: PathBuf,
    semel: PathBuf,
    directory: TempDir,
}

/// A dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// Of which message.
    pub id: String,
    /// Why.
    pub reason: String,
    /// In words.
    pub error: String,
}

impl Laboratory {
    /// On a new database. `lab` and `semel` are the programs. `None` without a server.
    ///
    /// # Panics
    ///
    /// If its files cannot be written.
    pub async fn open(kind: Kind, lab: &str, semel: &str, tasks: Vec<(String, &'static str)>) -> Option<Self> {
        let base = Base::new(kind).await?;
        let directory = TempDir::new().expect("a directory");
        let lines: String = tasks.iter().map(|(id, act)| format!("{}\n", json!({ "id": id, "do": act }))).collect();
        std::fs::write(directory.path().join("tasks.jsonl"), lines).expect("the tasks");
        // Only for the verbs that look at the store.
        let configuration = format!(
            "store = \"{}\"\n[consumer.lab]\nfrom = {{ file = \"tasks.jsonl\" }}\nid = \"body:/id\"\nkind = \"=task\"\n\
             [consumer.lab.on.\"*\"]\nsql = \"select 1\"\n",
            base.url()
        );
        std::fs::write(directory.path().join("semel.toml"), configuration).expect("the configuration");
        Some(Self { base, tasks, lab: lab.into(), semel: semel.into(), directory })
    }

    /// The consumer. `timeout`: the handler's time limit in milliseconds.
    pub fn lab(&self, timeout: u64) -> Program {
        let program = Program::new(&self.lab).current_dir(self.directory.path());
        program.args([&self.base.url(), "tasks.jsonl", &timeout.to_string()])
    }

    /// As a supervisor does it: start it again whenever it was killed, until it ends by itself and nothing waits. All its
    /// ends.
    ///
    /// # Panics
    ///
    /// If it ends by anything but success or SIGABRT, or too often.
    pub async fn supervise(&self, timeout: u64) -> Vec<Finished> {
        let mut ends: Vec<Finished> = Vec::new();
        while ends.last().is_none_or(|last| last.code() != Some(0)) || self.waiting().await > 0 {
            assert!(ends.len() < STARTS_MAX, "it does not end: {}", ends.last().expect("an end"));
            let finished = self.lab(timeout).run(LIMIT).await;
            assert!(finished.code() == Some(0) || finished.status.signal() == Some(6), "{finished}");
            ends.push(finished);
        }
        ends
    }

    /// How many messages wait.
    ///
    /// # Panics
    ///
    /// If `semel status` does not tell.
    pub async fn waiting(&self) -> u64 {
        let program = Program::new(&self.semel).current_dir(self.directory.path());
        let status = program.args(["status", "--json"]).run(LIMIT).await;
        let object: Option<Value> = serde_json::from_str(&status.stdout).ok();
        object.and_then(|object| object["waiting"].as_u64()).unwrap_or_else(|| panic!("{status}"))
    }

    /// How many effects each message has. Messages without one are not in it.
    ///
    /// # Panics
    ///
    /// If the table cannot be read.
    pub async fn effects(&self) -> BTreeMap<String, i64> {
        self.base
            .rows::<(String, i64)>("select id, count(*) from effect group by id")
            .await
            .expect("the effects")
            .into_iter()
            .collect()
    }

    /// The dead letters.
    ///
    /// # Panics
    ///
    /// If they cannot be listed.
    pub async fn dead_letters(&self) -> Vec<Letter> {
        let program = Program::new(&self.semel).current_dir(self.directory.path());
        let listed = program.args(["dead", "list", "--json"]).run(LIMIT).await;
        assert_eq!(listed.code(), Some(0), "{listed}");
        let letters = listed.stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect("a JSON object"));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        letters
            .map(|letter| Letter {
                id: text(&letter["id"]),
                reason: text(&letter["reason"]),
                error: text(&letter["error"]),
            })
            .collect()
    }
}
