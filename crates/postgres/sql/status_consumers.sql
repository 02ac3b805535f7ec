select
  c.name, c.window_ms, k.claims, k.oldest, w.waiting, w.due,
  (select (extract(epoch from f.message_time) * 1000)::int8 from semel.floor f where f.consumer = c.number)
from semel.consumer c
cross join lateral (
  select count(*) as claims, (extract(epoch from min(claimed_at)) * 1000)::int8 as oldest from semel.claim where consumer = c.number
) k
cross join lateral (
  select count(*) as waiting, count(*) filter (where due_at <= statement_timestamp()) as due from semel.inbox where consumer = c.number
) w
order by c.name
