-- Whoever keeps committed ids in memory sees the new epoch and drops them (law 5).
delete from semel_claim where consumer = ?1 and message_id = ?2;

update semel_consumer set epoch = epoch + 1 where number = ?1;
