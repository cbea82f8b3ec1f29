-- Frees places of one limit, but not those that another holder has as well.
-- KEYS: as for hold.lua. ARGV: now, holder, identities.
for i = 3, #ARGV do
  local others, ends = other_holders(redis.call('HGET', KEYS[1], ARGV[i]), ARGV[2])
  if others == '' then
    redis.call('HDEL', KEYS[1], ARGV[i])
    redis.call('ZREM', KEYS[2], ARGV[i])
  else
    redis.call('HSET', KEYS[1], ARGV[i], others)
    redis.call('ZADD', KEYS[2], ends, ARGV[i])
  end
end
