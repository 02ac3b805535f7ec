select distinct value
from json_each(?2) as wanted
where exists (select 1 from semel_inbox as held where held.consumer = ?1 and held.key = wanted.value and held.holds);
