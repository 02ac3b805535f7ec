//! Case 191 (grabbit): a column of text was too short for real messages. A body is taken up to its limit wherever it
//! has to lie, and comes back as it was.

use semel_tests::cli_world::{Counts, Place, World, handler};
use semel_tests::on_both_stores;

async fn sixteen_megabytes_wait_and_are_set_aside_and_come_back(world: World) {
    world.configure_work("max_body = \"32MiB\"\nretry = { immediate = 0, deferred = [] }");
    for length in [64 * 1024, 1024 * 1024, 16 * 1024 * 1024] {
        let body = format!("{{\"id\":\"{length}\",\"fails\":1,\"x\":\"{}\"}}", "\u{e4}\u{1f375}".repeat(length / 6));
        world.write("lines.jsonl", &body);
        assert_eq!(world.run("").await, Counts::dead(1), "{length}");
        let of_body = "select length(body), coalesce(body_length, 0) from";
        assert_eq!(world.store().value(&format!("{of_body} semel.dead_letter")).await, format!("{}|0", body.len()));
        world.configure_work(&format!(
            "max_body = \"32MiB\"\n{}",
            handler("*", "insert into effect (id, note) select id, body->>'x' from messages")
        ));
        world.done("dead replay --all").await;
        assert_eq!(world.store().value(&format!("{of_body} semel.inbox")).await, format!("{}|0", body.len()));
        assert_eq!(world.run("").await, Counts::processed(1), "{length}");
        assert_eq!(world.place(&length.to_string()).await, Place::Done);
        let whole = world.store().value(&format!("select length(note) from effect where id = '{length}'")).await;
        assert_eq!(whole, (length / 6 * 2).to_string(), "characters");
        assert_eq!(world.run("--from-start").await, Counts::duplicates(1));
        world.configure_work("max_body = \"32MiB\"");
    }
}

on_both_stores!(sixteen_megabytes_wait_and_are_set_aside_and_come_back);
