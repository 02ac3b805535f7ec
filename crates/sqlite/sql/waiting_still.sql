-- Which of these messages wait with exactly so many attempts; the last row says whether keys must be looked at.
select message_id
from jsonb_each(?2) cross join semel_inbox
where consumer = ?1 and message_id = value->>0 and attempts = value->>1;

select exists (select 1 from semel_inbox where consumer = ?1 and holds and key is not null);
