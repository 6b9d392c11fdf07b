-- Takes what a request demands, if every limit has it. Times are in microseconds of this server's clock.
-- KEYS[1] holds since when missing buckets count from empty; 0 = they are full.
-- ARGV[1] is 1 if the caller has seen KEYS[1] before: if it is missing, this server has lost its state.
-- For each further key there are four arguments: an operation and
--   add     interval of a unit, units, burst    units are used, whether the bucket has them or not
--   merge   the same                            but the bucket does not come to have less than nothing by it
--   spend   -, amount, milliseconds             adds to a budget, which is kept for so long
--   budget  limit, known sum, milliseconds      demands that less than the limit is spent; the sum is at least the known one
--   rate    interval of a unit, units, burst    demands units
-- It returns for each budget and rate two texts: the sum, or in how many microseconds the bucket is full; and the microseconds to wait.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local since = redis.call('GET', KEYS[1])
if not since then
  since = ARGV[1] == '1' and string.format('%.0f', now) or '0'
  redis.call('SET', KEYS[1], since)
end
since = tonumber(since)

local function fullAt(key, burst)
  local at = redis.call('GET', key)
  if not at then
    at = since > 0 and since + burst or 0
  end
  return math.max(tonumber(at), now)
end

local function put(key, at, burst)
  redis.call('SET', key, string.format('%.0f', at), 'PX', math.ceil(math.max(at - now, burst) / 1000))
end

local answer, takes, allowed = {}, {}, true
for i = 2, #KEYS do
  local key, at = KEYS[i], 4 * i - 6
  local operation, a, b, c = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  if operation == 'add' then
    put(key, fullAt(key, c) + a * b, c)
  elseif operation == 'merge' then
    local full = fullAt(key, c)
    put(key, math.min(full + a * b, math.max(full, now + c)), c)
  elseif operation == 'spend' then
    redis.call('INCRBYFLOAT', key, ARGV[at + 2])
    redis.call('PEXPIRE', key, c)
  elseif operation == 'budget' then
    local spent = tonumber(redis.call('GET', key) or 0)
    if spent < b then
      spent = b
      redis.call('SET', key, ARGV[at + 2], 'PX', c)
    end
    allowed = allowed and spent < a
    table.insert(answer, string.format('%.17g', spent))
    table.insert(answer, '0')
  else
    local full = fullAt(key, c)
    local wait = math.max(full + a * b - now - c, 0)
    allowed = allowed and wait < 1
    table.insert(takes, {key, full + a * b, c, #answer + 1})
    table.insert(answer, string.format('%.0f', full - now))
    table.insert(answer, string.format('%.0f', wait < 1 and 0 or wait))
  end
end
if allowed then
  for _, take in ipairs(takes) do
    put(take[1], take[2], take[3])
    answer[take[4]] = string.format('%.0f', take[2] - now)
  end
end
return answer
