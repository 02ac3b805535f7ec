-- The same letter again raises `seen`, and the answer says so. Beyond ?17 different contents of one message the newest one is raised
-- instead (law 30); letters without any reference are no variants of one message.
with letter (fingerprint) as (
    select case
        when ?2 = ''
          or (select count(*) from semel_dead_letter where consumer = ?1 and reference = ?2 and reason = ?3) < ?17
          or exists (select 1 from semel_dead_letter where consumer = ?1 and reference = ?2 and reason = ?3 and fingerprint = ?4)
        then ?4
        else (select fingerprint from semel_dead_letter where consumer = ?1 and reference = ?2 and reason = ?3 order by number desc limit 1)
    end
)
insert into semel_dead_letter (
    consumer, reference, reason, fingerprint, fingerprint_version, message_id, kind, key, message_time, error, attempts,
    headers, body, body_length, body_digest, properties, first_at, last_at
)
select ?1, ?2, ?3, fingerprint, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, now, now
from letter, (select cast(round(unixepoch('now', 'subsec') * 1000) as integer) as now)
where true
on conflict (consumer, reference, reason, fingerprint) do update set seen = seen + 1, last_at = excluded.last_at
returning seen > 1 and fingerprint = ?4;
