-- Takes places of one limit, or keeps those that are held; the rules are those of places.py.
-- KEYS: who holds what, as a hash; when each place ends, as a sorted set; how many places there are as each
--       holder said last, as a hash.
-- ARGV: now, since (us; when this fleet's budgets began), lease (us), holder,
--       and for each place: identity, most, known (1 or 0).
-- Returns for each place -1, -2 if it is too soon to say, or how many are taken so that none is left for it.
local since, lease, holder = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local finish, said_by_others = string.format('%.0f', now + lease), nil

-- The lowest number of places that another holder knows.
local function lowest_of_others()
  if not said_by_others then
    said_by_others = math.huge
    local said = redis.call('HGETALL', KEYS[3])
    for i = 1, #said, 2 do
      local most, ends = string.match(said[i + 1], '^(%d+) (%d+)$')
      if tonumber(ends) <= now then
        redis.call('HDEL', KEYS[3], said[i])
      elseif said[i] ~= holder then
        said_by_others = math.min(said_by_others, tonumber(most))
      end
    end
  end
  return said_by_others
end

local function hold(identity, most, known)
  local held = redis.call('HGET', KEYS[1], identity)
  if not held and not known then
    local taken = redis.call('ZCARD', KEYS[2])
    if taken >= math.min(most, lowest_of_others()) then return taken end
    if now < since + lease then return -2 end
  end
  redis.call('ZADD', KEYS[2], now + lease, identity)
  redis.call('HSET', KEYS[1], identity, other_holders(held, holder) .. holder .. '\n' .. finish .. '\n')
  return -1
end

drop_ended(KEYS[1], KEYS[2])
local answer = {}
for i = 5, #ARGV, 3 do
  answer[#answer + 1] = hold(ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2] == '1')
end
redis.call('HSET', KEYS[3], holder, ARGV[#ARGV - 1] .. ' ' .. finish)
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, math.ceil(2 * lease / 1000)) end
return answer
