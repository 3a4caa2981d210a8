-- One event of a shared window: reads what the window comes to, and adds the event, in one round trip.
-- KEYS: the key's hash, the window's marks.
-- The same rules as span.rs, tally.rs and warmth.rs, which explain them; a test runs both on the same events.
local numeric = ARGV[1] == 'number'
local bucket, count, gain = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local current, write = ARGV[5] == '1', ARGV[6] == '1'
local at, last, width, wall = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local values_max, key_lives, marks_live = tonumber(ARGV[11]), ARGV[12], ARGV[13]

local function exact(number)
    return string.format('%.17g', number)
end

local heads = redis.call('HMGET', KEYS[1], 'newest', 'overflow')
local newest, overflow = tonumber(heads[1]), tonumber(heads[2])
if newest and bucket < newest - count then
    return { 'late', '0', '0', '0' }
end
local first = bucket - count
local latest = newest
if write and not (newest and newest >= bucket) then
    latest = bucket
end

local total, sum, this_count, this_sum = 0, 0, 0, 0
local held, known, gone = 0, false, {}
if numeric then
    local names = {}
    for b = first, bucket do
        names[#names + 1] = 'b' .. exact(b)
    end
    for place, cell in ipairs(redis.call('HMGET', KEYS[1], unpack(names))) do
        if cell then
            local events, added = string.match(cell, '^(%d+) (%S+)$')
            if place == #names then
                this_count, this_sum = tonumber(events), tonumber(added)
            else
                total, sum = total + tonumber(events), sum + tonumber(added)
            end
        end
    end
    if newest and latest > newest then
        for b = newest - 2 * count, math.min(newest, latest - 2 * count - 1) do
            gone[#gone + 1] = 'b' .. exact(b)
        end
    end
else
    local seen = {}
    for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
        local b, value = string.match(name, '^v(%S+) (%x+)$')
        b = tonumber(b)
        if b then
            if latest and b < latest - 2 * count then
                gone[#gone + 1] = name
            else
                held = held + 1
                known = known or (value == gain and b == bucket)
            end
            if b >= first and b <= bucket and not seen[value] then
                seen[value] = true
                total = total + 1
            end
        end
    end
    if current and gain ~= '' and not seen[gain] then
        total = total + 1
    end
end

local marks = redis.call('HMGET', KEYS[2], 'since', 'newest', 'wall')
local since = tonumber(marks[1])
if write then
    if #gone > 0 then
        redis.call('HDEL', KEYS[1], unpack(gone))
    end
    redis.call('HSET', KEYS[1], 'newest', exact(latest))
    if numeric then
        local cell = exact(this_count + 1) .. ' ' .. exact(this_sum + tonumber(gain))
        redis.call('HSET', KEYS[1], 'b' .. exact(bucket), cell)
    elseif not known then
        if held >= values_max then
            redis.call('HSET', KEYS[1], 'overflow', exact(math.max(overflow or bucket, bucket)))
        else
            redis.call('HSET', KEYS[1], 'v' .. exact(bucket) .. ' ' .. gain, '')
        end
    end
    redis.call('PEXPIRE', KEYS[1], key_lives)
    local before = tonumber(marks[2])
    if not since or at >= before + width then
        local gap = since and at - before
        if not since or (gap > last and gap > wall - tonumber(marks[3]) + last) then
            since = at
        else
            -- One that came late must not make the next, which does not, look like a leap.
            wall = math.min(wall, tonumber(marks[3]) + gap)
        end
        redis.call('HSET', KEYS[2], 'since', exact(since), 'newest', exact(at), 'wall', exact(wall))
        redis.call('PEXPIRE', KEYS[2], marks_live)
    end
end

if numeric and current and gain ~= '' then
    this_count, this_sum = this_count + 1, this_sum + tonumber(gain)
end
local warm = since and at - since >= last
local saturated = overflow and overflow >= first and overflow <= bucket
return { warm and 'warm' or 'warming', exact(total + this_count), exact(sum + this_sum), saturated and '1' or '0' }
