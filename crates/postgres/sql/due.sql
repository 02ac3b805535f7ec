-- $1 consumer · $2 how many. A row stands behind every earlier one of its key that holds, due or not. The first that
-- holds is asked for by key alone, so that the answer can be remembered for all that stand behind it (Memoize): asked
-- for each row, 100,000 of them took 1.3 s.
select
  i.message_id, i.kind, i.key, (extract(epoch from i.message_time) * 1000)::int8 as message_time, i.fingerprint, i.fingerprint_version,
  i.attempts, i.holds, i.error, i.instance, i.properties, i.headers, i.body, i.body_length, i.body_digest
from semel.inbox i
left join lateral (
  select e.seq from semel.inbox e where e.consumer = i.consumer and e.key = i.key and e.holds order by e.seq limit 1
) first on true
where i.consumer = $1
  and i.due_at <= statement_timestamp()
  and (first.seq is null or i.seq <= first.seq)
order by i.priority desc, i.seq
limit $2
