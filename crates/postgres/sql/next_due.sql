-- The first that nothing of its key stands before: those behind it are of no use before it has gone. The first of every
-- key is such a one.
select (extract(epoch from i.due_at - clock_timestamp()) * 1000)::int8
from semel.inbox i
left join lateral (
  select e.seq from semel.inbox e where e.consumer = i.consumer and e.key = i.key and e.holds order by e.seq limit 1
) first on true
where i.consumer = $1
  and (first.seq is null or i.seq <= first.seq)
order by i.due_at
limit 1
