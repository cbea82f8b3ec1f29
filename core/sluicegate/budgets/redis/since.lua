-- When this store began, in us of its clock; it begins when it is asked first.
-- KEYS: where that is kept. ARGV: now (us; 0 for the server's clock).
local since = redis.call('GET', KEYS[1])
if since then return since end
local now = ARGV[1]
if now == '0' then
  local time = redis.call('TIME')
  now = string.format('%.0f', time[1] * 1000000 + time[2])
end
redis.call('SET', KEYS[1], now)
return now
