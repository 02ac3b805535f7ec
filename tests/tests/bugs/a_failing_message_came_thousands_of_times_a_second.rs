//! Case 144 (users of RabbitMQ): a message that failed was given back and came again at once, thousands of times a
//! second, and nothing else did.

use semel_tests::cli_world::{Counts, Letter, World};
use semel_tests::on_both_stores;
use std::time::{Duration, Instant};

async fn tries_are_spaced_and_the_others_go_on(world: World) {
    world.configure_work("retry = { immediate = 4, deferred = [] }\nkey = \"body:/k\"");
    let good = (0..200).map(|n| format!("{{\"id\":\"{n}\",\"k\":{n}}}\n")).collect::<String>();
    world.write("lines.jsonl", format!("{{\"id\":\"bad\",\"k\":\"bad\",\"fails\":99}}\n{good}"));
    let began = Instant::now();
    assert_eq!(world.run("").await, Counts { processed: 200, dead_lettered: 1, ..Counts::default() });
    // 50, 100, 200 and 400 ms, of which jitter takes at most half.
    assert!(began.elapsed() >= Duration::from_millis(375), "{:?}", began.elapsed());
    assert_eq!(world.letters().await, [Letter::new("failed", "bad").tried(5)]);
}

on_both_stores!(tries_are_spaced_and_the_others_go_on);
