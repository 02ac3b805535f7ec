-- The second step, in another transaction: exactly those, unless they were stamped anew or came to wait in between.
-- $1 consumer · $2 window in ms · $3 ids
delete from semel.claim c
where c.consumer = $1
  and c.message_id = any ($3::text[])
  and c.claimed_at < statement_timestamp() - $2 * interval '1 millisecond'
  and not exists (select from semel.inbox i where i.consumer = c.consumer and i.message_id = c.message_id)
  and not exists (select from semel.dead_letter d where d.consumer = c.consumer and d.message_id = c.message_id)
