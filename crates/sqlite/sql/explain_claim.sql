select claimed_at, fingerprint, fingerprint_version, message_time from semel_claim where consumer = ?1 and message_id = ?2;
