//! Case 133 (consumers of Kafka): workers side by side stored the position of the message that was finished last; one
//! before it that was still in work was lost with the process. The position stands before the first that is not
//! acknowledged.

use semel_tests::cli_world::{Counts, Place, World, until};
use sqlx::Executor as _;

#[tokio::test]
async fn a_message_that_was_in_work_when_the_process_was_killed_comes_again() {
    let Some(world) = World::on_postgresql(env!("CARGO_BIN_EXE_semel-probed")).await else { return };
    world.configure_work(
        "key = \"body:/id\"\nlanes = 8\nmax_batch = 1\n[consumer.work.on.\"*\"]\nsql = \"insert into effect (id) select id from messages \
         where id <> '5' or pg_advisory_xact_lock(5) is not null\"",
    );
    let line = |n: usize| format!("{{\"id\":\"{n}\"}}\n");
    world.write("lines.jsonl", (0..50).map(line).collect::<String>());
    world.done("migrate").await;
    let mut gate = world.store().connect_postgres().await;
    gate.execute("select pg_advisory_lock(5)").await.expect("a lock");
    let running = world.semel(["run", "--json"]).spawn();
    // Those of its lane wait behind it.
    until("the other lanes are done", async || {
        let done = world.effects().await.len();
        done >= 30
            && world.offset().await > 0
            && world.store().count("select count(*) from pg_locks where locktype = 'advisory' and not granted").await
                == 1
    })
    .await;
    let before = (0..5).map(|n| line(n).len() as u64).sum::<u64>();
    assert_eq!(world.offset().await, before, "up to the one in work");
    running.kill9().await;
    drop(gate);
    assert_eq!(world.place("5").await, Place::Nowhere);
    let rest = world.run("").await;
    assert_eq!((rest.processed + rest.duplicates, rest.received()), (45, 45), "{rest}");
    assert_eq!(world.store().value("select count(*), count(distinct id) from effect").await, "50|50");
    assert_eq!(world.run("").await, Counts::default());
    world.check_places().await;
}
