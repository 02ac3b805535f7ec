select kind, key, attempts, due_at, error, since from semel_inbox where consumer = ?1 and message_id = ?2;
