-- $1 consumer · $2 how many. A row stands behind every earlier one of its key that holds, due or not.
select
  i.message_id, i.kind, i.key, (extract(epoch from i.message_time) * 1000)::int8 as message_time, i.fingerprint, i.fingerprint_version,
  i.attempts, i.holds, i.error, i.instance, i.properties, i.headers, i.body, i.body_length, i.body_digest
from semel.inbox i
where i.consumer = $1
  and i.due_at <= statement_timestamp()
  and not exists (select from semel.inbox e where e.consumer = i.consumer and e.key = i.key and e.holds and e.seq < i.seq)
order by i.priority desc, i.seq
limit $2
