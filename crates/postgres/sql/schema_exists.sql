select to_regclass('semel.migration') is not null
