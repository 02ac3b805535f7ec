-- $1 name: the schema's version, then what is registered, if anything is
select m.version, c.number, c.window_ms
from (select max(version) as version from semel.migration) m
left join semel.consumer c on c.name = $1
