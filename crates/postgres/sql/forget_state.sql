-- $1 consumer · $2 message id, in a statement after the lock
select
  exists (select from semel.inbox where consumer = $1 and message_id = $2),
  exists (select from semel.dead_letter where consumer = $1 and message_id = $2)
