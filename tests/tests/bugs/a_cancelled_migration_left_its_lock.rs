//! Case 109 (awa): a migration that was cancelled left its lock behind, and the next one waited for ever.

use semel_tests::cli_world::{Counts, World, until};

#[tokio::test]
async fn a_migration_that_was_killed_leaves_nothing_behind() {
    let Some(world) = World::on_postgresql(env!("CARGO_BIN_EXE_semel-probed")).await else { return };
    world.configure_work("");
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    let effect = std::fs::read_to_string(world.path("effect.sql")).expect("a file");
    world.write("effect.sql", format!("{effect}; select pg_sleep(600)"));
    let running = world.semel(["migrate"]).spawn();
    let asleep = "select count(*) from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'";
    until("the setup runs", async || world.store().count(asleep).await == 1).await;
    running.kill9().await;
    world.write("effect.sql", effect);
    assert_eq!(world.run("").await, Counts::processed(1));
}
