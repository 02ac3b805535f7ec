//! Case 180 (svix and many others): "create if not exists" is no lock. Replicas that started at the same moment on an
//! empty database crashed, or went on without their work.

use semel_tests::cli_world::{Counts, LIMIT, World};
use semel_tests::on_both_stores;

async fn ten_programs_start_at_once_on_an_empty_store(world: World) {
    world.configure_work("max_batch = 5\nlanes = 2");
    world.write("lines.jsonl", (0..40).map(|n| format!("{{\"id\":\"{n}\"}}\n")).collect::<String>());
    let runs: Vec<_> =
        (0..10).map(|_| world.semel(["run", "--json"])).map(|program| tokio::spawn(program.run(LIMIT))).collect();
    let mut processed = 0;
    for run in runs {
        let finished = run.await.expect("a run");
        let counts = Counts::of(&finished);
        assert_eq!((finished.code(), counts.dead_lettered, counts.conflicts), (Some(0), 0, 0), "{finished}");
        processed += counts.processed;
    }
    assert_eq!(processed, 40);
    assert_eq!(world.store().value("select count(*), count(distinct id) from effect").await, "40|40");
    assert_eq!(
        world
            .store()
            .value("select count(*), count(distinct version) from semel.migration")
            .await
            .split('|')
            .collect::<std::collections::BTreeSet<_>>()
            .len(),
        1,
        "each version once"
    );
    assert_eq!(world.store().value("select count(*) from semel.setup").await, "1");
    assert_eq!(world.store().value("select count(*) from semel.consumer").await, "1");
    world.check_places().await;
}

on_both_stores!(ten_programs_start_at_once_on_an_empty_store);
