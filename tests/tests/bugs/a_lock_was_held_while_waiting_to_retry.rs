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
    // Both in one look: between two of them the next try may have begun.
    let held = "select count(*) from pg_stat_activity a left join pg_locks l using (pid) \
                where a.datname = current_database() and application_name = 'semel' and (xact_start is not null or l.pid is not null)";
    until("it holds nothing while it waits", async || world.store().count(held).await == 0).await;
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
