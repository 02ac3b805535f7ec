select id, place, process, started, max(0, cast(round(unixepoch('now', 'subsec') * 1000) as integer) - beat_at) as silent_ms
from semel_instance
where consumer = ?1
order by started_at, id;
