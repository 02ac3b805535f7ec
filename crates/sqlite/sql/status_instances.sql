select consumer, id, max(0, cast(round(unixepoch('now', 'subsec') * 1000) as integer) - beat_at) as silent_ms
from semel_instance
order by started_at, id;
