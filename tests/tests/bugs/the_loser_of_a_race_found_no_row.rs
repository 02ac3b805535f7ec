//! Case 90 (chiwei-platform, omicron): "insert or nothing" and the read in one statement give the loser of a race no
//! row at all, which was taken for an error, and messages were lost. Whatever the isolation level, the loser is a
//! duplicate.

use semel_tests::cli_world::{Counts, LIMIT, World};

#[tokio::test]
async fn two_programs_with_the_same_messages_at_every_isolation_level() {
    for level in ["read committed", "repeatable read", "serializable"] {
        let Some(world) = World::on_postgresql(env!("CARGO_BIN_EXE_semel-probed")).await else { return };
        world.configure_work("max_batch = 10");
        world.write("lines.jsonl", (0..100).map(|n| format!("{{\"id\":\"{n}\"}}\n")).collect::<String>());
        world.done("migrate").await;
        let name = world.store().value("select current_database()").await;
        world.store().execute(&format!("alter database {name} set default_transaction_isolation = '{level}'")).await;
        let run = || world.semel(["run", "--json"]).run(LIMIT);
        let (one, two) = tokio::join!(run(), run());
        let (one, two) = (Counts::of(&one), Counts::of(&two));
        assert_eq!(one.processed + two.processed, 100, "{level}: {one} {two}");
        assert_eq!(
            (one.dead_lettered, two.dead_lettered, one.conflicts + two.conflicts),
            (0, 0, 0),
            "{level}: {one} {two}"
        );
        assert_eq!(world.store().value("select count(*), count(distinct id) from effect").await, "100|100", "{level}");
        assert_eq!(world.run("--from-start").await, Counts::duplicates(100), "{level}");
        world.check_places().await;
    }
}
