-- Ends a membership, unless another instance of the same name has joined. KEYS: as for join.lua. ARGV: now, name, instance.
local there = redis.call('HGET', KEYS[1], ARGV[2])
if there and there:match('^.([^\n]*)\n') == ARGV[3] then
  redis.call('HDEL', KEYS[1], ARGV[2])
  redis.call('ZREM', KEYS[2], ARGV[2])
end
