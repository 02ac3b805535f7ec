select c.name, i.id, (extract(epoch from clock_timestamp() - i.beat_at) * 1000)::int8
from semel.instance i join semel.consumer c on c.number = i.consumer
order by c.name, i.started_at, i.id
