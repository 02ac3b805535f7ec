-- The first step of a sweep: which claims may go, and the floor before they do (law 26). What waits or is a dead letter
-- stays (law 25).
-- $1 consumer · $2 window in ms · $3 how many
with old as (
  select c.message_id, c.message_time
  from semel.claim c
  where c.consumer = $1
    and c.claimed_at < statement_timestamp() - $2 * interval '1 millisecond'
    and not exists (select from semel.inbox i where i.consumer = c.consumer and i.message_id = c.message_id)
    and not exists (select from semel.dead_letter d where d.consumer = c.consumer and d.message_id = c.message_id)
  order by c.claimed_at
  limit $3
),
raised as (
  insert into semel.floor as f (consumer, message_time)
  select $1, max(message_time) from old having max(message_time) is not null
  on conflict (consumer) do update set message_time = greatest(f.message_time, excluded.message_time)
)
select array_agg(message_id) from old
