-- All members. KEYS: as for join.lua. ARGV: now. Returns name and value of each.
drop_ended(KEYS[1], KEYS[2])
return redis.call('HGETALL', KEYS[1])
