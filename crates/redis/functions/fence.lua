-- The fence of saga operations: what ran under a key, kept beside what it changed. Behind commands.lua.
--
-- A record is a hash under `amends:fence:{tag}:key`, tag being the hash tag of the commands' keys. Its fields: format, kind (action or
-- compensation), state (running, done, rejected, sealed), digest, at; results; word and why of a rejection; undone (1 or 0) of a
-- compensation; undone_by of an action. It goes by its time to live, which nothing renews.

local fence_prefix = 'amends:fence:'
-- Ten years, in milliseconds, and what is added to a key's life.
local fence_keep_max = 946080000000
-- An answer is a fact that is journalled, not a copy of what a key held.
local fence_result_max = 1000

local fence_fields =
  { 'format', 'kind', 'state', 'digest', 'results', 'word', 'why', 'undone', 'undone_by' }

local function fence_starts(key)
  return string.sub(key, 1, #fence_prefix) == fence_prefix
end

-- The record under a key, with only the fields it has; or nil and what is wrong with it.
local function fence_read(key)
  if not fence_starts(key) then return nil, 'the key of a record must begin with ' .. fence_prefix end
  local type = redis.call('TYPE', key)['ok']
  if type ~= 'none' and type ~= 'hash' then return nil, key .. ' holds a ' .. type .. ': another program wrote it' end
  local record = {}
  if type == 'hash' then
    local values = redis.call('HMGET', key, unpack(fence_fields))
    for nth, name in ipairs(fence_fields) do record[name] = values[nth] or nil end
    if record.format ~= '1' or not record.state then return nil, key .. ' is no record of the fence: another program wrote it' end
  end
  return record
end

-- What a call asks for: how long its record is kept, guards, commands, digest. Or nil and what is wrong with it. Nothing is written
-- before. The commands' keys come behind the first `records` keys.
local function fence_open(keys, args, records, what)
  local open = { keep = args[1], declared = {} }
  if not string.match(open.keep or '', '^[1-9]%d*$') or #open.keep > 15 or tonumber(open.keep) > fence_keep_max then
    return nil, 'the first argument must be for how many milliseconds the record is kept'
  end
  local at
  open.guards, at = commands_read(args, 2)
  if not open.guards then return nil, at end
  open.commands, at = commands_read(args, at)
  if not open.commands then return nil, at end
  if at ~= #args + 1 then return nil, 'there are arguments behind the commands' end
  if #open.commands == 0 then return nil, 'there is no command' end
  for nth = records + 1, #keys do
    if fence_starts(keys[nth]) then return nil, 'commands may not touch keys that begin with ' .. fence_prefix end
    open.declared[keys[nth]] = true
  end
  local wrong = commands_malformed(open.commands, open.guards, open.declared)
  if wrong then return nil, wrong end
  open.digest = redis.sha1hex(what .. ' ' .. commands_pack(open.guards) .. commands_pack(open.commands))
  return open
end

-- The answer that a record holds.
local function fence_answer(record)
  if record.state == 'sealed' then return { 'sealed' } end
  if record.state == 'rejected' then return { 'rejected', record.word or '', record.why or '' } end
  if record.state ~= 'done' then return { 'half-done' } end
  if record.undone == '0' then return { 'nothing' } end
  local answer = { record.undone == '1' and 'undone' or 'done' }
  local lists = commands_unpack(record.results or '')
  for _, result in ipairs(lists and lists[1] or {}) do table.insert(answer, result) end
  return answer
end

local function fence_write(key, keep, fields)
  local time = redis.call('TIME')
  local at = string.format('%.0f%03.0f', tonumber(time[1]), math.floor(tonumber(time[2]) / 1000))
  redis.call('HSET', key, 'format', '1', 'at', at, unpack(fields))
  redis.call('PEXPIRE', key, keep)
end

-- Whether the user may write records. A script has no rollback, so it is asked before the first write.
local function fence_may_write(key)
  return redis.acl_check_cmd('HSET', key, 'f', 'v') and redis.acl_check_cmd('PEXPIRE', key, '1')
end

-- Runs the commands and keeps what they answered, or keeps why they were refused. `done`: further fields once they ran.
local function fence_run(key, open, kind, done)
  local plan, word, why = commands_plan(open.commands, open.guards)
  if word == 'not-permitted' then return { word, why } end
  local fields = { 'kind', kind, 'digest', open.digest }
  local function write(more)
    local all = { unpack(fields) }
    for _, text in ipairs(more) do table.insert(all, text) end
    fence_write(key, open.keep, all)
  end
  if not plan then
    write({ 'state', 'rejected', 'word', word, 'why', string.sub(why, 1, fence_result_max) })
    return { 'rejected', word, string.sub(why, 1, fence_result_max) }
  end
  write({ 'state', 'running' })
  local results = commands_run(plan)
  for nth, result in ipairs(results) do results[nth] = string.sub(result, 1, fence_result_max) end
  write({ 'state', 'done', 'results', commands_pack({ results }), unpack(done) })
  return { 'done', unpack(results) }
end

-- Keys: the action's record, then those of the commands. Args: how many milliseconds it is kept; guards; commands.
-- Answers: done, answers… | rejected, word, why | sealed | different | half-done | not-permitted, why |
-- malformed, why (the commands) | foreign, why (the record).
register('amends_fence_act_v1', {}, function(keys, args)
  local open, wrong = fence_open(keys, args, 1, 'action')
  if not open then return { 'malformed', wrong } end
  local record
  record, wrong = fence_read(keys[1])
  if not record then return { 'foreign', wrong } end
  if record.state == 'sealed' then return { 'sealed' } end
  if record.state then return record.digest == open.digest and fence_answer(record) or { 'different' } end
  if not fence_may_write(keys[1]) then return { 'not-permitted', 'this user may not write ' .. keys[1] } end
  return fence_run(keys[1], open, 'action', {})
end)

-- Keys: the compensation's record, the action's, then those of the commands. Args: as of an action.
-- Answers: undone, answers… | nothing | rejected, word, why | different | half-done | not-permitted, why |
-- malformed, why (the commands) | foreign, why (the record).
register('amends_fence_compensate_v1', {}, function(keys, args)
  local open, wrong = fence_open(keys, args, 2, 'compensation of ' .. (keys[2] or ''))
  if not open then return { 'malformed', wrong } end
  local record, action
  record, wrong = fence_read(keys[1])
  if not record then return { 'foreign', wrong } end
  action, wrong = fence_read(keys[2])
  if not action then return { 'foreign', wrong } end
  if record.state then return record.digest == open.digest and fence_answer(record) or { 'different' } end
  for nth = 1, 2 do
    if not fence_may_write(keys[nth]) then return { 'not-permitted', 'this user may not write ' .. keys[nth] } end
  end
  if action.state == 'running' then return { 'half-done' } end
  local mine = { 'kind', 'compensation', 'digest', open.digest, 'state', 'done' }
  if action.state ~= 'done' then
    -- Nothing to undo, and from here on there never will be.
    if not action.state then fence_write(keys[2], open.keep, { 'kind', 'action', 'state', 'sealed' }) end
    fence_write(keys[1], open.keep, { 'undone', '0', unpack(mine) })
    return { 'nothing' }
  end
  if action.undone_by then
    -- Another key undid it, by a person's leave: it is not undone twice.
    fence_write(keys[1], open.keep, { 'undone', '1', unpack(mine) })
    return { 'undone' }
  end
  local answer = fence_run(keys[1], open, 'compensation', { 'undone', '1' })
  if answer[1] == 'done' then
    redis.call('HSET', keys[2], 'undone_by', keys[1])
    answer[1] = 'undone'
  end
  return answer
end)

-- Key: a record. Answers: absent | what its call was answered: done, undone, nothing, rejected, sealed | half-done | foreign, why.
register('amends_fence_query_v1', { 'no-writes' }, function(keys)
  local record, wrong = fence_read(keys[1])
  if not record then return { 'foreign', wrong } end
  if not record.state then return { 'absent' } end
  return fence_answer(record)
end)
