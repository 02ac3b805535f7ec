//! semel against hand-written loops, side by side in one run. See `bench/README.md` for the command and what was measured.
#![allow(clippy::print_stdout, reason = "a program whose output is its tables")]

mod postgres;
mod program;
mod source;
mod sqlite;
mod stats;

const HELP: &str = "usage: semel-bench [--rounds N] [--size N] [--memory-lines N] [--only postgres|sqlite|memory]
PostgreSQL is taken from SEMEL_BENCH_POSTGRES_SLOW (about 1 ms a commit) and SEMEL_BENCH_POSTGRES_FREE (commits cost nothing):
  scripts/services start postgres-slow postgres-tmpfs && eval \"$(scripts/services env)\"";

#[tokio::main]
async fn main() {
    let mut words = std::env::args().skip(1);
    let (mut rounds, mut size, mut lines, mut only) = (5, 4000, 1_000_000, None::<String>);
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|text| text.parse().ok()).expect(HELP);
        match word.as_str() {
            "--rounds" => rounds = number(),
            "--size" => size = number(),
            "--memory-lines" => lines = number(),
            "--only" => only = words.next(),
            _ => return println!("{HELP}"),
        }
    }
    let wants = |part: &str| only.as_deref().is_none_or(|only| only == part);
    for (variable, name, one_goal) in [
        ("SEMEL_BENCH_POSTGRES_SLOW", "PostgreSQL, about 1 ms a commit, 16 in flight", 0.95),
        ("SEMEL_BENCH_POSTGRES_FREE", "PostgreSQL, free commits, 16 in flight", 0.8),
    ] {
        match std::env::var(variable) {
            Ok(url) if wants("postgres") => {
                println!("\n{name}");
                stats::print(&postgres::Bench::new(&url).await.compare(rounds, size, one_goal).await);
            }
            Err(_) if wants("postgres") => println!("\n{name}: not run, {variable} is not set"),
            _ => {}
        }
    }
    let directory = tempfile::tempdir().expect("a directory");
    if wants("sqlite") {
        println!("\nSQLite, WAL, synchronous=FULL");
        stats::print(&[sqlite::batches(directory.path(), rounds, size * 10).await]);
    }
    if wants("memory") {
        let file = directory.path().join("memory.db");
        let setup = "create table orders (id text not null, account integer not null, amount integer not null)";
        sqlite::execute(&file, setup).await;
        let (took, memory) = program::run(&format!("sqlite:{}", file.display()), &postgres::orders(lines));
        println!(
            "\n{lines} lines through `semel run` on SQLite: {:.1} s, at most {:.1} MB resident (goal 64)",
            took.as_secs_f64(),
            memory as f64 / 1024.0
        );
    }
}
