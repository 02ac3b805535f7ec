select exists (select 1 from semel_inbox where consumer = ?1 and holds and key is not null);
