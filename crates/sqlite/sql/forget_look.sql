-- Where the message of this claim is (§2): ?3 lists the reasons whose dead letter stands beside a claim of its own.
select named.number,
       exists (select 1 from semel_claim where consumer = named.number and message_id = ?2) as claimed,
       exists (select 1 from semel_inbox where consumer = named.number and message_id = ?2) as waits,
       exists (
           select 1 from semel_dead_letter
           where consumer = named.number and reference = ?2 and message_id = ?2 and reason in (select value from json_each(?3))
       ) as dead
from semel_consumer as named
where name = ?1;
