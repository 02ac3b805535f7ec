//! Case 71 (NServiceBus): a published event has one id for all who subscribe. Where the table of known ids does not
//! have the consumer's name in its key, the second consumer takes the first one's message for a duplicate, and
//! cleaning up after one forgets for both.

use semel_tests::cli_world::{Counts, World, until, work};
use semel_tests::on_both_stores;

async fn two_consumers_on_one_store_each_do_their_work_and_forget_alone(world: World) {
    let short = work("window = \"1s\"");
    let long = work("").replace("consumer.work", "consumer.other").replace("(id) select", "(note, id) select 'other',");
    world.configure(&format!("{short}\n{long}"));
    world.write("lines.jsonl", (0..50).map(|n| format!("{{\"id\":\"{n}\"}}\n")).collect::<String>());
    for (_, counts) in Counts::all_of(&world.done("run --json").await) {
        assert_eq!(counts, Counts::processed(50));
    }
    let effects = "select count(*), count(distinct id), count(note) from effect";
    assert_eq!(world.store().value(effects).await, "100|50|50");
    let claims = "select count(*) from semel.claim k join semel.consumer c on c.number = k.consumer where c.name = ";
    until("the one with the short window has forgotten", async || {
        world.done("sweep").await;
        world.store().count(&format!("{claims} 'work'")).await == 0
    })
    .await;
    assert_eq!(world.store().count(&format!("{claims} 'other'")).await, 50);
}

on_both_stores!(two_consumers_on_one_store_each_do_their_work_and_forget_alone);
