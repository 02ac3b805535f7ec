-- $1 consumer · $2 message id: nothing waits under this claim any more, so its window starts now (law 25)
update semel.claim c
set claimed_at = clock_timestamp()
where c.consumer = $1 and c.message_id = $2
  and not exists (select from semel.inbox i where i.consumer = $1 and i.message_id = $2)
  and not exists (select from semel.dead_letter d where d.consumer = $1 and d.message_id = $2)
