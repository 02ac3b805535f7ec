//! Cases 114 (SlimMessageBus) and 115 (eventuate): cleanup ran only when there was nothing else to do, so never on a
//! busy system; or never at all unless it was asked for. It is on by default, on a timer of its own, while messages
//! come.

use semel_tests::cli_world::{Counts, LIMIT, World, until};
use semel_tests::on_both_stores;

async fn old_ids_go_while_new_ones_come(world: World) {
    world.configure_work("from = { file = \"lines.jsonl\", follow = true }\nwindow = \"1s\"");
    world.write("lines.jsonl", "");
    world.done("migrate").await;
    let running = world.semel(["run", "--json"]).spawn();
    let mut came = 0;
    until("a cleanup while messages come", async || {
        world.append("lines.jsonl", (came..came + 10).map(|n| format!("{{\"id\":\"{n}\"}}\n")).collect::<String>());
        came += 10;
        let done = world.store().count("select count(*) from effect").await;
        world.store().count("select count(*) from semel.claim").await + 10 < done
    })
    .await;
    running.sigterm();
    let finished = running.wait(LIMIT).await;
    let counts = Counts::of(&finished);
    assert_eq!((counts.processed, counts.received()), (counts.received(), counts.processed), "{counts}");
}

async fn without_a_word_in_the_configuration_ids_are_kept_for_seven_days_and_status_tells_their_age(world: World) {
    world.configure_work("");
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    world.run("").await;
    let status = world.json("status").await.remove(0);
    assert_eq!(status["window_seconds"], 604_800.0);
    assert!(status["oldest"].as_str().is_some_and(|time| time.starts_with("20")), "{status}");
}

on_both_stores!(
    old_ids_go_while_new_ones_come,
    without_a_word_in_the_configuration_ids_are_kept_for_seven_days_and_status_tells_their_age,
);
