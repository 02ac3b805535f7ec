-- The claim of a first version that is given up passes to the message that replaces it.
update semel_claim
set fingerprint = ?3, fingerprint_version = ?4, message_time = ?5
where consumer = ?1 and message_id = ?2;
