insert into semel_claim (consumer, message_id, fingerprint, fingerprint_version, message_time)
values (?1, ?2, ?3, ?4, ?5)
on conflict do nothing;
