-- $1 name · $2 window in ms, or null. No row where another process was first.
insert into semel.consumer (name, window_ms) values ($1, $2)
on conflict (name) do nothing
returning number
