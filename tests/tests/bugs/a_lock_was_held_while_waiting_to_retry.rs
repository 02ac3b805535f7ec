//! Case 92 (MassTransit): a message that had failed kept its transaction, and its locks, while it waited for its next
//! try.

use semel_tests::cli_world::{Counts, LIMIT, World, until};

#[tokio::test]
async fn between_two_tries_no_transaction_is_open() {
    let Some(world) = World::on_postgresql(env!("CARGO_BIN_EXE_semel-probed")).await else { return };
    // The pauses in place double from 50 ms to 5 s: after the sixth try they are longer than a second.
    world.configure_work(
        "retry = { immediate = 20, deferred = [] }\n[consumer.work.on.\"*\"]\n\
         sql = \"insert into effect (id) select id from messages; do $$ begin perform nextval('tries'); raise exception 'no'; end $$\"",
    );
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    world.done("migrate").await;
    world.store().execute("create sequence tries").await;
    let running = world.semel(["run", "--json"]).spawn();
    until("some tries", async || world.store().count("select last_value from tries").await >= 6).await;
    let open = "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'semel' and xact_start is not null";
    let locks = "select count(*) from pg_locks l join pg_stat_activity a using (pid) where a.datname = current_database() and application_name = 'semel'";
    until("it waits for its next try", async || world.store().count(open).await == 0).await;
    assert_eq!(world.store().count(locks).await, 0);
    // Another writer is not held up.
    world.store().execute("set lock_timeout = '100ms'; lock table effect in access exclusive mode nowait").await;
    running.sigterm();
    let finished = running.wait(LIMIT).await;
    assert_eq!(
        (finished.code(), Counts::of(&finished)),
        (Some(0), Counts::default()),
        "stopped in its pause, it comes again"
    );
}
