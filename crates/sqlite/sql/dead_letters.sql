select letter.number, named.name as consumer, seen, first_at, last_at, reason, message_id, kind, key, message_time,
       fingerprint, fingerprint_version, error, attempts, headers, body, body_length, body_digest, properties
from semel_dead_letter as letter
join semel_consumer as named on named.number = letter.consumer
where letter.number > ?1
  and (?2 is null or named.name = ?2)
  and (?3 is null or reason = ?3)
  and (?4 is null or reference = ?4)
  and (?5 is null or letter.number = ?5)
order by letter.number
limit ?6;
