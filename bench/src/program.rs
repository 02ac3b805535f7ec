//! The program: `semel run` with SQL, on a file of a million lines, against a hand-written statement over the same JSON.

use crate::postgres::{Bench, orders};
use crate::stats::{Compared, compare};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Beside this program: `cargo build --release` puts both into one directory.
pub(crate) fn semel() -> PathBuf {
    let path = std::env::current_exe().expect("a program has a path").with_file_name("semel");
    assert!(path.exists(), "{} is missing: build it with `cargo build --release -p semel-cli`", path.display());
    path
}

fn config(store: &str, file: &Path) -> String {
    format!(
        "store = '{store}'\n[consumer.bench-{run}]\nfrom = {{ file = '{file}' }}\nid = 'body:/id'\nkind = '=order'\nlanes = 16\n\
         [consumer.bench-{run}.on.'*']\nsql = '''insert into orders (id, account, amount)\n\
         select body->>'id', cast(body->>'account' as bigint), cast(body->>'amount' as bigint) from messages'''\n",
        run = std::process::id(),
        file = file.display(),
    )
}

/// How long one `semel run` over these lines took by its own account, and the most memory that it held, in KiB.
pub(crate) fn run(store: &str, lines: &[semel::Envelope]) -> (Duration, u64) {
    let directory = tempfile::tempdir().expect("a directory");
    let (data, toml) = (directory.path().join("orders.jsonl"), directory.path().join("semel.toml"));
    let mut text = Vec::new();
    for line in lines {
        text.extend_from_slice(&line.body);
        text.push(b'\n');
    }
    std::fs::write(&data, text).expect("written");
    std::fs::write(&toml, config(store, &data)).expect("written");
    let time = directory.path().join("time");
    let output = Command::new("/usr/bin/time")
        .args(["-f", "%M", "-o"])
        .arg(&time)
        .arg(semel())
        .args(["run", "--json"])
        .arg(&toml)
        .output()
        .expect("/usr/bin/time is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(summary["processed"], lines.len(), "{summary}");
    let memory = std::fs::read_to_string(&time).expect("measured").trim().parse().expect("KiB");
    (Duration::from_secs_f64(summary["seconds"].as_f64().expect("seconds")), memory)
}

pub(crate) async fn against_hand(bench: &Bench, rounds: usize, size: usize) -> Compared {
    let name = "semel run with SQL / statement over JSON";
    let ours = || async { run(bench.url(), &orders(size)).0 };
    let theirs = || async { bench.hand_json(&orders(size)).await };
    compare(name, 0.6, rounds, (size, size), ours, theirs).await
}
