//! Case 117 (mailcow-logs-viewer): times that were written in UTC through a session with another time zone were
//! shifted.

use semel_tests::cli_world::{Counts, Place, World};
use std::time::{SystemTime, UNIX_EPOCH};

#[tokio::test]
async fn the_session_s_time_zone_changes_no_time() {
    let Some(world) = World::on_postgresql(env!("CARGO_BIN_EXE_semel-probed")).await else { return };
    let name = world.store().value("select current_database()").await;
    for setting in ["timezone = 'Pacific/Kiritimati'", "datestyle = 'SQL, DMY'"] {
        world.store().execute(&format!("alter database {name} set {setting}")).await;
    }
    world.configure_work(
        "time = \"body:/at\"\n[consumer.work.on.\"*\"]\n\
         sql = \"insert into effect (id, note) select id, extract(epoch from time)::bigint::text from messages\"",
    );
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs();
    world.write("lines.jsonl", format!(
        "{{\"id\":\"a\",\"at\":\"2026-04-07T08:02:11Z\"}}\n{{\"id\":\"b\",\"at\":{now}000}}\n{{\"id\":\"c\",\"at\":{}000}}\n{{\"no\":1}}\n",
        now + 600,
    ));
    assert_eq!(
        world.run("").await,
        Counts { processed: 2, dead_lettered: 2, ..Counts::default() },
        "ten minutes ahead is the future"
    );
    assert_eq!(world.place("c").await, Place::Nowhere);
    assert_eq!(
        world.store().rows("select id, note from effect order by id").await,
        ["a|1775548931".to_owned(), format!("b|{now}")]
    );
    let told = world.json("explain a").await.remove(0);
    assert_eq!(told["claim"]["time"], "2026-04-07T08:02:11Z");
    let stored = world.store().count("select extract(epoch from max(claimed_at))::bigint from semel.claim").await;
    assert!(stored.abs_diff(now) < 60, "{stored} {now}");
    for text in [&told["claim"]["claimed_at"], &world.json("dead list --reason missing-id").await[0]["first"]] {
        let seconds = world
            .store()
            .count(&format!("select extract(epoch from timestamptz '{}')::bigint", text.as_str().expect("a time")))
            .await;
        assert!(seconds.abs_diff(now) < 60, "{text} {now}");
    }
}
