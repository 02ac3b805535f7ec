-- $1 consumer · $2 ids: they wait no longer, and their window starts now (law 25)
with gone as (
  delete from semel.inbox where consumer = $1 and message_id = any ($2::text[])
)
update semel.claim set claimed_at = clock_timestamp() where consumer = $1 and message_id = any ($2::text[])
