-- Tells something for a task, and leads it if nobody does; the rules are those of led_task.py.
-- KEYS: leader and findings, as a hash; what holders tell, as a hash; when that ends, as a sorted set.
-- ARGV: now, holder, lease (us), report.
-- Returns 1 or 0 for who leads, age (us) and text of what was found, and to who leads names and texts of the others.
local KEEP_MS = 3600 * 1000
local holder, ends, report = ARGV[2], now + ARGV[3], ARGV[4]
drop_ended(KEYS[2], KEYS[3])
if report == '' then
  redis.call('HDEL', KEYS[2], holder)
  redis.call('ZREM', KEYS[3], holder)
else
  redis.call('HSET', KEYS[2], holder, report)
  redis.call('ZADD', KEYS[3], ends, holder)
  redis.call('PEXPIRE', KEYS[2], KEEP_MS)
  redis.call('PEXPIRE', KEYS[3], KEEP_MS)
end
local task = redis.call('HMGET', KEYS[1], 'leader', 'ends', 'findings', 'at')
local leads = task[1] == holder or not task[1] or tonumber(task[2]) <= now
if leads then redis.call('HSET', KEYS[1], 'leader', holder, 'ends', string.format('%.0f', ends)) end
redis.call('PEXPIRE', KEYS[1], KEEP_MS)
local age = task[4] and now > tonumber(task[4]) and now - task[4] or 0
local answer = {leads and 1 or 0, string.format('%.0f', age), task[3] or ''}
if leads then
  local all = redis.call('HGETALL', KEYS[2])
  for i = 1, #all, 2 do
    if all[i] ~= holder then
      answer[#answer + 1] = all[i]
      answer[#answer + 1] = all[i + 1]
    end
  end
end
return answer
