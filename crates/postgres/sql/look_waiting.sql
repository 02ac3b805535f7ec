-- $1 consumer · $2 ids · $3 their attempts: those that still wait with these attempts
select
  array_agg(i.message_id),
  exists (select from semel.inbox where consumer = $1 and holds and key is not null)
from semel.inbox i
where i.consumer = $1 and i.message_id = any ($2::text[]) and i.attempts = ($3::int4[])[array_position($2::text[], i.message_id)]
