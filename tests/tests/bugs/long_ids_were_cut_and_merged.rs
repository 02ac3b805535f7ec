//! Case 80 (mail and log importers): ids longer than their column failed the insert; cut to its length, two of them
//! became one. An id that is too long is set aside with that reason, and two of them stay two.

use semel_tests::cli_world::{Counts, Letter, World};
use semel_tests::on_both_stores;

async fn two_ids_of_two_thousand_letters_that_begin_alike_stay_two(world: World) {
    world.configure_work("");
    let begin = "x".repeat(1999);
    world.write(
        "lines.jsonl",
        format!("{{\"id\":\"{begin}a\"}}\n{{\"id\":\"{begin}b\"}}\n{{\"id\":\"{}\"}}\n", &begin[..255]),
    );
    assert_eq!(world.run("").await, Counts { processed: 1, dead_lettered: 2, ..Counts::default() });
    assert_eq!(world.run("--from-start").await, Counts::duplicates(3));
    let letter = |line: &str| Letter::new("invalid-id", line).seen(2);
    assert_eq!(world.letters().await, [letter("lines.jsonl:1"), letter("lines.jsonl:2")]);
    assert_eq!(world.effects().await, [&begin[..255]]);
}

on_both_stores!(two_ids_of_two_thousand_letters_that_begin_alike_stay_two);
