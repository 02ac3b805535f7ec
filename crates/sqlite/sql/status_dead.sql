select consumer, reason, count(*) as letters from semel_dead_letter group by consumer, reason;
