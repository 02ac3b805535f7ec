select distinct key from semel.inbox where consumer = $1 and holds and key is not null and key = any ($2::text[])
