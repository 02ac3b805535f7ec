select c.name, d.reason, count(*)
from semel.dead_letter d join semel.consumer c on c.number = d.consumer
group by c.name, d.reason
