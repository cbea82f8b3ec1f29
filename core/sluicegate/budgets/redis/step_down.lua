-- Leads a task no longer, and tells nothing for it. KEYS: as for attend.lua. ARGV: now, holder.
redis.call('HDEL', KEYS[2], ARGV[2])
redis.call('ZREM', KEYS[3], ARGV[2])
if redis.call('HGET', KEYS[1], 'leader') == ARGV[2] then redis.call('HSET', KEYS[1], 'ends', '0') end
return 0
