-- Reading, each from one moment.

-- A row as it is answered: the saga's head, the row, and what it was submitted with.
local function add_row(keys, out, id)
  local n = #out
  out[n + 1] = redis.call('HGET', keys[HEADS], id)
  out[n + 2] = redis.call('HGET', keys[ROWS], id)
  out[n + 3] = redis.call('HGET', keys[ENTRIES], entry_field(id, 0))
end

-- Adds number and entry of each that there is.
local function add_entries(keys, out, id, from, to)
  local fields = entry_fields(id, from, to)
  for nth, entry in ipairs(fetch(keys[ENTRIES], fields, 1, #fields)) do
    if entry then
      out[#out + 1] = number(from + nth - 1)
      out[#out + 1] = entry
    end
  end
end

-- Arguments: id. Answer: the row (see above), last entry's number, then (number, entry) of each; or nothing.
register('amends_store_load_v3', {'no-writes'}, function(keys, args)
  local head = redis.call('HGET', keys[HEADS], args[1])
  if not head then return {} end
  local _, last = struct.unpack(HEAD, head)
  local out = {}
  add_row(keys, out, args[1])
  out[#out + 1] = number(last)
  add_entries(keys, out, args[1], 1, last)
  return out
end)

-- Arguments: id. Answer: the row, or nothing.
register('amends_store_row_v3', {'no-writes'}, function(keys, args)
  local out = {}
  if redis.call('HEXISTS', keys[ROWS], args[1]) == 1 then add_row(keys, out, args[1]) end
  return out
end)

-- Arguments: id, from, how many numbers to look at. Answer: last entry's number, then (number, entry) of each there is.
register('amends_store_entries_v3', {'no-writes'}, function(keys, args)
  local head = redis.call('HGET', keys[HEADS], args[1])
  if not head then return {} end
  local _, last = struct.unpack(HEAD, head)
  local from, out = tonumber(args[2]), {number(last)}
  add_entries(keys, out, args[1], from, math.min(from + tonumber(args[3]) - 1, last))
  return out
end)

-- All statuses that there are rows of.
local function statuses_of(keys)
  local seen, out = {}, {}
  for _, field in ipairs(redis.call('HKEYS', keys[COUNTS])) do
    local status = string.match(field, '^[oe]%z([^%z]*)%z')
    if status and not seen[status] then
      seen[status] = true
      out[#out + 1] = status
    end
  end
  return out
end

-- Arguments: before which number (empty: none), how many, statuses (none: any). Answer: id and row of each, newest first.
register('amends_store_page_v3', {'no-writes'}, function(keys, args)
  local before, limit, wanted = args[1], tonumber(args[2]), {}
  for nth = 3, #args do wanted[#wanted + 1] = args[nth] end
  if #wanted == 0 then wanted = statuses_of(keys) end
  local found = {}
  for _, status in ipairs(wanted) do
    local prefix = status .. '\0'
    local from = before == '' and '[' .. prefix .. string.rep('\255', 9) or '(' .. prefix .. struct.pack('>I8', tonumber(before))
    for _, member in ipairs(redis.call('ZREVRANGEBYLEX', keys[STATUS], from, '[' .. prefix, 'LIMIT', '0', number(limit))) do
      found[#found + 1] = {struct.unpack('>I8', member, #prefix + 1), string.sub(member, #prefix + 9)}
    end
  end
  table.sort(found, function(a, b) return a[1] > b[1] end)
  local out = {}
  for nth = 1, math.min(limit, #found) do
    local id = found[nth][2]
    out[#out + 1] = id
    add_row(keys, out, id)
  end
  return out
end)

-- Arguments: how many groups at most are looked at. Answer of each: its first member, its last, how many.
register('amends_store_dead_v3', {'no-writes'}, function(keys, args)
  local out, after = {}, '-'
  for _ = 1, tonumber(args[1]) do
    local first = redis.call('ZRANGEBYLEX', keys[DEAD], after, '+', 'LIMIT', '0', '1')[1]
    if not first then break end
    local prefix = string.sub(first, 1, 2 + struct.unpack('>I2', first))
    local from, to = '[' .. prefix, '[' .. prefix .. string.rep('\255', 9)
    out[#out + 1] = first
    out[#out + 1] = redis.call('ZREVRANGEBYLEX', keys[DEAD], to, from, 'LIMIT', '0', '1')[1]
    out[#out + 1] = number(redis.call('ZLEXCOUNT', keys[DEAD], from, to))
    after = '(' .. prefix .. string.rep('\255', 9)
  end
  return out
end)

-- When the oldest saga in a status was submitted. They are numbered in order of arrival.
local function oldest_of(keys, status)
  local prefix = status .. '\0'
  local first = redis.call('ZRANGEBYLEX', keys[STATUS], '[' .. prefix, '[' .. prefix .. string.rep('\255', 9), 'LIMIT', '0', '1')[1]
  if not first then return '' end
  local given = redis.call('HGET', keys[ENTRIES], entry_field(string.sub(first, #prefix + 9), 0))
  local _, created = struct.unpack('>I2c0I1c0', given)
  return created
end

-- Answer: due, oldest due (or empty), oldest open (or empty), then (field, count) of each count.
register('amends_store_stats_v3', {'no-writes'}, function(keys, args)
  local now = read_clock()
  local due = redis.call('ZCOUNT', keys[DUE], '-inf', number(now))
  local first = redis.call('ZRANGE', keys[DUE], '0', '0', 'WITHSCORES')
  local oldest_due = due > 0 and number(tonumber(first[2])) or ''
  local after = '-inf'
  while true do
    local owned = redis.call('ZRANGEBYSCORE', keys[OWNED], after, '(+inf', 'WITHSCORES', 'LIMIT', '0', '1')
    if #owned == 0 then break end
    local class = read_row({classes = {}}, redis.call('HGET', keys[ROWS], owned[1])).class
    if not is_live(keys, class.node, class.epoch, now) then due = due + redis.call('ZCOUNT', keys[OWNED], owned[2], owned[2]) end
    after = '(' .. owned[2]
  end
  local counts, oldest_open = redis.call('HGETALL', keys[COUNTS]), ''
  for at = 1, #counts, 2 do
    local status = string.match(counts[at], '^o%z([^%z]*)%z')
    if status then oldest_open = earlier(oldest_open, oldest_of(keys, status)) end
  end
  local out = {number(due), oldest_due, oldest_open}
  for _, text in ipairs(counts) do out[#out + 1] = text end
  return out
end)
