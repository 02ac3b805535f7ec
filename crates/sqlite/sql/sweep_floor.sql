-- Raises the floor to the newest message time of the page that `sweep_delete.sql` deletes (law 26).
insert into semel_floor (consumer, message_time)
select ?1, max(message_time)
from (
    select message_time
    from semel_claim as claim
    where claim.consumer = ?1 and claim.claimed_at < ?2
      and not exists (select 1 from semel_inbox where consumer = ?1 and message_id = claim.message_id)
      and not exists (
          select 1 from semel_dead_letter
          where consumer = ?1 and reference = claim.message_id and message_id = claim.message_id
      )
    order by claim.claimed_at, claim.message_id
    limit ?3
)
having max(message_time) is not null
on conflict (consumer) do update set message_time = max(message_time, excluded.message_time);
