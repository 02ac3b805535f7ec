update semel_inbox
set attempts = retried.attempts,
    due_at = cast(round(unixepoch('now', 'subsec') * 1000) as integer) + retried.delay,
    error = retried.error
from (
    select value->>'id' as id, value->>'attempts' as attempts, value->>'delay' as delay, value->>'error' as error from jsonb_each(?2)
) as retried
where consumer = ?1 and message_id = retried.id;
