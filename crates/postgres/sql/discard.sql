-- $1 number. The message's window starts now (law 25), unless it still waits or is a dead letter otherwise.
with gone as (
  delete from semel.dead_letter where number = $1 returning consumer, message_id
),
stamped as (
  update semel.claim c
  set claimed_at = clock_timestamp()
  from gone g
  where c.consumer = g.consumer
    and c.message_id = g.message_id
    and not exists (select from semel.inbox i where i.consumer = g.consumer and i.message_id = g.message_id)
    and not exists (
      select from semel.dead_letter d where d.consumer = g.consumer and d.message_id = g.message_id and d.number <> $1
    )
)
select count(*) from gone
