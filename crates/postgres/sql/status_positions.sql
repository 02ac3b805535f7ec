select c.name, p.source, p.unit, p.position
from semel.position p join semel.consumer c on c.number = p.consumer
order by c.name, p.source, p.unit
