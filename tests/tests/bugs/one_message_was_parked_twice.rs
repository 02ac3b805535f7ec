//! Case 151 (a consumer of SQS): the process died between setting a message aside and acknowledging it, and it was
//! set aside again.

use semel_tests::cli_world::{Counts, LIMIT, Letter, World};
use semel_tests::on_both_stores;

async fn a_crash_around_the_setting_aside_leaves_one_dead_letter(world: World) {
    for (point, line, letter) in [
        ("after-bury", "{\"id\":\"a\",\"fails\":9}", Letter::new("failed", "a").tried(1)),
        ("before-bury", "{\"id\":\"a\",\"fails\":9}", Letter::new("failed", "a").tried(1)),
        ("before-ack", "{\"no\":1}", Letter::new("missing-id", "lines.jsonl:1").seen(2)),
        ("before-ack", "{\"id\":\"a\",\"fails\":9}", Letter::new("failed", "a").tried(1)),
    ] {
        world.configure_work("");
        world.write("lines.jsonl", format!("{line}\n"));
        let killed = world.semel(["run", "--json"]).env("SEMEL_CRASH_AT", point).run(LIMIT).await;
        assert_eq!(killed.code(), None, "{point}: {killed}");
        let counts = world.run("").await;
        assert_eq!(counts.received(), 1, "{point}: {counts}");
        assert_eq!(world.letters().await, [letter], "{point} {line}");
        assert_eq!(world.run("--from-start").await, Counts::duplicates(1));
        world.check_places().await;
        world.forget_messages().await;
    }
}

on_both_stores!(a_crash_around_the_setting_aside_leaves_one_dead_letter);
