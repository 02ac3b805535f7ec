//! Case 149 (Rebus): failures were counted in the memory of each process, so that three of them tried a message three
//! times as often. What waits carries its count.

use semel_tests::cli_world::{Counts, LIMIT, Letter, World, until};

#[tokio::test]
async fn three_processes_try_a_message_as_often_as_the_plan_says_together() {
    let Some(world) = World::on_postgresql(env!("CARGO_BIN_EXE_semel-probed")).await else { return };
    world.configure_work(
        "retry = { immediate = 1, deferred = [\"1s\", \"1s\"] }\n[consumer.work.on.\"*\"]\n\
         sql = \"do $$ begin perform nextval('tries'); raise exception 'no'; end $$\"",
    );
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    world.done("migrate").await;
    world.store().execute("create sequence tries").await;
    // A source gives a message to one process; of a file, that is the first to run.
    assert_eq!(world.run("").await, Counts { deferred: 1, ..Counts::default() });
    let mut ended = Counts::default();
    until("the plan is at its end", async || {
        let run = || world.semel(["run", "--json", "--from-start"]).run(LIMIT);
        let (one, two, three) = tokio::join!(run(), run(), run());
        for finished in [one, two, three] {
            let counts = Counts::of(&finished);
            ended.dead_lettered += counts.dead_lettered;
            ended.processed += counts.processed;
        }
        ended.dead_lettered > 0
    })
    .await;
    assert_eq!((ended.dead_lettered, ended.processed), (1, 0));
    assert_eq!(
        world.store().value("select last_value from tries").await,
        "4",
        "the first, one in place, two after a wait"
    );
    assert_eq!(world.letters().await, [Letter::new("failed", "a").tried(4)]);
    world.check_places().await;
}
