-- What the functions of the store share: the keys, the form of a row, the plan of what a call will write.
--
-- A call reads and decides first, against a plan that overlays what is stored, and writes at its end, when nothing can be refused any
-- more: an error while it decides leaves nothing behind. Writes of one kind go together, so that a batch costs few commands.

-- The layout of what is stored. Another one is another number, and other names of the functions.
local LAYOUT = '3'

-- The keys that every function is given, in this order.
local META, ROWS, CLAIMS, DUE, OWNED, MAILED, ENDED, STATUS, DEAD, COUNTS = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local NODES, GRANTED, MAIL, ANSWERS, WAITING, INPUTS, ANSWERED, DEFINITIONS, DIGESTS, VERSIONS = 11, 12, 13, 14, 15, 16, 17, 18, 19, 20
local HEADS, ENTRIES = 21, 22

-- How many arguments one command of a flush has at most: far below what Lua can unpack. Even, so that no pair is parted.
local PART = 1000

-- A saga's head: its number and its last entry. An engine knows it before and after each of its items, so that the hot path compares and
-- stores heads as they are sent.
local HEAD = '>I8I8'

-- What the functions look at in a row, as engines send it and as it is stored: how many mails wait for an answer, the claims that are held, due,
-- ended, and the class. The rest is read by engines only.
local ROW = '>I4I4c0I1c0I1c0I2c0'

-- What many rows have in common, so that one call reads it once: epoch and node of the owner, whether pruned, whether contradicted, status,
-- saga, group and time among the dead.
local CLASS = '>I1c0I2c0c1c1I2c0I2c0I2c0'

local function read_class(plan, text)
  local class = plan.classes[text]
  if class then return class end
  local epoch, node, pruned, contradicted, status, saga, dead = struct.unpack(CLASS, text)
  class = {text = text, epoch = epoch, node = node, pruned = pruned, contradicted = contradicted, status = status, saga = saga, dead = dead,
    member = status .. '\0', open = 'o\0' .. status .. '\0' .. saga, ended = 'e\0' .. status .. '\0' .. saga}
  plan.classes[text] = class
  return class
end

-- The same class but for what is given.
local function class_but(plan, class, but)
  local epoch, node, saga = but.epoch or class.epoch, but.node or class.node, but.saga or class.saga
  return read_class(plan, struct.pack(CLASS, #epoch, epoch, #node, node, but.pruned or class.pruned, class.contradicted, #class.status,
    class.status, #saga, saga, #class.dead, class.dead))
end

-- A row never changes once it is read. `rest` is where in its text begins what the functions do not look at.
local function read_row(plan, text)
  local mails, held, due, ended, class, rest = struct.unpack(ROW, text)
  return {text = text, rest = rest, mails = mails, held = held, due = due, ended = ended, class = plan.classes[class] or read_class(plan, class)}
end

-- The same row with these instead.
local function row_with(row, mails, held, due, class)
  local head = struct.pack(ROW, mails, #held, held, #due, due, #row.ended, row.ended, #class.text, class.text)
  return {text = head .. string.sub(row.text, row.rest), rest = #head + 1, mails = mails, held = held, due = due, ended = row.ended,
    class = class}
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
    left = {}, counts = {}, answered = {}, classes = {}}
end

local function hget(plan, key, field)
  return redis.call('HGET', plan.keys[key], field)
end

-- What the fields of a hash hold that stand in a list from here to there: one command for many.
local function fetch(key, list, from, to)
  if to < from then return {} end
  if to - from < PART then return redis.call('HMGET', key, unpack(list, from, to)) end
  local all = {}
  for start = from, to, PART do
    for nth, value in ipairs(redis.call('HMGET', key, unpack(list, start, math.min(start + PART - 1, to)))) do all[start - from + nth] = value end
  end
  return all
end

-- An entry's field: what a saga was submitted with is entry 0.
local function entry_field(id, seq)
  return id .. '/' .. number(seq)
end

local function entry_fields(id, from, to)
  local fields = {}
  for seq = from, to do fields[seq - from + 1] = entry_field(id, seq) end
  return fields
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

local function get_row(plan, id)
  local text = hget(plan, ROWS, id)
  return text and read_row(plan, text)
end

-- In which index a row stands, by what: an owner's sagas, those that are due, those that retention has to look at.
local function place(row)
  local class = row.class
  if class.epoch ~= '' then return OWNED, class.epoch end
  if row.due ~= '' then return DUE, row.due end
  if row.ended ~= '' and class.pruned == '0' then return ENDED, row.ended end
end

-- Moves a member of one index, if it changes place.
local function move(plan, key, was, was_score, is, is_score)
  if was and was ~= is then zset(plan, key, was, false) end
  if is and (was ~= is or was_score ~= is_score) then zset(plan, key, is, is_score) end
end

-- Writes a row and what follows from it: where it stands in the indexes, and the counts. `rowid` are the eight bytes of its number. `old` is
-- the row as stored, false for a new one: once a call for each row.
local function set_row(plan, id, rowid, old, new)
  add_two(plan.sets, ROWS, id, new.text)
  local key, score = place(new)
  local was, was_score
  if old then was, was_score = place(old) end
  if was and was ~= key then zset(plan, was, id, false) end
  if key and (was ~= key or was_score ~= score) then add_two(plan.scores, key, score, id) end
  if new.mails > 0 or old and old.mails > 0 then
    move(plan, MAILED, was == OWNED and old.mails > 0 and id, was_score, key == OWNED and new.mails > 0 and id, score)
  end
  local before, class = old and old.class, new.class
  local was_counted, is_counted = old and (old.ended == '' and before.open or before.ended), new.ended == '' and class.open or class.ended
  if was_counted ~= is_counted then
    local counts = plan.counts
    if was_counted then counts[was_counted] = (counts[was_counted] or 0) - 1 end
    counts[is_counted] = (counts[is_counted] or 0) + 1
  end
  if before == class then return end
  if not old or before.status ~= class.status then
    if old then add(plan.left, STATUS, before.member .. rowid .. id) end
    add_two(plan.scores, STATUS, '0', class.member .. rowid .. id)
  end
  move(plan, DEAD, old and before.dead ~= '' and before.dead .. id, '0', class.dead ~= '' and class.dead .. id, '0')
  local was_contradicted, is_contradicted = old and before.contradicted == '1', class.contradicted == '1'
  if was_contradicted and not is_contradicted then count(plan, 'c', -1) end
  if is_contradicted and not was_contradicted then count(plan, 'c', 1) end
end

-- The same for a new row, as it was sent.
local function set_new_row(plan, id, rowid, text)
  local _, _, _, ended, class = struct.unpack(ROW, text)
  class = read_class(plan, class)
  -- Most are an engine's, on their way.
  if class.epoch == '' or ended ~= '' or class.dead ~= '' or class.contradicted ~= '0' then
    return set_row(plan, id, rowid, false, read_row(plan, text))
  end
  add_two(plan.sets, ROWS, id, text)
  add_two(plan.scores, OWNED, class.epoch, id)
  add_two(plan.scores, STATUS, '0', class.member .. rowid .. id)
  plan.counts[class.open] = (plan.counts[class.open] or 0) + 1
end

-- The eight bytes of a saga's number.
local function rowid_of(plan, id)
  return string.sub(hget(plan, HEADS, id), 1, 8)
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

-- Writes what was planned. Journals and rows first: what an index does not know is found in the end, what a journal lacks never is.
local function flush(plan)
  local keys = plan.keys
  for key, list in pairs(plan.gone) do write_parts('HDEL', keys[key], list) end
  for key, list in pairs(plan.sets) do write_parts('HSET', keys[key], list) end
  for key, list in pairs(plan.left) do write_parts('ZREM', keys[key], list) end
  for key, list in pairs(plan.scores) do write_parts('ZADD', keys[key], list) end
  for field, by in pairs(plan.counts) do
    if by ~= 0 and redis.call('HINCRBY', keys[COUNTS], field, number(by)) == 0 then redis.call('HDEL', keys[COUNTS], field) end
  end
  if next(plan.gone) or next(plan.sets) or next(plan.left) or next(plan.scores) then
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
