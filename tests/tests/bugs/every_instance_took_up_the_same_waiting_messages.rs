//! Cases 14 (CAP) and 48 (wolverine): every instance took up the same waiting rows when it started, or rows that a
//! living one had in hand, and ran them again. Case 52 (river, pgqueuer): rows that a killed worker had in hand
//! stayed in its hand.

use semel_tests::cli_world::{Counts, LIMIT, World, until};
use semel_tests::on_both_stores;

async fn five_programs_take_up_what_waits_and_each_message_is_done_once(world: World) {
    world.configure_work("retry = { immediate = 0, deferred = [\"1s\"] }\nlanes = 2\nmax_batch = 4");
    world.write("lines.jsonl", (0..60).map(|n| format!("{{\"id\":\"{n}\",\"fails\":1}}\n")).collect::<String>());
    let first = world.run("").await;
    assert_eq!(first.received(), 60, "{first}");
    until("all are due", async || world.json("status").await[0]["due"] == first.deferred).await;
    // One is killed with some of them in hand; nobody has to wait for it.
    let killed = world.semel(["run", "--json"]).env("SEMEL_CRASH_AT", "after-handle:2").run(LIMIT).await;
    assert_eq!(killed.code(), None, "{killed}");
    let runs: Vec<_> = (0..5).map(|_| tokio::spawn(world.semel(["run", "--json"]).run(LIMIT))).collect();
    for run in runs {
        let finished = run.await.expect("a run");
        assert_eq!((finished.code(), Counts::of(&finished).dead_lettered), (Some(0), 0), "{finished}");
    }
    assert_eq!(world.store().value("select count(*), count(distinct id) from effect").await, "60|60");
    assert_eq!(world.store().count("select count(*) from semel.inbox").await, 0);
    world.check_places().await;
}

on_both_stores!(five_programs_take_up_what_waits_and_each_message_is_done_once);
