//! Case 96 (MassTransit): whether to run again was decided by an English error text, and a server that speaks Russian
//! gave another one. The code decides. Case 98 (nessie): the failure may come with the COMMIT only; then nothing is
//! acknowledged, and the whole work is run again.

use semel_tests::cli_world::{Counts, World};

const SQL: &str = "[consumer.work.on.\"*\"]\nsql = \"insert into effect (id) select id from messages\"";

/// Fails three times with this code, in another language; `deferred`: with the COMMIT.
async fn trouble(world: &World, code: &str, deferred: bool) {
    let when = if deferred { "deferrable initially deferred" } else { "" };
    world.store().execute(&format!(
        "create sequence tries; create function trouble() returns trigger language plpgsql as $$ begin
           if nextval('tries') < 4 then raise exception 'не удалось сериализовать доступ' using errcode = '{code}'; end if; return null; end $$;
         create constraint trigger trouble after insert on effect {when} for each row execute function trouble()"
    )).await;
}

#[tokio::test]
async fn a_serialization_failure_in_another_language_at_the_statement_or_at_the_commit_is_run_again() {
    for (code, deferred) in [("40001", false), ("40001", true), ("40P01", true)] {
        let Some(world) = World::on_postgresql(env!("CARGO_BIN_EXE_semel-probed")).await else { return };
        world.configure_work(SQL);
        world.write("lines.jsonl", "{\"id\":\"a\"}\n");
        world.done("migrate").await;
        trouble(&world, code, deferred).await;
        assert_eq!(world.run("").await, Counts::processed(1), "{code} {deferred}");
        assert_eq!(world.store().value("select last_value from tries").await, "4");
        assert_eq!((world.effects().await, world.letters().await), (vec!["a".to_owned()], vec![]));
    }
}

#[tokio::test]
async fn a_constraint_that_is_checked_at_the_commit_fails_the_message_and_not_the_run() {
    let Some(world) = World::on_postgresql(env!("CARGO_BIN_EXE_semel-probed")).await else { return };
    world.configure_work(&format!("retry = {{ immediate = 1, deferred = [] }}\n{SQL}"));
    world.write("lines.jsonl", "{\"id\":\"a\"}\n{\"id\":\"b\"}\n");
    world.done("migrate").await;
    world
        .store()
        .execute("alter table effect add constraint once unique (note, id) deferrable initially deferred")
        .await;
    world.store().execute("alter table effect alter note set default 'x'; insert into effect (id) values ('a')").await;
    assert_eq!(world.run("").await, Counts { processed: 1, dead_lettered: 1, ..Counts::default() });
    assert_eq!(world.effects_sorted().await, ["a", "b"]);
    world.check_places().await;
}
