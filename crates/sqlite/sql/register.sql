insert into semel_consumer (name, window_ms) values (?1, ?2)
on conflict (name) do update set window_ms = coalesce(excluded.window_ms, window_ms);
