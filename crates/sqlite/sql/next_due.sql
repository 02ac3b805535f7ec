-- Only those that nothing holds: one behind another of its key is not due before that one has gone, however early its own time.
select max(0, due_at - cast(round(unixepoch('now', 'subsec') * 1000) as integer))
from semel_inbox as waiting
where waiting.consumer = ?1
  and not exists (
      select 1 from semel_inbox as earlier
      where earlier.consumer = waiting.consumer and earlier.key = waiting.key and earlier.holds and earlier.seq < waiting.seq
  )
order by due_at
limit 1;
