//! Case 103 (several, with timing): a transaction on SQLite that reads first is refused the write lock at once, and
//! the busy timeout is not used. Writers that begin as writers wait for each other.

use semel_tests::cli_world::{Counts, LIMIT, World, work};

#[tokio::test]
async fn eight_programs_write_to_one_file_and_none_is_refused() {
    let world = World::on_sqlite(env!("CARGO_BIN_EXE_semel-probed"));
    world.configure_work("");
    world.done("migrate").await;
    let address = world.address();
    let runs = (0..8).map(|n| {
        let consumer = work(&format!("from = {{ file = \"lines-{n}.jsonl\" }}\nmax_batch = 5"));
        world.write(
            &format!("{n}.toml"),
            format!("store = \"{address}\"\n{}", consumer.replace("consumer.work", &format!("consumer.w{n}"))),
        );
        world
            .write(&format!("lines-{n}.jsonl"), (0..50).map(|id| format!("{{\"id\":\"{id}\"}}\n")).collect::<String>());
        let file = format!("{n}.toml");
        let program = world.semel(["run", &*file, "--json"]);
        tokio::spawn(async move { program.run(LIMIT).await })
    });
    for run in runs.collect::<Vec<_>>() {
        let finished = run.await.expect("a run");
        assert_eq!(Counts::of(&finished), Counts::processed(50), "{finished}");
        assert!(!finished.stderr.contains("locked"), "{finished}");
    }
    assert_eq!(world.store().value("select count(*), count(distinct id) from effect").await, "400|50");
}
