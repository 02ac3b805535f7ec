update semel_inbox
set attempts = ?3, due_at = cast(round(unixepoch('now', 'subsec') * 1000) as integer) + ?4, error = ?5
where consumer = ?1 and message_id = ?2;
