insert into semel_position (consumer, source, unit, position)
select ?1, ?2, value->>0, value->>1 from jsonb_each(?3)
where true
on conflict (consumer, source, unit) do update set position = excluded.position, saved_at = excluded.saved_at;
