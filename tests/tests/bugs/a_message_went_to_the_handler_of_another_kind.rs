//! Case 193 (apalis-sqlite): two types of jobs in one table, and now and then one was read as the other.

use semel_tests::cli_world::{Counts, World};
use semel_tests::on_both_stores;

async fn each_handler_sees_its_own_kind_and_no_other(world: World) {
    let handler = |name: &str, kind: &str| {
        format!(
            "[consumer.work.on.{kind:?}]\nsql = \"insert into effect (id, note) select id, '{name} ' || kind from messages\"\n"
        )
    };
    world.configure_work(&format!(
        "kind = \"body:/do\"\nretry = {{ immediate = 0, deferred = [\"1s\"] }}\n{}{}{}",
        handler("A", "a"),
        handler("B", "b"),
        handler("*", "*"),
    ));
    world.write(
        "lines.jsonl",
        (0..150)
            .map(|n| format!("{{\"id\":\"{n}\",\"do\":\"{}\"}}\n", ["a", "b", "c"][n * n % 7 % 3]))
            .collect::<String>(),
    );
    assert_eq!(world.run("").await, Counts::processed(150));
    assert_eq!(world.store().rows("select distinct note from effect order by note").await, ["* c", "A a", "B b"]);
}

on_both_stores!(each_handler_sees_its_own_kind_and_no_other);
