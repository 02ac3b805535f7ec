-- Takes waiting messages: ours are those that still have the attempts we know, and that nobody else has locked.
-- $1 consumer · $2 ids · $3 their attempts · $4 limit for statements and for idling
with locked as (
  select i.message_id
  from semel.inbox i
  where i.consumer = $1 and i.message_id = any ($2::text[]) and i.attempts = ($3::int4[])[array_position($2::text[], i.message_id)]
  for update skip locked
)
select
  array_agg(message_id),
  pg_current_xact_id_if_assigned()::text,
  exists (select from semel.inbox where consumer = $1 and holds and key is not null),
  set_config('statement_timeout', $4, true) || set_config('idle_in_transaction_session_timeout', $4, true)
from locked
