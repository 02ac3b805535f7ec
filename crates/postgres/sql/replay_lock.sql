-- $1 number of a dead letter. In one order everywhere: letters by number, then the claim.
select consumer, reason, message_id from semel.dead_letter where number = $1 for update
