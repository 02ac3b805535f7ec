select instance, crashes from semel_attempt where consumer = ?1 and message_id = ?2;
