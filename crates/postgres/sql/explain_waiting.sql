-- $1 a consumer's name, or null for all · $2 message id
select
  c.name, i.kind, i.key, i.attempts, (extract(epoch from i.due_at) * 1000)::int8, i.error, (extract(epoch from i.since) * 1000)::int8
from semel.consumer c join semel.inbox i on i.consumer = c.number and i.message_id = $2
where $1::text is null or c.name = $1
