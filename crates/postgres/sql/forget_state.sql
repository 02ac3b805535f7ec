-- $1 consumer · $2 message id · $3 the reasons whose dead letter stands beside a claim of its own; in a statement after the
-- lock. A dead letter for another reason is another message under this id, or none that was ever claimed.
select
  exists (select from semel.inbox where consumer = $1 and message_id = $2),
  exists (select from semel.dead_letter where consumer = $1 and message_id = $2 and reason = any ($3::text[]))
