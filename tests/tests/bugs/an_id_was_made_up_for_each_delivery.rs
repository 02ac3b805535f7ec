//! Case 78 (cumora): where the producer gave no id, one was made up at every try, so every redelivery was new.
//! Without an id nothing is claimed; the place in the source tells that it is the same message.

use semel_tests::cli_world::{Counts, Letter, World};
use semel_tests::on_both_stores;

async fn a_line_without_an_id_is_the_same_line_however_often_it_is_read(world: World) {
    world.configure_work("");
    world.write("lines.jsonl", "{\"n\":1}\n{\"n\":1}\n");
    assert_eq!(world.run("").await, Counts::dead(2), "two lines are two messages, though they say the same");
    for _ in 0..3 {
        assert_eq!(world.run("--from-start").await, Counts::duplicates(2));
    }
    let letter = |line: &str| Letter::new("missing-id", line).seen(4);
    assert_eq!(world.letters().await, [letter("lines.jsonl:1"), letter("lines.jsonl:2")]);
    assert_eq!(world.effects().await, [""; 0]);
}

on_both_stores!(a_line_without_an_id_is_the_same_line_however_often_it_is_read);
