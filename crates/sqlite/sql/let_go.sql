-- The window of a message that nobody holds any more starts now (law 25).
update semel_claim
set claimed_at = cast(round(unixepoch('now', 'subsec') * 1000) as integer)
where consumer = ?1 and message_id = ?2
  and not exists (select 1 from semel_inbox where consumer = ?1 and message_id = ?2)
  and not exists (select 1 from semel_dead_letter where consumer = ?1 and reference = ?2 and message_id = ?2);
