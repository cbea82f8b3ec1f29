-- Frees places of one limit, but not those that another holder has taken over.
-- KEYS: as for hold.lua. ARGV: now, holder, identities.
for i = 3, #ARGV do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[2] then
    redis.call('HDEL', KEYS[1], ARGV[i])
    redis.call('ZREM', KEYS[2], ARGV[i])
  end
end
