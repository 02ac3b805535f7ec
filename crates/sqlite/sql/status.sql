select named.number, named.name, named.window_ms,
       (select count(*) from semel_claim where consumer = named.number) as claims,
       (select min(claimed_at) from semel_claim where consumer = named.number) as oldest_claim,
       (select count(*) from semel_inbox where consumer = named.number) as waiting,
       (select count(*) from semel_inbox
        where consumer = named.number and due_at <= cast(round(unixepoch('now', 'subsec') * 1000) as integer)) as due,
       (select message_time from semel_floor where consumer = named.number) as floor
from semel_consumer as named
order by named.name;
