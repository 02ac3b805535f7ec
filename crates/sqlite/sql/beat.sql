insert into semel_instance (consumer, id, place, process, started) values (?1, ?2, ?3, ?4, ?5)
on conflict (consumer, id) do update set beat_at = excluded.beat_at;
