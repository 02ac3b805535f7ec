//! Cases 83 (wolverine) and 85 (engines of the PostgreSQL kind): duplicates were recognised one by one, but a batch
//! with some in it failed whole; or the rows beside the conflicting ones were not inserted.

use semel_tests::cli_world::{Counts, World};
use semel_tests::on_both_stores;

async fn of_a_hundred_three_are_known_and_one_comes_twice(world: World) {
    world.configure_work("lanes = 1\nmax_batch = 100");
    let line = |id: usize| format!("{{\"id\":\"{id}\"}}\n");
    world.write("lines.jsonl", [7, 42, 98].map(line).concat());
    assert_eq!(world.run("").await, Counts::processed(3));
    // A hundred lines: 0 to 98, and one of them again.
    world.append("lines.jsonl", (0..99).chain([50]).map(line).collect::<String>());
    assert_eq!(world.run("").await, Counts { processed: 96, duplicates: 4, ..Counts::default() });
    assert_eq!(world.store().value("select count(*), count(distinct id) from effect").await, "99|99");
    assert_eq!(world.store().count("select count(*) from semel.claim").await, 99);
    assert_eq!(world.run("--from-start").await, Counts::duplicates(103));
}

on_both_stores!(of_a_hundred_three_are_known_and_one_comes_twice);
