-- The claim (law 1): the primary key is the referee, and the answer is which rows came back. Sorted by the caller (law 4).
-- $1 consumer · $2 ids · $3 fingerprints · $4 their versions · $5 message times in ms · $6 lock_timeout for the claim ·
-- $7 limit for statements and for idling · $8 lock_timeout to go back to, or null
with limits as materialized (
  -- Read by the insert, so in force before it can wait.
  select
    set_config('lock_timeout', $6, true), set_config('statement_timeout', $7, true), set_config('idle_in_transaction_session_timeout', $7, true)
), claimed as (
  insert into semel.claim (consumer, message_id, fingerprint, fingerprint_version, message_time)
  select $1, k.id, k.fingerprint, k.version, to_timestamp(k.time::float8 / 1000)
  from limits, unnest($2::text[], $3::bytea[], $4::int2[], $5::int8[]) as k (id, fingerprint, version, time)
  on conflict (consumer, message_id) do nothing
  returning message_id
)
-- An aggregate: what stands beside it is evaluated when all of "claimed" was read, so the transaction has its number by then, and only then
-- does the wait for twins end (law 8).
select
  count(*),
  case when count(*) < cardinality($2::text[]) then array_agg(message_id) end,
  pg_current_xact_id_if_assigned()::text,
  exists (select from semel.inbox where consumer = $1 and holds and key is not null),
  case when $8::text is not null then set_config('lock_timeout', $8, true) end
from claimed
