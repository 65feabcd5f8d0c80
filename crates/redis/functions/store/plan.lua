-- What the functions of the store share: the keys, the form of a row, the plan of what a call will write.
--
-- A call reads and decides first, against a plan that overlays what is stored, and writes at its end, when nothing can be refused any
-- more: an error while it decides leaves nothing behind. Writes of one kind go together, so that a batch costs few commands.

-- The keys that every function is given first, in this order. Those of sagas follow them.
local META, ROWS, CLAIMS, DUE, OWNED, MAILED, ENDED, STATUS, DEAD, COUNTS = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local NODES, GRANTED, MAIL, ANSWERS, WAITING, INPUTS, ANSWERED, DEFINITIONS, DIGESTS, VERSIONS = 11, 12, 13, 14, 15, 16, 17, 18, 19, 20
local FIXED = 20

-- How many arguments one command of a flush has at most: far below what Lua can unpack.
local PART = 1000

-- A row as stored. Empty: none. `fixed` and `rest` are the engine's and not looked at.
local ROW = '>I1c0I1c0I1c0I1c0I1c0I1c0I1c0I1c0I2c0I2c0I2c0I2c0I4c0I4c0'

local function pack_row(row)
  return struct.pack(ROW, #row.rowid, row.rowid, #row.seq, row.seq, #row.created, row.created, #row.due, row.due, #row.ended, row.ended,
    #row.epoch, row.epoch, #row.pruned, row.pruned, #row.contradicted, row.contradicted, #row.node, row.node, #row.status, row.status,
    #row.saga, row.saga, #row.dead, row.dead, #row.fixed, row.fixed, #row.rest, row.rest)
end

local function unpack_row(text)
  local row = {}
  row.rowid, row.seq, row.created, row.due, row.ended, row.epoch, row.pruned, row.contradicted, row.node, row.status, row.saga, row.dead,
    row.fixed, row.rest = struct.unpack(ROW, text)
  return row
end

local function copy(row)
  local new = {}
  for name, value in pairs(row) do new[name] = value end
  return new
end

local function number(n)
  return string.format('%.0f', n)
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
  return {keys = keys, mark = tonumber(meta[4]), rowid = tonumber(meta[5]), mail = tonumber(meta[6]), hashes = {}, sets = {}, counts = {},
    sagas = {}}
end

local function hget(plan, key, field)
  local planned = plan.hashes[key]
  if planned and planned[field] ~= nil then return planned[field] end
  return redis.call('HGET', plan.keys[key], field)
end

-- False: the field is removed.
local function hset(plan, key, field, value)
  local planned = plan.hashes[key]
  if not planned then
    planned = {}
    plan.hashes[key] = planned
  end
  planned[field] = value
end

-- False: the member is removed.
local function zset(plan, key, member, score)
  local planned = plan.sets[key]
  if not planned then
    planned = {}
    plan.sets[key] = planned
  end
  planned[member] = score
end

local function count(plan, field, by)
  plan.counts[field] = (plan.counts[field] or 0) + by
end

-- What a saga's own key says: its number (false: no such saga), last entry, and how many mails wait for an answer.
local function get_saga(plan, key)
  local saga = plan.sagas[key]
  if not saga then
    local found = redis.call('HMGET', plan.keys[key], 'r', 's', 'm')
    saga = {rowid = found[1], seq = found[2], mails = tonumber(found[3] or '0')}
    plan.sagas[key] = saga
  end
  return saga
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

-- Writes a row and what follows from it: where it stands in the indexes, and the counts. `old` is false for a new one.
local function set_row(plan, id, old, new, mails, had_mails)
  local was_free, is_free = old and old.epoch == '', new.epoch == ''
  hset(plan, ROWS, id, pack_row(new))
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

-- The fields of a row that an engine writes, in the order it sends them.
local function read_row(take)
  return {status = take(), saga = take(), created = take(), due = take(), ended = take(), epoch = take(), node = take(),
    contradicted = take(), dead = take(), fixed = take(), rest = take()}
end

local function mail_prefix(id)
  return struct.pack('>I2c0', #id, id)
end

-- When the oldest of a saga's mails without an answer was posted.
local function oldest_mail(plan, id)
  local prefix = mail_prefix(id)
  local gone = plan.sets[WAITING] or {}
  local after = '[' .. prefix
  while true do
    local found = redis.call('ZRANGEBYLEX', plan.keys[WAITING], after, '[' .. prefix .. string.rep('\255', 9), 'LIMIT', '0', '10')
    if #found == 0 then return nil end
    for _, member in ipairs(found) do
      if gone[member] ~= false then
        local mail = number((struct.unpack('>I8', member, #prefix + 1)))
        return (struct.unpack('>I1c0', hget(plan, MAIL, mail)))
      end
      after = '(' .. member
    end
  end
end

local function earlier(a, b)
  if a == '' or (b ~= '' and tonumber(b) < tonumber(a)) then return b end
  return a
end

local function write_parts(command, key, list)
  for from = 1, #list, PART do
    redis.call(command, key, unpack(list, from, math.min(from + PART - 1, #list)))
  end
end

-- Writes what was planned. The journal first: what an index does not know is found in the end, what a journal lacks never is.
local function flush(plan)
  local keys = plan.keys
  local highest = 0
  for key in pairs(plan.hashes) do highest = math.max(highest, key) end
  local wrote = false
  for key = highest, 1, -1 do
    local sets, gone = {}, {}
    for field, value in pairs(plan.hashes[key] or {}) do
      if value then
        sets[#sets + 1] = field
        sets[#sets + 1] = value
      else
        gone[#gone + 1] = field
      end
    end
    write_parts('HSET', keys[key], sets)
    write_parts('HDEL', keys[key], gone)
    wrote = wrote or #sets + #gone > 0
  end
  for key, members in pairs(plan.sets) do
    local sets, gone = {}, {}
    for member, score in pairs(members) do
      if score then
        sets[#sets + 1] = score
        sets[#sets + 1] = member
      else
        gone[#gone + 1] = member
      end
    end
    write_parts('ZADD', keys[key], sets)
    write_parts('ZREM', keys[key], gone)
    wrote = wrote or #sets + #gone > 0
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
