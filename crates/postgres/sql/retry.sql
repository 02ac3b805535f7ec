-- $1 consumer · $2 ids · $3 attempts · $4 delays in ms · $5 errors
update semel.inbox i
set attempts = g.attempts, due_at = clock_timestamp() + g.delay * interval '1 millisecond', error = g.error
from unnest($2::text[], $3::int4[], $4::int8[], $5::text[]) as g (id, attempts, delay, error)
where i.consumer = $1 and i.message_id = g.id
