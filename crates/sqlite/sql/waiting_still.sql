-- Which of these messages wait with exactly so many attempts.
select message_id
from jsonb_each(?2) cross join semel_inbox
where consumer = ?1 and message_id = value->>0 and attempts = value->>1;
