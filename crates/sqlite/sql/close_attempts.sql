delete from semel_attempt where consumer = ?1 and message_id in (select value from json_each(?2));
