-- Takes places of one limit, or keeps those that are held; the rules are those of places.py.
-- KEYS: who holds what, as a hash; when each place ends, as a sorted set.
-- ARGV: now (us; 0 for the server's clock), since (us; when this store began), lease (us), holder,
--       and for each place: identity, most, known (1 or 0).
-- Returns for each place -1, or how many are taken so that none is left for it.
local now, since, lease, holder = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local ended = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)
for _, identity in ipairs(ended) do
  redis.call('HDEL', KEYS[1], identity)
  redis.call('ZREM', KEYS[2], identity)
end
local answer = {}
for i = 1, (#ARGV - 4) / 3 do
  local identity, most, known = ARGV[3 * i + 2], tonumber(ARGV[3 * i + 3]), ARGV[3 * i + 4] == '1'
  local held = redis.call('ZSCORE', KEYS[2], identity)
  local taken = redis.call('ZCARD', KEYS[2])
  if not held and (taken >= most or not (known or now >= since + lease)) then
    answer[i] = taken
  else
    redis.call('ZADD', KEYS[2], now + lease, identity)
    redis.call('HSET', KEYS[1], identity, holder)
    answer[i] = -1
  end
end
local keep_ms = math.ceil(2 * lease / 1000)
redis.call('PEXPIRE', KEYS[1], keep_ms)
redis.call('PEXPIRE', KEYS[2], keep_ms)
return answer
