-- How many places of one limit are taken.
-- KEYS: who holds what, and when each place ends, as for hold.lua. ARGV: now.
drop_ended(KEYS[1], KEYS[2])
return redis.call('ZCARD', KEYS[2])
