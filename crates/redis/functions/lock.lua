-- Lease locks. A lock is one hash under one key; times are milliseconds of this server's clock.
--
-- token        the highest fencing token given: it never goes back, so that it outlives the lease
-- owner        who got it            label       what it calls itself
-- since        when it was given     expires     when the lease ends
-- ended        '' | 'released' | 'expired': an end that was told to somebody stays one, whatever the clock does
-- last_token, last_outcome, last_kind, last_text, last_at    the last attempt to release it

-- Above it, numbers of Lua are not exact.
local TOKEN_MAX = 9007199254740991
local TTL_MIN, TTL_MAX = 100, 86400000
local OWNER_MAX, LABEL_MAX, TEXT_MAX = 128, 128, 1024
-- How long a lock's hash outlives its last lease. A token is at least the time when it was given: what is forgotten after a week could
-- only be given again by a clock that was set back by a week. What is never forgotten grows with every name ever used.
local KEEP = 604800000

local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local function digits(number)
  return string.format('%.0f', number)
end

local function wrong(what)
  return redis.error_reply('ERR amends_lock: ' .. what)
end

-- A whole number in decimal that is exact here, or nil.
local function whole(text)
  if type(text) ~= 'string' or #text > 16 or not string.match(text, '^%d+$') then return nil end
  local number = tonumber(text)
  return number <= TOKEN_MAX and number or nil
end

-- Refuses calls of another shape: nil if all is well.
local function misshapen(keys, args, count)
  if #keys ~= 1 then return wrong('one key is needed, the lock') end
  if #args ~= count then return wrong(count .. ' arguments are needed, ' .. #args .. ' were given') end
  return nil
end

local function ttl_of(text)
  local ttl = whole(text)
  if ttl == nil or ttl < TTL_MIN or ttl > TTL_MAX then return nil end
  return ttl
end

-- The record, or nil if there is none; second an error if it is not one of ours.
local function read(key)
  local f = redis.call('HMGET', key, 'token', 'owner', 'label', 'since', 'expires', 'ended')
  if not f[1] then
    if redis.call('EXISTS', key) == 1 then return nil, wrong('the hash of this lock has no token') end
    return nil, nil
  end
  local record = {
    token = whole(f[1]), owner = f[2] or '', label = f[3] or '', since = whole(f[4]), expires = whole(f[5]), ended = f[6] or '',
  }
  if record.token == nil or record.since == nil or record.expires == nil then
    return nil, wrong('the hash of this lock holds numbers that are none')
  end
  return record, nil
end

local function is_live(record, now)
  return record.ended == '' and record.expires > now
end

-- Writes when the lease ends, and when the hash is forgotten. A token that ran ahead of the clock is kept until the clock has come after it.
local function lasts_until(key, token, expires)
  redis.call('HSET', key, 'expires', digits(expires))
  redis.call('PEXPIREAT', key, digits(math.max(token, expires) + KEEP))
end

-- acquire KEYS lock; ARGV owner, ttl in ms, label
-- {'held', token, ms left, since, 'new' | 'again'} | {'busy', label, since, ms left}
register('amends_lock_acquire_v1', {}, function(keys, args)
  local bad = misshapen(keys, args, 3)
  if bad then return bad end
  local key, owner, ttl, label = keys[1], args[1], ttl_of(args[2]), args[3]
  if #owner < 1 or #owner > OWNER_MAX then return wrong('an owner has 1 to 128 bytes') end
  if ttl == nil then return wrong('a lease lasts 100 to 86400000 ms') end
  if #label > LABEL_MAX then return wrong('a label has at most 128 bytes') end
  local record, failed = read(key)
  if failed then return failed end
  local now = now_ms()
  if record and is_live(record, now) then
    if record.owner ~= owner then
      return {'busy', record.label, digits(record.since), digits(record.expires - now)}
    end
    local expires = math.max(record.expires, now + ttl)
    lasts_until(key, record.token, expires)
    return {'held', digits(record.token), digits(expires - now), digits(record.since), 'again'}
  end
  local token = now
  if record then token = math.max(record.token + 1, now) end
  if token > TOKEN_MAX then return wrong('the tokens of this lock are used up: its hash or the clock is wrong') end
  redis.call('HSET', key, 'token', digits(token), 'owner', owner, 'label', label, 'since', digits(now), 'ended', '')
  lasts_until(key, token, now + ttl)
  return {'held', digits(token), digits(ttl), digits(now), 'new'}
end)

-- What a token and an owner are worth: 'live', 'released', 'expired', 'taken', 'unknown', 'owner_mismatch'. An empty owner is not checked.
local function standing(record, owner, token, now)
  if record == nil or token > record.token then return 'unknown' end
  if token < record.token then return 'taken' end
  if owner ~= '' and owner ~= record.owner then return 'owner_mismatch' end
  if record.ended ~= '' then return record.ended end
  if record.expires <= now then return 'expired' end
  return 'live'
end

-- renew KEYS lock; ARGV owner, token, ttl in ms
-- {'renewed', ms left} | {'lost', 'expired' | 'released' | 'taken' | 'unknown'} | {'owner_mismatch'}
-- It overwrites what is there: without memory for new locks, those that are held go on.
register('amends_lock_renew_v1', {'allow-oom'}, function(keys, args)
  local bad = misshapen(keys, args, 3)
  if bad then return bad end
  local key, owner, token, ttl = keys[1], args[1], whole(args[2]), ttl_of(args[3])
  if #owner > OWNER_MAX then return wrong('an owner has at most 128 bytes') end
  if token == nil then return wrong('a token is a whole number') end
  if ttl == nil then return wrong('a lease lasts 100 to 86400000 ms') end
  local record, failed = read(key)
  if failed then return failed end
  local now = now_ms()
  local standing = standing(record, owner, token, now)
  if standing == 'owner_mismatch' then return {'owner_mismatch'} end
  if standing ~= 'live' then return {'lost', standing} end
  local expires = math.max(record.expires, now + ttl)
  lasts_until(key, record.token, expires)
  return {'renewed', digits(expires - now)}
end)

-- release KEYS lock; ARGV owner, token, kind ('saga' | 'abandon'), text (its id | the reason)
-- {'released'} | {'lease_lost', 'expired' | 'taken' | 'unknown'} | {'owner_mismatch'}
-- A lock must be let go when memory is short too; the text that is kept has its limit.
register('amends_lock_release_v1', {'allow-oom'}, function(keys, args)
  local bad = misshapen(keys, args, 4)
  if bad then return bad end
  local key, owner, token, kind, text = keys[1], args[1], whole(args[2]), args[3], args[4]
  if #owner > OWNER_MAX then return wrong('an owner has at most 128 bytes') end
  if token == nil then return wrong('a token is a whole number') end
  if kind ~= 'saga' and kind ~= 'abandon' then return wrong("a release needs 'saga' and an id, or 'abandon' and a reason") end
  if #text < 1 or #text > TEXT_MAX then return wrong('the id or the reason has 1 to 1024 bytes') end
  local record, failed = read(key)
  if failed then return failed end
  local now = now_ms()
  local standing = standing(record, owner, token, now)
  -- A second call: the first one's answer, and its record stays.
  if standing == 'released' then return {'released'} end
  if record == nil then return {'lease_lost', 'unknown'} end
  local answer, ended = {'lease_lost', standing}, record.ended
  if standing == 'live' then
    answer, ended = {'released'}, 'released'
  elseif standing == 'expired' then
    ended = 'expired'
  elseif standing == 'owner_mismatch' then
    answer = {'owner_mismatch'}
  end
  redis.call('HSET', key, 'ended', ended, 'last_token', digits(token), 'last_outcome', answer[1], 'last_kind', kind, 'last_text', text,
    'last_at', digits(now))
  return answer
end)

-- show KEYS lock
-- {'unused'} | {'free' | 'held', token, label, since, ms left, last token | '', outcome, kind, text, at}
register('amends_lock_show_v1', {'no-writes'}, function(keys, args)
  local bad = misshapen(keys, args, 0)
  if bad then return bad end
  local record, failed = read(keys[1])
  if failed then return failed end
  if record == nil then return {'unused'} end
  local now = now_ms()
  local word, left = 'free', 0
  if is_live(record, now) then word, left = 'held', record.expires - now end
  local last = redis.call('HMGET', keys[1], 'last_token', 'last_outcome', 'last_kind', 'last_text', 'last_at')
  for i = 1, 5 do last[i] = last[i] or '' end
  return {word, digits(record.token), record.label, digits(record.since), digits(left), last[1], last[2], last[3], last[4], last[5]}
end)
