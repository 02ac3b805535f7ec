insert into semel_attempt (consumer, message_id, instance, crashes) values (?1, ?2, ?3, ?4)
on conflict (consumer, message_id) do update
set instance = excluded.instance, crashes = excluded.crashes, started_at = excluded.started_at;
