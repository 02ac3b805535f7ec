select id, place, process, started, (extract(epoch from clock_timestamp() - beat_at) * 1000)::int8
from semel.instance
where consumer = $1
order by started_at, id
