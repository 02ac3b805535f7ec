-- The claim of a single message (law 1). No arrays: a plan for an array is made anew at every claim, since it depends on the length.
-- $1 consumer · $2 id · $3 fingerprint · $4 its version · $5 message time in ms · $6 lock_timeout for the claim ·
-- $7 limit for statements and for idling · $8 lock_timeout to go back to, or null
insert into semel.claim (consumer, message_id, fingerprint, fingerprint_version, message_time)
select $1, $2, $3, $4, to_timestamp($5::float8 / 1000)
from (
  -- In force before the insert can wait.
  select
    set_config('lock_timeout', $6, true), set_config('statement_timeout', $7, true), set_config('idle_in_transaction_session_timeout', $7, true)
  offset 0
) as limits
on conflict (consumer, message_id) do nothing
returning
  pg_current_xact_id()::text,
  exists (select from semel.inbox where consumer = $1 and holds and key is not null),
  case when $8::text is not null then set_config('lock_timeout', $8, true) end
