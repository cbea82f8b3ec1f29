-- Takes places of one limit, or keeps those that are held; the rules are those of places.py.
-- KEYS: who holds what, as a hash; when each place ends, as a sorted set.
-- ARGV: now, since (us; when this fleet's budgets began), lease (us), holder,
--       and for each place: identity, most, known (1 or 0).
-- Returns for each place -1, or how many are taken so that none is left for it.
local since, lease, holder = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
drop_ended(KEYS[1], KEYS[2])
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
