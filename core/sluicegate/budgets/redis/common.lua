-- What all scripts begin with. ARGV[1]: now (us; 0 for the server's clock).
local VERSION, SECOND = '1', 1000000
local now = tonumber(ARGV[1])
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * SECOND + time[2]
end

-- When this fleet's budgets began, in us, or an error; they begin when they are asked first.
local function began(key)
  local text = redis.call('GET', key)
  if not text then
    redis.call('SET', key, VERSION .. ' ' .. string.format('%.0f', now))
    return now
  end
  local version, since = string.match(text, '^(%S+) (%d+)$')
  if version == VERSION then return tonumber(since) end
  return nil, redis.error_reply('OTHERVERSION ' .. (version or text))
end

-- Removes what has ended of a hash whose fields end at the scores of a sorted set.
local function drop_ended(hash, ends)
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', now)) do
    redis.call('HDEL', hash, name)
    redis.call('ZREM', ends, name)
  end
end

-- Who holds a place beside one holder, as `name\nend\n` for each, and when the last of their leases ends.
local function other_holders(held, one)
  local others, last = '', 0
  for name, ends in string.gmatch(held or '', '([^\n]*)\n(%d+)\n') do
    local at = tonumber(ends)
    if name ~= one and at > now then
      others, last = others .. name .. '\n' .. ends .. '\n', math.max(last, at)
    end
  end
  return others, last
end
