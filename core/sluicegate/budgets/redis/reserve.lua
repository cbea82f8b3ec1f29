-- Leases tokens of several limits; the law is that of central.py.
-- KEYS: one bucket for each limit.
-- ARGV: now (us; 0 for the server's clock), since (us; when this store began), lease (us), forgotten (us), holder,
--       and for each limit: rate, burst, want, kept, need, known (1 or 0).
-- Returns, in one string, for each limit: tokens, holders, demand.
-- A bucket is {level, updated, rate, burst, {name, rate, burst, want, leased, asked}, ...}.
local SECOND, ALMOST, KEEP_MS = 1000000, 1e-9, 3600000
local now, since, lease, forgotten = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local holder = ARGV[5]
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * SECOND + time[2]
end
local LEVEL, UPDATED, LOW_RATE, LOW_BURST, FIRST = 1, 2, 3, 4, 5
local NAME, RATE, BURST, WANT, LEASED, ASKED = 1, 2, 3, 4, 5, 6

-- The largest part that each may have of what they lack, so that those who lack less get all of it.
local function fair_part(bucket, supply)
  local wants, sum = {}, 0
  for i = FIRST, #bucket do
    local lacking = math.max(0, bucket[i][WANT] - bucket[i][LEASED])
    wants[#wants + 1] = lacking
    sum = sum + lacking
  end
  if sum <= supply then return supply end
  table.sort(wants)
  for i, want in ipairs(wants) do
    local part = supply / (#wants - i + 1)
    if want > part then return part end
    supply = supply - want
  end
  return supply
end

local function leased(bucket)
  local sum = 0
  for i = FIRST, #bucket do sum = sum + bucket[i][LEASED] end
  return sum
end

local function fill(bucket, till)
  if till > bucket[UPDATED] then
    local room = bucket[LOW_BURST] - bucket[LEVEL] - leased(bucket)
    local gained = (till - bucket[UPDATED]) * bucket[LOW_RATE] / SECOND
    bucket[LEVEL] = bucket[LEVEL] + math.max(0, math.min(room, gained))
    bucket[UPDATED] = till
  end
end

-- Refills for the time since the last request, step by step to the end of each lease.
local function refill(bucket, at)
  local ended
  for i = FIRST, #bucket do
    if bucket[i][ASKED] + lease <= at then
      ended = ended or {}
      ended[#ended + 1] = bucket[i]
    end
  end
  if ended then
    table.sort(ended, function(a, b)
      if a[ASKED] ~= b[ASKED] then return a[ASKED] < b[ASKED] end
      return a[NAME] < b[NAME]
    end)
    for _, share in ipairs(ended) do
      fill(bucket, share[ASKED] + lease)
      share[LEASED] = 0
    end
    for i = #bucket, FIRST, -1 do
      if bucket[i][ASKED] + forgotten <= at then table.remove(bucket, i) end
    end
  end
  fill(bucket, at)
end

-- The share of this holder, a new one if it has none, and its place in the bucket.
local function own_share(bucket)
  for i = FIRST, #bucket do
    if bucket[i][NAME] == holder then return bucket[i], i end
  end
  bucket[#bucket + 1] = {holder, 0, 0, 0, 0, 0}
  return bucket[#bucket], #bucket
end

-- The lowest rate and burst that any holder knows.
local function follow_limits(bucket)
  local rate, burst = math.huge, math.huge
  for i = FIRST, #bucket do
    rate = math.min(rate, bucket[i][RATE])
    burst = math.min(burst, bucket[i][BURST])
  end
  bucket[LOW_RATE], bucket[LOW_BURST] = rate, burst
end

local function reserve(bucket, rate, burst, want, kept, need)
  local at = math.max(now, bucket[UPDATED])
  refill(bucket, at)
  local share, index = own_share(bucket)
  kept = math.min(kept, share[LEASED])
  share[RATE], share[BURST], share[WANT], share[LEASED], share[ASKED] = rate, burst, want, 0, at
  follow_limits(bucket)
  rate, burst = bucket[LOW_RATE], bucket[LOW_BURST]
  local granted = math.min(kept, want)
  bucket[LEVEL] = math.min(bucket[LEVEL] + kept, burst - leased(bucket)) - granted
  if want > granted then
    share[LEASED] = granted
    local supply = math.max(bucket[LEVEL], 0) + rate * lease / SECOND / 2
    local more = math.max(0, math.min(want - granted, bucket[LEVEL], fair_part(bucket, supply)))
    bucket[LEVEL], granted = bucket[LEVEL] - more, granted + more
    share[LEASED] = 0
    local full = bucket[LEVEL] + leased(bucket) + granted >= burst * (1 - ALMOST)
    if need > math.max(granted, burst) and full then
      bucket[LEVEL], granted = bucket[LEVEL] - (need - granted), need
    end
  end
  share[LEASED] = granted
  local holders, demand = 0, 0
  for i = FIRST, #bucket do
    if bucket[i][WANT] > 0 then holders = holders + 1 end
    demand = demand + bucket[i][WANT]
  end
  if want == 0 then table.remove(bucket, index) end
  return granted, holders, demand
end

local answer = {}
for i, key in ipairs(KEYS) do
  local arg = 6 * i - 1
  local rate, burst = tonumber(ARGV[arg + 1]), tonumber(ARGV[arg + 2])
  local packed = redis.call('GET', key)
  local bucket
  if packed then
    bucket = cmsgpack.unpack(packed)
  else
    local level = 0
    if ARGV[arg + 6] ~= '1' then level = math.min(burst, rate * (now - since) / SECOND) end
    bucket = {level, now, rate, burst}
  end
  local want, kept, need = tonumber(ARGV[arg + 3]), tonumber(ARGV[arg + 4]), tonumber(ARGV[arg + 5])
  local tokens, holders, demand = reserve(bucket, rate, burst, want, kept, need)
  answer[i] = string.format('%.17g %d %.17g', tokens, holders, demand)
  local keep_ms = math.ceil(math.max(KEEP_MS, 2000 * burst / rate))
  redis.call('SET', key, cmsgpack.pack(bucket), 'PX', keep_ms)
end
return table.concat(answer, ' ')
