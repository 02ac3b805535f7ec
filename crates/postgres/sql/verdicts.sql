-- What was claimed before, in a statement of its own: it sees a twin that committed while the claim waited.
-- $1 consumer · $2 ids · $3 lock_timeout to go back to after a claim, or null
select
  array_agg(message_id),
  array_agg(coalesce(fingerprint, '')),
  array_agg(fingerprint_version),
  exists (select from semel.inbox where consumer = $1 and holds and key is not null),
  case when $3::text is not null then set_config('lock_timeout', $3, true) end
from semel.claim
where consumer = $1 and message_id = any ($2::text[])
