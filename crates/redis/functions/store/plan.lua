-- What the functions of the store share: the keys, the form of a row, the plan of what a call will write.
--
-- A call reads and decides first, against a plan that overlays what is stored, and writes at its end, when nothing can be refused any
-- more: an error while it decides leaves nothing behind. Writes of one kind go together, so that a batch costs few commands.

-- The keys that every function is given first, in this order. Those of sagas follow them.
local META, ROWS, CLAIMS, DUE, OWNED, MAILED, ENDED, STATUS, DEAD, COUNTS = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local NODES, GRANTED, MAIL, ANSWERS, WAITING, INPUTS, ANSWERED, DEFINITIONS, DIGESTS, VERSIONS = 11, 12, 13, 14, 15, 16, 17, 18, 19, 20
local HEADS, GIVEN, RESTS = 21, 22, 23
local FIXED = 23

-- How many arguments one command of a flush has at most: far below what Lua can unpack.
local PART = 1000

-- What the functions know of a row, as stored. Empty: none. What only engines read of it is kept apart, so that it is not copied each time:
-- what a saga was submitted with (behind its fingerprint), which never changes, and the rest.
local ROW = '>I1c0I1c0I1c0I1c0I1c0I1c0I1c0I1c0I2c0I2c0I2c0I2c0'

local function pack_row(row)
  return struct.pack(ROW, #row.rowid, row.rowid, #row.seq, row.seq, #row.created, row.created, #row.due, row.due, #row.ended, row.ended,
    #row.epoch, row.epoch, #row.pruned, row.pruned, #row.contradicted, row.contradicted, #row.node, row.node, #row.status, row.status,
    #row.saga, row.saga, #row.dead, row.dead)
end

-- Tables are made with all their fields: one that grows is made anew each time.
local function unpack_row(text)
  local rowid, seq, created, due, ended, epoch, pruned, contradicted, node, status, saga, dead = struct.unpack(ROW, text)
  return {rowid = rowid, seq = seq, created = created, due = due, ended = ended, epoch = epoch, pruned = pruned,
    contradicted = contradicted, node = node, status = status, saga = saga, dead = dead}
end

-- The fields of a row that an engine writes, as it sends them.
local WRITTEN = '>I2c0I2c0I1c0I1c0I1c0I1c0I2c0I1c0I2c0'

local function read_row(text)
  local status, saga, created, due, ended, epoch, node, contradicted, dead = struct.unpack(WRITTEN, text)
  return {rowid = '', seq = '', created = created, due = due, ended = ended, epoch = epoch, pruned = '0',
    contradicted = contradicted, node = node, status = status, saga = saga, dead = dead}
end

-- A saga's head: its number, its last entry, how many mails wait for an answer; the claims that it holds follow.
local HEAD, HEAD_BYTES = '>I8I8I4', 20

local function copy(row)
  local new = {}
  for name, value in pairs(row) do new[name] = value end
  return new
end

-- Numbers of entries are small and come often.
local SMALL, SMALL_MAX = {}, 1000

local function number(n)
  local text = SMALL[n]
  if text then return text end
  text = string.format('%.0f', n)
  if n >= 0 and n <= SMALL_MAX then SMALL[n] = text end
  return text
end

-- The server's clock, in milliseconds. Read once a call: before Redis 7.2 it runs on within one.
local function read_clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Whether the lease of a node with this epoch is its last, and not over.
local function is_live(keys, node, epoch, now)
  local held = redis.call('HGET', keys[NODES], node)
  if not held then return false end
  local of, until_ms = string.match(held, '^(%d+) (%d+)$')
  return of == epoch and tonumber(until_ms) > now
end

-- Arguments, one after the other.
local function reader(args)
  local at = 0
  return function()
    at = at + 1
    return args[at]
  end
end

local function read_many(take)
  local many = {}
  for nth = 1, tonumber(take()) do many[nth] = take() end
  return many
end

-- A plan, if the caller knows the store as it is: the same store and epoch, the same run of the server, and no later mark than there is.
-- Otherwise the answer that says so. A store that went back in time is never written by who saw more of it.
local function new_plan(keys, take)
  local store, epoch, run, seen = take(), take(), take(), take()
  local meta = redis.call('HMGET', keys[META], 'store', 'epoch', 'run', 'mark', 'rowid', 'mail')
  if meta[1] ~= store then return nil, {'other-store'} end
  if meta[2] ~= epoch then return nil, {'other-epoch', meta[2]} end
  if meta[3] ~= run then return nil, {'other-run'} end
  if tonumber(meta[4]) < tonumber(seen) then return nil, {'behind', meta[4]} end
  return {keys = keys, mark = tonumber(meta[4]), rowid = tonumber(meta[5]), mail = tonumber(meta[6]), sets = {}, gone = {}, scores = {},
    left = {}, counts = {}, answered = {}}
end

local function hget(plan, key, field)
  return redis.call('HGET', plan.keys[key], field)
end

-- What these fields hold, in their order: one command for many.
local function fetch(plan, key, fields)
  if #fields == 0 then return {} end
  if #fields <= PART then return redis.call('HMGET', plan.keys[key], unpack(fields)) end
  local all = {}
  for from = 1, #fields, PART do
    local to = math.min(from + PART - 1, #fields)
    for nth, value in ipairs(redis.call('HMGET', plan.keys[key], unpack(fields, from, to))) do all[from + nth - 1] = value end
  end
  return all
end

-- Arguments of a command that is made at the end. They are counted, for Lua counts a list by searching its end.
local function add(lists, key, one)
  local list = lists[key]
  if list then
    local n = list.n + 1
    list[n], list.n = one, n
  else
    lists[key] = {one, n = 1}
  end
end

local function add_two(lists, key, one, other)
  local list = lists[key]
  if list then
    local n = list.n + 2
    list[n - 1], list[n], list.n = one, other, n
  else
    lists[key] = {one, other, n = 2}
  end
end

-- False: the field is removed. A field that is removed and set in one call is set.
local function hset(plan, key, field, value)
  if value then add_two(plan.sets, key, field, value) else add(plan.gone, key, field) end
end

-- False: the member is removed. A member that is removed and set in one call is set.
local function zset(plan, key, member, score)
  if score then add_two(plan.scores, key, score, member) else add(plan.left, key, member) end
end

local function count(plan, field, by)
  plan.counts[field] = (plan.counts[field] or 0) + by
end

-- A saga as its head says, and what a call does to it. Without a number there is no such saga. `key` is that of its journal.
local function read_head(key, id, head)
  if not head then
    return {key = key, id = id, rowid = false, seq = 0, mails = 0, had_mails = 0, held = '', old = false, new = false, rest = false,
      given = false, entries = false, changed = false, lost = false}
  end
  local rowid, seq, mails = struct.unpack(HEAD, head)
  local held = #head > HEAD_BYTES and string.sub(head, HEAD_BYTES + 1) or ''
  return {key = key, id = id, rowid = rowid, seq = seq, mails = mails, had_mails = mails, held = held, old = false, new = false,
    rest = false, given = false, entries = false, changed = false, lost = false}
end

local function get_saga(plan, key, id)
  return read_head(key, id, hget(plan, HEADS, id))
end

local function set_head(plan, saga)
  hset(plan, HEADS, saga.id, struct.pack(HEAD, saga.rowid, saga.seq, saga.mails) .. saga.held)
end

local function get_row(plan, id)
  local text = hget(plan, ROWS, id)
  return text and unpack_row(text)
end

local function status_member(id, row)
  return row.status .. '\0' .. struct.pack('>I8', tonumber(row.rowid)) .. id
end

local function count_field(row)
  return (row.ended == '' and 'o' or 'e') .. '\0' .. row.status .. '\0' .. row.saga
end

-- Moves a member of one index, if it changes place.
local function move(plan, key, was, was_score, is, is_score)
  if was and was ~= is then zset(plan, key, was, false) end
  if is and (was ~= is or was_score ~= is_score) then zset(plan, key, is, is_score) end
end

-- Writes a row and what follows from it: where it stands in the indexes, and the counts. `old` is the row as stored, false for a new one:
-- once a call for each row.
local function set_row(plan, id, old, new, mails, had_mails)
  hset(plan, ROWS, id, pack_row(new))
  -- Most are new and an engine's, on their way.
  if not old and new.epoch ~= '' and new.ended == '' and new.dead == '' and new.contradicted == '0' and mails == 0 then
    zset(plan, OWNED, id, new.epoch)
    zset(plan, STATUS, status_member(id, new), '0')
    return count(plan, count_field(new), 1)
  end
  local was_free, is_free = old and old.epoch == '', new.epoch == ''
  move(plan, DUE, was_free and old.due ~= '' and id, old and old.due, is_free and new.due ~= '' and id, new.due)
  move(plan, OWNED, old and not was_free and id, old and old.epoch, not is_free and id, new.epoch)
  move(plan, MAILED, old and not was_free and had_mails > 0 and id, old and old.epoch, not is_free and mails > 0 and id, new.epoch)
  local rested = was_free and old.due == '' and old.ended ~= '' and old.pruned == '0'
  local rests = is_free and new.due == '' and new.ended ~= '' and new.pruned == '0'
  move(plan, ENDED, rested and id, old and old.ended, rests and id, new.ended)
  move(plan, DEAD, old and old.dead ~= '' and old.dead .. id, '0', new.dead ~= '' and new.dead .. id, '0')
  if not old or old.status ~= new.status then
    move(plan, STATUS, old and status_member(id, old), '0', status_member(id, new), '0')
  end
  local was_counted, is_counted = old and count_field(old), count_field(new)
  if was_counted ~= is_counted then
    if was_counted then count(plan, was_counted, -1) end
    count(plan, is_counted, 1)
  end
  local was_contradicted, is_contradicted = old and old.contradicted == '1', new.contradicted == '1'
  if was_contradicted and not is_contradicted then count(plan, 'c', -1) end
  if is_contradicted and not was_contradicted then count(plan, 'c', 1) end
end

local function mail_prefix(id)
  return struct.pack('>I2c0', #id, id)
end

-- When the oldest of a saga's mails without an answer was posted.
local function oldest_mail(plan, id)
  local prefix = mail_prefix(id)
  local after = '[' .. prefix
  while true do
    local found = redis.call('ZRANGEBYLEX', plan.keys[WAITING], after, '[' .. prefix .. string.rep('\255', 9), 'LIMIT', '0', '10')
    if #found == 0 then return nil end
    for _, member in ipairs(found) do
      local mail = number((struct.unpack('>I8', member, #prefix + 1)))
      if not plan.answered[mail] then return (struct.unpack('>I1c0', hget(plan, MAIL, mail))) end
      after = '(' .. member
    end
  end
end

local function earlier(a, b)
  if a == '' or (b ~= '' and tonumber(b) < tonumber(a)) then return b end
  return a
end

local function write_parts(command, key, list)
  for from = 1, list.n, PART do
    redis.call(command, key, unpack(list, from, math.min(from + PART - 1, list.n)))
  end
end

-- Writes what was planned. The journal first: what an index does not know is found in the end, what a journal lacks never is.
local function flush(plan)
  local keys, wrote = plan.keys, false
  for key = #keys, 1, -1 do
    local gone, sets, left, scores = plan.gone[key], plan.sets[key], plan.left[key], plan.scores[key]
    if gone then write_parts('HDEL', keys[key], gone) end
    if sets then write_parts('HSET', keys[key], sets) end
    if left then write_parts('ZREM', keys[key], left) end
    if scores then write_parts('ZADD', keys[key], scores) end
    wrote = wrote or gone or sets or left or scores
  end
  for field, by in pairs(plan.counts) do
    if by ~= 0 and redis.call('HINCRBY', keys[COUNTS], field, number(by)) == 0 then redis.call('HDEL', keys[COUNTS], field) end
  end
  if wrote then
    plan.mark = plan.mark + 1
    redis.call('HSET', keys[META], 'mark', number(plan.mark), 'rowid', number(plan.rowid), 'mail', number(plan.mail))
  end
end

-- An answer, behind the mark that it was given at.
local function answer(plan, out)
  flush(plan)
  table.insert(out, 1, number(plan.mark))
  table.insert(out, 1, 'ok')
  return out
end
