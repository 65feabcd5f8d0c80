-- The compensation log: what was done and how it is undone, in one hash a business id. Behind commands.lua.
--
-- Keys of every function but `due`: the record, the three indexes of its slot (due, parked, settled), then every key that commands touch.

local log_prefix = 'compensate_log:'
local log_id_max = 512
-- What is settled goes by itself after so long, should nobody remove it: 30 days.
local log_settled_ttl_ms = 2592000000
-- After its time a pending record is kept so long before it is raised as a dead letter.
local log_grace_s = 86400
local log_timeout_max_ms = 31536000000
-- A reason is a sentence, not a document.
local log_reason_max = 500

local log_fields = {
  'format', 'status', 'digest', 'created_at', 'expire_at', 'timeout_ms', 'rollback', 'guard', 'running', 'begun', 'result',
  'committed_at', 'compensated_at', 'attempts', 'parked', 'rollback_cmd', 'adopted',
}

local function log_wrong(what)
  return redis.error_reply('ERR amends: ' .. what)
end

local function log_now()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local function log_text(number)
  return string.format('%.0f', number)
end

-- An integer within bounds, or nil.
local function log_number(text, min, max)
  if not text or not string.match(text, '^%d+$') or #text > 15 then return nil end
  local number = tonumber(text)
  return number >= min and number <= max and number or nil
end

local function log_starts(key, prefix)
  return string.sub(key, 1, #prefix) == prefix
end

-- The keys of a call by what they are for; or nil and what is wrong with them. Nothing is written before they were looked at.
local function log_open(keys)
  if #keys < 4 then return nil, 'the keys must be the record, due, parked, settled, then those of the commands' end
  local open = { record = keys[1], due = keys[2], parked = keys[3], settled = keys[4], declared = {} }
  if not log_starts(open.record, log_prefix) then return nil, 'the first key must begin with ' .. log_prefix end
  open.id = string.sub(open.record, #log_prefix + 1)
  if open.id == '' or #open.id > log_id_max then return nil, 'a business id has 1 to ' .. log_id_max .. ' bytes' end
  for nth, name in ipairs({ 'compensate_due', 'compensate_parked', 'compensate_settled' }) do
    if not log_starts(keys[nth + 1], name) then return nil, 'key ' .. (nth + 1) .. ' must be the index ' .. name end
  end
  for nth = 1, 4 do
    local type = redis.call('TYPE', keys[nth])['ok']
    if type ~= 'none' and type ~= (nth == 1 and 'hash' or 'zset') then
      return nil, keys[nth] .. ' holds a ' .. type .. ': another program wrote it'
    end
  end
  for nth = 5, #keys do
    for _, own in ipairs({ log_prefix, 'compensate_due', 'compensate_parked', 'compensate_settled' }) do
      if log_starts(keys[nth], own) then return nil, 'commands may not touch keys that begin with ' .. own end
    end
    open.declared[keys[nth]] = true
  end
  local record = open.record
  for _, command in ipairs({
    { 'HSET', record, 'f', 'v' }, { 'HDEL', record, 'f' }, { 'PERSIST', record }, { 'PEXPIRE', record, '1' }, { 'DEL', record },
    { 'ZADD', open.due, '1', 'm' }, { 'ZREM', open.due, 'm' },
  }) do
    if not redis.acl_check_cmd(unpack(command)) then return nil, 'this user may not call ' .. command[1] end
  end
  return open
end

-- The record, with only the fields it has.
local function log_read(open)
  local values, record = redis.call('HMGET', open.record, unpack(log_fields)), {}
  for nth, name in ipairs(log_fields) do record[name] = values[nth] or nil end
  return record
end

local function log_answer(words, more)
  for _, word in ipairs(more) do table.insert(words, word) end
  return words
end

-- The answers of commands as they are kept: one list.
local function log_results(packed)
  local lists = packed and commands_unpack(packed)
  return lists and lists[1] or {}
end

-- Whether another program wrote the record, or changed its rollback since it was adopted.
local function log_is_foreign(record)
  return not record.format or (record.rollback_cmd ~= nil and record.rollback_cmd ~= record.adopted)
end

-- When a scanner should look at a pending record.
local function log_due_at(record, now)
  local created = log_number(record.created_at, 0, 1e11)
  return (created and created * 1000 or now) + (log_number(record.timeout_ms, 0, log_timeout_max_ms) or 0)
end

local function log_settle(open, at_ms)
  redis.call('ZREM', open.due, open.id)
  redis.call('ZREM', open.parked, open.id)
  redis.call('ZADD', open.settled, log_text(at_ms), open.id)
  redis.call('PEXPIRE', open.record, log_text(log_settled_ttl_ms))
end

-- The answer about a settled record. One that another program settled is taken out of the index of what is due.
local function log_settled(open, record)
  if redis.call('ZSCORE', open.due, open.id) or redis.call('ZSCORE', open.parked, open.id) then log_settle(open, log_now()) end
  if record.status == 'committed' then return { 'committed', record.committed_at or '0' } end
  return log_answer({ 'compensated', record.compensated_at or '0' }, log_results(record.result))
end

local function log_is_settled(record)
  return record.status == 'committed' or record.status == 'compensated'
end

local function log_begun(record)
  return log_answer({ 'begun', record.status, record.created_at, record.expire_at, record.timeout_ms }, log_results(record.begun))
end

-- Args: the time in milliseconds after which the scanner undoes it; guards and commands to run now; guards and commands of the
-- rollback. Answers: begun, status, created_at, expire_at, timeout_ms, answers… | different | refused, word, why.
register('amends_log_begin_v1', {}, function(keys, args)
  local open, wrong = log_open(keys)
  if not open then return log_wrong(wrong) end
  local timeout = log_number(args[1], 1, log_timeout_max_ms)
  if not timeout then return log_wrong('the time-out must be 1 to ' .. log_text(log_timeout_max_ms) .. ' milliseconds') end
  local parts, at = {}, 2
  for nth = 1, 4 do
    parts[nth], at = commands_read(args, at)
    if not parts[nth] then return log_wrong(at) end
  end
  if at ~= #args + 1 then return log_wrong('there are arguments behind the rollback') end
  local forward_guard, forward, guard, rollback = unpack(parts)
  if #rollback == 0 then return log_wrong('a rollback has at least one command') end
  wrong = commands_malformed(forward, forward_guard, open.declared) or commands_malformed(rollback, guard, open.declared)
  if wrong then return log_wrong(wrong) end

  local packed_rollback, packed_guard = commands_pack(rollback), commands_pack(guard)
  local digest = redis.sha1hex(
    log_text(timeout) .. ' ' .. commands_pack(forward_guard) .. commands_pack(forward) .. packed_guard .. packed_rollback)
  local record = log_read(open)
  if record.status then
    if log_is_foreign(record) or record.digest ~= digest then return { 'different' } end
    if record.running then return { 'refused', 'half-done', 'an earlier call stopped midway' } end
    return log_begun(record)
  end
  if redis.call('EXISTS', open.record) == 1 then return { 'different' } end
  local plan, word, why = commands_plan(forward, forward_guard)
  if not plan then return { 'refused', word, why } end

  local now = log_now()
  local created = math.floor(now / 1000)
  record = {
    status = 'pending', created_at = log_text(created), timeout_ms = log_text(timeout),
    expire_at = log_text(created + math.ceil(timeout / 1000) + log_grace_s),
  }
  redis.call('HSET', open.record, 'format', '1', 'status', record.status, 'digest', digest, 'created_at', record.created_at,
    'expire_at', record.expire_at, 'timeout_ms', record.timeout_ms, 'rollback', packed_rollback, 'guard', packed_guard,
    'running', 'begin')
  redis.call('ZREM', open.settled, open.id)
  redis.call('ZADD', open.due, log_text(now + timeout), open.id)
  record.begun = commands_pack({ commands_run(plan) })
  redis.call('HSET', open.record, 'begun', record.begun)
  redis.call('HDEL', open.record, 'running')
  return log_begun(record)
end)

-- Answers: committed, at | compensated, at, answers… | absent | refused, word, why.
register('amends_log_commit_v1', { 'allow-oom' }, function(keys)
  local open, wrong = log_open(keys)
  if not open then return log_wrong(wrong) end
  local record = log_read(open)
  if not record.status then return { 'absent' } end
  if log_is_settled(record) then return log_settled(open, record) end
  if record.status ~= 'pending' then return { 'refused', 'malformed', 'its status is none of the three' } end
  if record.running then return { 'refused', 'half-done', 'an earlier call stopped midway' } end
  local now = log_now()
  record.status, record.committed_at = 'committed', log_text(math.floor(now / 1000))
  redis.call('HSET', open.record, 'status', record.status, 'committed_at', record.committed_at)
  redis.call('HDEL', open.record, 'parked')
  log_settle(open, now)
  return log_settled(open, record)
end)

-- Answers: compensated, at, answers… | committed, at | absent | foreign | refused, word, why.
register('amends_log_compensate_v1', {}, function(keys)
  local open, wrong = log_open(keys)
  if not open then return log_wrong(wrong) end
  local record = log_read(open)
  if not record.status then return { 'absent' } end
  if log_is_settled(record) then return log_settled(open, record) end
  if record.status ~= 'pending' then return { 'refused', 'malformed', 'its status is none of the three' } end
  if log_is_foreign(record) then return { 'foreign' } end
  if record.running then return { 'refused', 'half-done', 'an earlier call stopped midway' } end
  local rollback, guard = commands_unpack(record.rollback or ''), commands_unpack(record.guard or '')
  if not rollback or not guard then return { 'refused', 'malformed', 'its rollback cannot be read' } end
  wrong = commands_malformed(rollback, guard, open.declared)
  if wrong then return { 'refused', 'malformed', wrong } end
  local plan, word, why = commands_plan(rollback, guard)
  if not plan then return { 'refused', word, why } end

  local now = log_now()
  redis.call('HSET', open.record, 'running', 'compensate')
  record.result = commands_pack({ commands_run(plan) })
  record.status, record.compensated_at = 'compensated', log_text(math.floor(now / 1000))
  redis.call('HSET', open.record, 'status', record.status, 'compensated_at', record.compensated_at, 'result', record.result)
  redis.call('HDEL', open.record, 'running', 'parked')
  log_settle(open, now)
  return log_settled(open, record)
end)

-- Answers: absent | record, then names and values; `key` comes once for each key that its rollback touches.
register('amends_log_show_v1', { 'no-writes' }, function(keys)
  local type = redis.call('TYPE', keys[1])['ok']
  if type ~= 'none' and type ~= 'hash' then return log_wrong(keys[1] .. ' holds a ' .. type .. ': another program wrote it') end
  local values, answer = redis.call('HMGET', keys[1], 'reason', unpack(log_fields)), { 'record' }
  if type == 'none' then return { 'absent' } end
  if values[1] then log_answer(answer, { 'reason', values[1] }) end
  for nth, name in ipairs(log_fields) do
    if values[nth + 1] then log_answer(answer, { name, values[nth + 1] }) end
  end
  local seen = {}
  local function name_key(key)
    if not seen[key] then log_answer(answer, { 'key', key }) end
    seen[key] = true
  end
  local fields = redis.call('HMGET', keys[1], 'rollback', 'guard')
  for _, command in ipairs(fields[1] and commands_unpack(fields[1]) or {}) do
    for _, key in ipairs(commands_keys(command) or {}) do name_key(key) end
  end
  for _, guard in ipairs(fields[2] and commands_unpack(fields[2]) or {}) do
    for _, key in ipairs(commands_guard_keys(guard) or {}) do name_key(key) end
  end
  return answer
end)

-- A scanner's compensation was refused. Args: the attempts it saw, `retry` and the delay in milliseconds or `park` and 0, the reason.
-- Answers: postponed, attempts | parked, attempts | settled | absent. What moved meanwhile is left alone.
register('amends_log_postpone_v1', { 'allow-oom' }, function(keys, args)
  local open, wrong = log_open(keys)
  if not open then return log_wrong(wrong) end
  local seen, delay = log_number(args[1], 0, 1e9), log_number(args[3], 0, log_timeout_max_ms)
  if not seen or not delay or (args[2] ~= 'retry' and args[2] ~= 'park') or not args[4] then
    return log_wrong('the arguments must be attempts, retry or park, delay, reason')
  end
  local record = log_read(open)
  if not record.status then
    redis.call('ZREM', open.due, open.id)
    return { 'absent' }
  end
  local now = log_now()
  if log_is_settled(record) then
    log_settle(open, now)
    return { 'settled' }
  end
  local attempts = log_number(record.attempts, 0, 1e9) or 0
  if attempts == seen then
    attempts = seen + 1
    redis.call('PERSIST', open.record)
    redis.call('HSET', open.record, 'attempts', log_text(attempts), 'reason', string.sub(args[4], 1, log_reason_max))
    if args[2] == 'park' then
      record.parked = '1'
      redis.call('HSET', open.record, 'parked', '1')
      redis.call('ZREM', open.due, open.id)
      redis.call('ZADD', open.parked, log_text(now), open.id)
    else
      redis.call('ZADD', open.due, log_text(now + delay), open.id)
    end
  end
  return { record.parked and 'parked' or 'postponed', log_text(attempts) }
end)

-- Puts a record where scanners find it, whoever wrote it. Args: `look`; or the threshold in milliseconds, the rollback_cmd that was
-- read, and either `commands` and them as a vector or `park` and the reason.
-- Answers: kept, status | adopted | parked | foreign, status, created_at, rollback_cmd | absent.
register('amends_log_adopt_v1', {}, function(keys, args)
  local open, wrong = log_open(keys)
  if not open then return log_wrong(wrong) end
  if redis.call('EXISTS', open.record) == 0 then return { 'absent' } end
  local record, now = log_read(open), log_now()
  if log_is_settled(record) then
    if not redis.call('ZSCORE', open.settled, open.id) then log_settle(open, now) end
    return { 'kept', record.status }
  end
  if not log_is_foreign(record) then
    -- A pending record never goes by itself, whoever gave it a time to live.
    redis.call('PERSIST', open.record)
    if record.parked then
      redis.call('ZADD', open.parked, 'NX', log_text(now), open.id)
    else
      redis.call('ZADD', open.due, 'NX', log_text(log_due_at(record, now)), open.id)
    end
    return { 'kept', record.status }
  end
  if args[1] == 'look' or (record.rollback_cmd or '') ~= args[2] then
    return { 'foreign', record.status or '', record.created_at or '', record.rollback_cmd or '' }
  end

  local threshold = log_number(args[1], 0, log_timeout_max_ms)
  if not threshold then return log_wrong('the threshold must be milliseconds') end
  local rollback = nil
  if args[3] == 'commands' then
    local at
    rollback, at = commands_read(args, 4)
    if not rollback then return log_wrong(at) end
    wrong = commands_malformed(rollback, {}, open.declared)
    if wrong then return log_wrong(wrong) end
    if #rollback == 0 or record.status ~= 'pending' then return log_wrong('only a pending record with a rollback is adopted') end
  elseif args[3] ~= 'park' or not args[4] then
    return log_wrong('the third argument must be commands or park')
  end
  -- Its own time, if it says one: what it added to a day.
  local created, expire = log_number(record.created_at, 0, 1e11), log_number(record.expire_at, 0, 1e11)
  local timeout = created and expire and (expire - created - log_grace_s) * 1000 or 0
  timeout = math.min(math.max(timeout, threshold), log_timeout_max_ms)
  record.timeout_ms = log_text(timeout)
  redis.call('PERSIST', open.record)
  redis.call('HSET', open.record, 'format', '1', 'timeout_ms', record.timeout_ms, 'adopted', args[2])
  if not created then redis.call('HSET', open.record, 'created_at', log_text(math.floor(now / 1000))) end
  redis.call('HDEL', open.record, 'rollback', 'guard', 'attempts', 'parked', 'reason', 'running')
  if rollback then
    redis.call('HSET', open.record, 'rollback', commands_pack(rollback), 'guard', commands_pack({}))
    redis.call('ZREM', open.parked, open.id)
    redis.call('ZADD', open.due, log_text(log_due_at(record, now)), open.id)
    return { 'adopted' }
  end
  redis.call('HSET', open.record, 'parked', '1', 'reason', string.sub(args[4], 1, log_reason_max))
  redis.call('ZREM', open.due, open.id)
  redis.call('ZADD', open.parked, log_text(now), open.id)
  return { 'parked' }
end)

-- Removes a settled record, and what the indexes say of one that is gone. Args: how many milliseconds ago it must have been settled. Answers: removed | kept, status.
register('amends_log_remove_v1', { 'allow-oom' }, function(keys, args)
  local open, wrong = log_open(keys)
  if not open then return log_wrong(wrong) end
  local age = log_number(args[1], 0, log_timeout_max_ms)
  if not age then return log_wrong('the age must be milliseconds') end
  local record = log_read(open)
  if redis.call('EXISTS', open.record) == 1 then
    if not log_is_settled(record) then
      redis.call('ZREM', open.settled, open.id)
      return { 'kept', record.status or '' }
    end
    local settled = tonumber(redis.call('ZSCORE', open.settled, open.id) or log_text(log_now()))
    if settled + age > log_now() then return { 'kept', record.status } end
    redis.call('DEL', open.record)
  end
  for _, index in ipairs({ open.due, open.parked, open.settled }) do redis.call('ZREM', index, open.id) end
  return { 'removed' }
end)

-- Lists an index, the oldest first. Key: the index. Args: only what is at least so many milliseconds old (`all`: everything), how many
-- to pass over, how many (1 to 100). Answers: due, now, the time of the next that is not old enough yet or nothing, then times and ids.
register('amends_log_due_v1', { 'no-writes' }, function(keys, args)
  local type = redis.call('TYPE', keys[1])['ok']
  if type ~= 'none' and type ~= 'zset' then return log_wrong(keys[1] .. ' holds a ' .. type .. ': another program wrote it') end
  local skip, limit = log_number(args[2], 0, 1e9), log_number(args[3], 1, 100)
  local age = args[1] ~= 'all' and log_number(args[1], 0, log_timeout_max_ms)
  if not skip or not limit or age == nil then return log_wrong('the arguments must be an age or all, skip, limit up to 100') end
  local now = log_now()
  local until_ms = age and log_text(now - age) or '+inf'
  local found = redis.call('ZRANGE', keys[1], '-inf', until_ms, 'BYSCORE', 'LIMIT', args[2], args[3], 'WITHSCORES')
  local answer, next_at = { 'due', log_text(now), '' }, nil
  if age then next_at = redis.call('ZRANGE', keys[1], '(' .. until_ms, '+inf', 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')[2] end
  if next_at then answer[3] = log_text(tonumber(next_at)) end
  for nth = 1, #found, 2 do log_answer(answer, { log_text(tonumber(found[nth + 1])), found[nth] }) end
  return answer
end)
