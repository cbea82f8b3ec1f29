-- Makes a process a member of the fleet, or keeps it one; the rules are those of fleet_members.py.
-- KEYS: what members are, as a hash; when they end, as a sorted set.
-- ARGV: now, lease (us), name (of gateway and worker), instance, again (1 or 0), info.
-- Returns how many members there are, below 0 if another process of this name has joined again.
local name, instance, again = ARGV[3], ARGV[4], ARGV[5]
drop_ended(KEYS[1], KEYS[2])
local there = redis.call('HGET', KEYS[1], name)
redis.call('HSET', KEYS[1], name, again .. instance .. '\n' .. ARGV[6])
redis.call('ZADD', KEYS[2], now + ARGV[2], name)
local count = redis.call('ZCARD', KEYS[2])
if there and again == '1' and there:sub(1, 1) == '1' and instance ~= there:match('^.([^\n]*)\n') then
  return -count
end
return count
