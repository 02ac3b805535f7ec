//! Case 110 (wolverine): after hours of downtime the first cleanup removed all known ids at once, just before the
//! broker's late copies came, and they were processed again. What carries a time is refused then; and what is not
//! cleaned up yet is known however old it is.

use semel_tests::cli_world::{Counts, Place, World, until};
use semel_tests::on_both_stores;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

async fn copies_from_before_the_downtime_are_known_or_refused_and_never_done_again(world: World) {
    world.configure_work("window = \"1s\"\ntime = \"body:/at\"");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_millis();
    world.write("lines.jsonl", (0..20).map(|n| format!("{{\"id\":\"{n}\",\"at\":{now}}}\n")).collect::<String>());
    assert_eq!(world.run("").await, Counts::processed(20));
    let down = Instant::now();
    until("the window is over", async || down.elapsed() > Duration::from_millis(1200)).await;
    let back = world.run("--from-start").await;
    assert_eq!((back.processed, back.duplicates + back.dead_lettered), (0, 20), "{back}");
    until("the cleanup", async || {
        world.done("sweep").await;
        world.place("0").await == Place::Nowhere
    })
    .await;
    let later = world.run("--from-start").await;
    assert_eq!((later.processed, later.received()), (0, 20), "{later}");
    assert_eq!(world.store().value("select count(*), count(distinct id) from effect").await, "20|20");
    assert!(world.letters().await.iter().all(|letter| letter.reason == "stale"));
}

on_both_stores!(copies_from_before_the_downtime_are_known_or_refused_and_never_done_again);
