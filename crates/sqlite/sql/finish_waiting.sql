-- The messages leave the inbox, and their window starts now (law 25).
delete from semel_inbox where consumer = ?1 and message_id in (select value from json_each(?2));

update semel_claim
set claimed_at = cast(round(unixepoch('now', 'subsec') * 1000) as integer)
where consumer = ?1 and message_id in (select value from json_each(?2));
