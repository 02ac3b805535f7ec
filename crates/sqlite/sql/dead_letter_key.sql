select consumer, reason, message_id from semel_dead_letter where number = ?1;
