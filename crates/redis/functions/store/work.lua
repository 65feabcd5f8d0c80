-- Due work, take-over and node leases, all by the server's clock.

-- What a call whose answer may get lost gave: asked again with the same number, it gives the same.
local function granted_field(kind, epoch)
  return kind .. epoch
end

local function granted(plan, kind, epoch, request)
  local last = hget(plan, GRANTED, granted_field(kind, epoch))
  if not last then return nil end
  local of, at = struct.unpack('>I1c0', last)
  if of ~= request then return nil end
  local out = {}
  while at <= #last do
    out[#out + 1], at = struct.unpack('>I2c0', last, at)
  end
  return out
end

-- Makes these sagas a node's; gives id and number of each.
local function give(plan, node, epoch, ids)
  local out = {}
  for _, id in ipairs(ids) do
    local old = get_row(plan, id)
    if old then
      local rowid = rowid_of(plan, id)
      local class = class_but(plan, old.class, {epoch = epoch, node = node})
      set_row(plan, id, rowid, old, row_with(old, old.mails, old.held, old.due, class))
      out[#out + 1] = id
      out[#out + 1] = number((struct.unpack('>I8', rowid)))
    end
  end
  return out
end

-- The same, and notes what was given.
local function grant(plan, kind, node, epoch, request, ids)
  local out, note = give(plan, node, epoch, ids), {struct.pack('>I1c0', #request, request)}
  for _, text in ipairs(out) do note[#note + 1] = struct.pack('>I2c0', #text, text) end
  hset(plan, GRANTED, granted_field(kind, epoch), table.concat(note))
  return out
end

local function forget_granted(plan, epoch)
  for _, kind in ipairs({'d', 't'}) do hset(plan, GRANTED, granted_field(kind, epoch), false) end
end

-- Arguments: guard, node, epoch, number of the request, limit. Answer: ok, mark, and (id, number) of each saga.
register('amends_store_claim_due_v3', {}, function(keys, args)
  local take = reader(args)
  local plan, refusal = new_plan(keys, take)
  if not plan then return refusal end
  local node, epoch, request, limit = take(), take(), take(), take()
  local now = read_clock()
  if not is_live(keys, node, epoch, now) then return answer(plan, {}) end
  local again = granted(plan, 'd', epoch, request)
  if again then return answer(plan, again) end
  local ids = redis.call('ZRANGEBYSCORE', keys[DUE], '-inf', number(now), 'LIMIT', '0', limit)
  return answer(plan, grant(plan, 'd', node, epoch, request, ids))
end)

-- The owner of an epoch's sagas is the same for all of them: one tells.
local function lapsed(plan, now, limit)
  local keys, ids, after = plan.keys, {}, '-inf'
  while #ids < limit do
    local first = redis.call('ZRANGEBYSCORE', keys[OWNED], after, '(+inf', 'WITHSCORES', 'LIMIT', '0', '1')
    if #first == 0 then break end
    local row, epoch = get_row(plan, first[1]), first[2]
    if not row or not is_live(keys, row.class.node, row.class.epoch, now) then
      local found = redis.call('ZRANGEBYSCORE', keys[OWNED], epoch, epoch, 'LIMIT', '0', number(limit - #ids))
      for _, id in ipairs(found) do ids[#ids + 1] = id end
    end
    after = '(' .. epoch
  end
  return ids
end

register('amends_store_take_over_v3', {}, function(keys, args)
  local take = reader(args)
  local plan, refusal = new_plan(keys, take)
  if not plan then return refusal end
  local node, epoch, request, limit = take(), take(), take(), tonumber(take())
  local now = read_clock()
  if not is_live(keys, node, epoch, now) then return answer(plan, {}) end
  local again = granted(plan, 't', epoch, request)
  if again then return answer(plan, again) end
  return answer(plan, grant(plan, 't', node, epoch, request, lapsed(plan, now, limit)))
end)

-- Arguments: guard, node, epoch, id. Answer: ok, mark, yes | no.
register('amends_store_claim_v3', {}, function(keys, args)
  local take = reader(args)
  local plan, refusal = new_plan(keys, take)
  if not plan then return refusal end
  local node, epoch, id = take(), take(), take()
  local now = read_clock()
  local row = get_row(plan, id)
  if not row or not is_live(keys, node, epoch, now) then return answer(plan, {'no'}) end
  local class = row.class
  if class.epoch == epoch then return answer(plan, {'yes'}) end
  if class.epoch ~= '' and is_live(keys, class.node, class.epoch, now) then return answer(plan, {'no'}) end
  give(plan, node, epoch, {id})
  return answer(plan, {'yes'})
end)

-- Leases that are over say no more than no lease does.
local function forget_lapsed(plan, now)
  local all = redis.call('HGETALL', plan.keys[NODES])
  local left = 100
  for nth = 1, #all, 2 do
    local epoch, until_ms = string.match(all[nth + 1], '^(%d+) (%d+)$')
    if tonumber(until_ms) <= now and left > 0 then
      left = left - 1
      hset(plan, NODES, all[nth], false)
      forget_granted(plan, epoch)
    end
  end
end

-- Arguments: guard, node, milliseconds. Answer: ok, mark, epoch, until when. Epochs are never below the clock, so that they grow also where
-- the store has lost the last ones.
register('amends_store_join_v3', {'allow-oom'}, function(keys, args)
  local take = reader(args)
  local plan, refusal = new_plan(keys, take)
  if not plan then return refusal end
  local node, ttl = take(), tonumber(take())
  local now = read_clock()
  forget_lapsed(plan, now)
  local former = redis.call('HGET', keys[NODES], node)
  if former then forget_granted(plan, string.match(former, '^%d+')) end
  local last = tonumber(redis.call('HGET', keys[META], 'lease') or '0')
  local epoch, until_ms = number(math.max(last + 1, now)), number(now + ttl)
  hset(plan, META, 'lease', epoch)
  hset(plan, NODES, node, epoch .. ' ' .. until_ms)
  return answer(plan, {epoch, until_ms})
end)

-- Arguments: guard, node, epoch, milliseconds. Answer: ok, mark, until when; or over.
register('amends_store_renew_v3', {'allow-oom'}, function(keys, args)
  local take = reader(args)
  local plan, refusal = new_plan(keys, take)
  if not plan then return refusal end
  local node, epoch, ttl = take(), take(), tonumber(take())
  local now = read_clock()
  if not is_live(keys, node, epoch, now) then return answer(plan, {'over'}) end
  local until_ms = number(now + ttl)
  hset(plan, NODES, node, epoch .. ' ' .. until_ms)
  return answer(plan, {'until', until_ms})
end)

-- Arguments: guard, node, epoch.
register('amends_store_leave_v3', {'allow-oom'}, function(keys, args)
  local take = reader(args)
  local plan, refusal = new_plan(keys, take)
  if not plan then return refusal end
  local node, epoch = take(), take()
  local held = redis.call('HGET', keys[NODES], node)
  if held and string.match(held, '^%d+') == epoch then
    hset(plan, NODES, node, false)
    forget_granted(plan, epoch)
  end
  return answer(plan, {})
end)
