-- What is stored of these ids; the last row says whether keys must be looked at. The cross join keeps the claims on the inner side: each
-- id is one look at the primary key.
select message_id, fingerprint, fingerprint_version
from json_each(?2) cross join semel_claim
where consumer = ?1 and message_id = value;

select exists (select 1 from semel_inbox where consumer = ?1 and holds and key is not null);
