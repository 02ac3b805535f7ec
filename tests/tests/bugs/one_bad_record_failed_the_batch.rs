//! Case 87 (datahub): one record that was not valid made the whole batch fail. Only it is set aside, whatever is
//! wrong with it.

use semel_tests::cli_world::World;
use semel_tests::on_both_stores;

async fn each_kind_of_bad_record_goes_alone(world: World) {
    world.configure_work("lanes = 1\nmax_batch = 100");
    let bad =
        ["{", "{\"no\":1}", "{\"id\":\"\"}", "{\"id\":\"bad\",\"fails\":9}", "{\"id\":\"worse\",\"fails\":\"many\"}"];
    let good = |n: usize| format!("{{\"id\":\"{n}\"}}");
    let lines: Vec<String> = (0..60).map(|n| if n % 12 == 6 { bad[n / 12].to_owned() } else { good(n) }).collect();
    world.write("lines.jsonl", lines.join("\n"));
    let counts = world.run("").await;
    // SQLite reads "many" as the number 0, as its casts do, and takes it.
    assert!(matches!((counts.processed, counts.dead_lettered), (55, 5) | (56, 4)), "{counts}");
    let expected = if counts.processed == 55 { "55|55" } else { "56|56" };
    assert_eq!(world.store().value("select count(*), count(distinct id) from effect").await, expected);
    world.check_places().await;
}

on_both_stores!(each_kind_of_bad_record_goes_alone);
