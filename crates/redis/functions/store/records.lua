-- Mail, definitions and retention.

local LETTER = '>I1c0I2c0I2c0I4c0'

-- Arguments: guard, id, input id, body, when by the poster's clock. Answer: ok, mark, none | number.
register('amends_store_post_v3', {}, function(keys, args)
  local take = reader(args)
  local plan, refusal = new_plan(keys, take)
  if not plan then return refusal end
  local id, input, body, posted = take(), take(), take(), take()
  local old = get_row(plan, id)
  if not old then return answer(plan, {'none'}) end
  local known = hget(plan, INPUTS, mail_prefix(id) .. input)
  if known then return answer(plan, {known}) end
  -- A poster whose clock is ahead must not make it due later.
  posted = earlier(posted, number(read_clock()))
  plan.mail = plan.mail + 1
  local mail = number(plan.mail)
  hset(plan, MAIL, mail, struct.pack(LETTER, #posted, posted, #id, id, #input, input, #body, body))
  hset(plan, INPUTS, mail_prefix(id) .. input, mail)
  zset(plan, WAITING, mail_prefix(id) .. struct.pack('>I8', plan.mail), '0')
  local due = old.class.epoch == '' and earlier(old.due, posted) or old.due
  set_row(plan, id, rowid_of(plan, id), old, row_with(old, old.mails + 1, old.held, due, old.class))
  return answer(plan, {mail})
end)

-- Arguments: id, limit. Answer: number and letter of each.
register('amends_store_waiting_v3', {'no-writes'}, function(keys, args)
  local prefix, out = mail_prefix(args[1]), {}
  local found = redis.call('ZRANGEBYLEX', keys[WAITING], '[' .. prefix, '[' .. prefix .. string.rep('\255', 9), 'LIMIT', '0', args[2])
  for _, member in ipairs(found) do
    local mail = number((struct.unpack('>I8', member, #prefix + 1)))
    out[#out + 1] = mail
    out[#out + 1] = redis.call('HGET', keys[MAIL], mail)
  end
  return out
end)

-- Arguments: epoch, limit. Answer: id and number of each saga of that epoch that has mail.
register('amends_store_mine_v3', {'no-writes'}, function(keys, args)
  local out = {}
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', keys[MAILED], args[1], args[1], 'LIMIT', '0', args[2])) do
    local head = redis.call('HGET', keys[HEADS], id)
    if head then
      out[#out + 1] = id
      out[#out + 1] = number((struct.unpack(HEAD, head)))
    end
  end
  return out
end)

-- Arguments: guard, field, digest, the definition. Answer: ok, mark, new | known DEFINITION.
register('amends_store_register_v3', {}, function(keys, args)
  local take = reader(args)
  local plan, refusal = new_plan(keys, take)
  if not plan then return refusal end
  local field, digest, definition = take(), take(), take()
  local known = hget(plan, DEFINITIONS, field)
  if known then return answer(plan, {'known', known}) end
  hset(plan, DEFINITIONS, field, definition)
  hset(plan, DIGESTS, digest, field)
  zset(plan, VERSIONS, field, '0')
  return answer(plan, {'new'})
end)

-- Arguments: ended before, limit. Answer: the ids of sagas that retention may look at.
register('amends_store_ended_v3', {'no-writes'}, function(keys, args)
  return redis.call('ZRANGEBYSCORE', keys[ENDED], '-inf', '(' .. args[1], 'LIMIT', '0', args[2])
end)

-- Removes what is not kept of a journal.
local function prune_entries(plan, id)
  local _, last = struct.unpack(HEAD, hget(plan, HEADS, id))
  local fields = entry_fields(id, 1, last)
  for nth, entry in ipairs(fetch(plan.keys[ENTRIES], fields, 1, #fields)) do
    -- Entries begin with whether they are kept.
    if entry and string.sub(entry, 1, 1) == '0' then hset(plan, ENTRIES, fields[nth], false) end
  end
end

-- Arguments: guard, ended before, how many mails at most, the ids. Answer: ok, mark, sagas, mails.
register('amends_store_prune_v3', {'allow-oom'}, function(keys, args)
  local take = reader(args)
  local plan, refusal = new_plan(keys, take)
  if not plan then return refusal end
  local before, mails_max, ids = take(), take(), read_many(take)
  local sagas = 0
  for _, id in ipairs(ids) do
    local ended = redis.call('ZSCORE', keys[ENDED], id)
    if ended and tonumber(ended) < tonumber(before) then
      sagas = sagas + 1
      local old = get_row(plan, id)
      local class = class_but(plan, old.class, {pruned = '1'})
      set_row(plan, id, rowid_of(plan, id), old, row_with(old, old.mails, old.held, old.due, class))
      prune_entries(plan, id)
    end
  end
  local mails = redis.call('ZRANGEBYSCORE', keys[ANSWERED], '-inf', '(' .. before, 'LIMIT', '0', mails_max)
  for _, mail in ipairs(mails) do
    local _, id, input = struct.unpack(LETTER, hget(plan, MAIL, mail))
    hset(plan, MAIL, mail, false)
    hset(plan, ANSWERS, mail, false)
    hset(plan, INPUTS, mail_prefix(id) .. input, false)
    zset(plan, ANSWERED, mail, false)
  end
  return answer(plan, {number(sagas), number(#mails)})
end)
