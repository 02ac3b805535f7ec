//! Case 194 (rask): the signal to stop was passed on into the work: half of it was done again after each deployment,
//! and mail went out twice.

use semel_tests::cli_world::{Counts, LIMIT, Place, World, handler, until};
use sqlx::Executor as _;

#[tokio::test]
async fn what_is_in_work_is_finished_and_nothing_new_is_begun() {
    let Some(world) = World::on_postgresql(env!("CARGO_BIN_EXE_semel-probed")).await else { return };
    world.configure_work(&format!(
        "lanes = 1\nmax_batch = 1\n{}",
        handler("*", "insert into effect (id) select id from messages where pg_advisory_xact_lock(3) is not null")
    ));
    world.write("lines.jsonl", "{\"id\":\"a\"}\n{\"id\":\"b\"}\n{\"id\":\"c\"}\n");
    world.done("migrate").await;
    let mut gate = world.store().connect_postgres().await;
    gate.execute("select pg_advisory_lock(3)").await.expect("a lock");
    let running = world.semel(["run", "--json"]).spawn();
    until("the first is in work", async || {
        world.store().count("select count(*) from pg_locks where locktype = 'advisory' and not granted").await == 1
    })
    .await;
    running.sigterm();
    running.wait_for_line("stopping: finishing what is in work", LIMIT).await;
    gate.execute("select pg_advisory_unlock(3)").await.expect("the lock is ours");
    let finished = running.wait(LIMIT).await;
    assert_eq!((finished.code(), Counts::of(&finished)), (Some(0), Counts::processed(1)), "{finished}");
    assert_eq!((world.place("a").await, world.place("b").await), (Place::Done, Place::Nowhere));
    world.check_places().await;
    assert_eq!(world.run("").await, Counts::processed(2));
    assert_eq!(world.effects().await, ["a", "b", "c"]);
}
