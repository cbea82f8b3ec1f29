-- Leases tokens of several limits; the law and its words are those of central.py.
-- KEYS: one bucket for each limit, then where it is kept when this fleet's budgets began.
-- ARGV: now, lease (us), since (us; empty if the last key is there to say),
--       and for each limit ten doubles: rate, burst, want, seconds, kept, tokens and generation of the last
--       grant (-1 for none), need, known (1 or 0), away.
-- Returns for each limit four doubles: tokens, generation, holders, demand.
-- A bucket is the doubles that CentralBucket keeps, in its order.
local ALMOST, KEEP_MS, KEEP_AGAIN, STATE, ASKED, ANSWER = 1e-9, 5400000, 1800 * SECOND, '<ddddddddddddddddd', '<dddddddddd', '<dddd'
local pack, unpack_doubles, call, floor, huge = struct.pack, struct.unpack, redis.call, math.floor, math.huge
local lease, since, other = tonumber(ARGV[2]), tonumber(ARGV[3]), nil
if not since then
  since, other = began(table.remove(KEYS))
  if other then return other end
end

local function reserve(key, packed, asked)
  local limit_rate, limit_burst, want, seconds, kept, last_tokens, last, need, known, away =
    unpack_doubles(ASKED, ARGV[4], asked)
  local level, updated, rate, burst, low_rate, low_burst, before, leased, part
  local taken, lacking, holders, demand, were_lacking, were_holders, was_demand, waiting
  if packed then
    level, updated, rate, burst, low_rate, low_burst, before, leased, part,
      taken, lacking, holders, demand, were_lacking, were_holders, was_demand, waiting = unpack_doubles(STATE, packed)
  end
  local is_new = not packed or now < updated - lease
  if is_new then
    local refilling = now - since - lease
    level, before, leased = 0, 0, 0
    if packed or known == 1 or refilling < 0 then
      leased = limit_burst
    else
      level = math.min(math.max(0, refilling / SECOND - away) * limit_rate, limit_burst)
    end
    updated, rate, burst, low_rate, low_burst, part = now, limit_rate, limit_burst, huge, huge, limit_rate
    taken, lacking, holders, demand, were_lacking, were_holders, was_demand, waiting = 0, 0, 0, 0, 0, 0, 0, 0
  end
  -- Settle.
  local at = now > updated and now or updated
  local is_kept = not is_new and floor(at / KEEP_AGAIN) == floor(updated / KEEP_AGAIN)
  local till, finish, ended = at - away * SECOND, (floor(updated / lease) + 1) * lease, 0
  while true do
    local stop, is_end = till, ended < 2 and finish <= at
    if is_end and finish < till then stop = finish end
    if stop > updated then
      local room, gained = burst - level - before - leased, (stop - updated) * rate / SECOND
      if gained > room then gained = room end
      if gained > 0 then level = level + gained end
      updated = stop
    end
    if not is_end then break end
    if holders > 0 then
      local target = rate * lease / SECOND
      target = (burst < target and burst or target) / 4
      local supply = rate + (level - target) / 2 * SECOND / lease
      part = part + (supply - taken) / 2 / (lacking > 1 and lacking or 1)
      if supply / holders > part then part = supply / holders end
      local most = supply > rate and supply or rate
      if part > most then part = most elseif part < 0 then part = 0 end
    end
    if low_rate < huge then rate, burst = low_rate, low_burst end
    low_rate, low_burst, before, leased = huge, huge, leased, 0
    were_lacking, were_holders, was_demand = lacking, holders, demand
    taken, lacking, holders, demand = 0, 0, 0, 0
    finish, ended = finish + lease, ended + 1
  end
  updated = at
  -- Follow the limit.
  if ended > 1 or limit_rate < rate then rate = limit_rate end
  if ended > 1 or limit_burst < burst then burst = limit_burst end
  if limit_rate < low_rate then low_rate = limit_rate end
  if limit_burst < low_burst then low_burst = limit_burst end
  -- Count the holder.
  local generation = floor(updated / lease)
  if want > 0 and last ~= generation then
    local wanted = want / seconds
    holders, demand = holders + 1, demand + wanted
    if wanted > part then
      taken, lacking = taken + part, lacking + 1
    else
      taken = taken + wanted
    end
  end
  -- End its last lease.
  local held = 0
  if last == generation then
    held = last_tokens < leased and last_tokens or leased
    leased = leased - held
  elseif last == generation - 1 then
    held = last_tokens < before and last_tokens or before
    before = before - held
  end
  local granted = kept < want and kept or want
  if need > limit_burst then granted = 0 end
  if held < kept then kept = held end
  if kept < granted then granted = kept end
  local room = burst - before - leased
  level = (level + kept < room and level + kept or room) - granted
  -- More than it keeps.
  local more = 0
  if need > burst then
    if level + granted >= burst * (1 - ALMOST) then
      waiting, more = 0, need - granted
    else
      waiting = updated + lease
    end
  elseif updated >= waiting then
    local target = rate * lease / SECOND
    target = (burst < target and burst or target) / 4
    local spare = level > 2 * target and level - target or 0
    local most = lacking > were_lacking and lacking or were_lacking
    most = part * seconds + spare / (most > 1 and most or 1)
    more = (want < most and want or most) - granted
    if want > 0 and level > burst / 2 then
      local sharing = holders > were_holders and holders or were_holders
      more = more + (level - burst / 2) / 4 / (sharing > 1 and sharing or 1)
    end
    if more > level then more = level end
    if more < 0 then more = 0 end
  end
  level, leased = level - more, leased + (granted + more)
  local state = pack(STATE, level, updated, rate, burst, low_rate, low_burst, before, leased, part,
    taken, lacking, holders, demand, were_lacking, were_holders, was_demand, waiting)
  if is_kept then
    call('SET', key, state, 'KEEPTTL')
  else  -- An expiry costs the server as much as all of the above.
    local keep_ms = 2000 * burst / rate
    call('SET', key, state, 'PX', keep_ms > KEEP_MS and math.ceil(keep_ms) or KEEP_MS)
  end
  return pack(ANSWER, granted + more, generation, holders > were_holders and holders or were_holders,
    demand > was_demand and demand or was_demand)
end

local states, answer = call('MGET', unpack(KEYS)), {}
for i, key in ipairs(KEYS) do answer[i] = reserve(key, states[i], 80 * i - 79) end
return table.concat(answer)
