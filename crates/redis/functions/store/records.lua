-- Mail, definitions and retention.

local LETTER = '>I1c0I2c0I2c0I4c0'

-- Arguments: guard, id, input id, body, when by the poster's clock. Keys: that of the saga. Answer: ok, mark, none | number.
register('amends_store_post_v1', {}, function(keys, args)
  local take = reader(args)
  local plan, refusal = new_plan(keys, take)
  if not plan then return refusal end
  local id, input, body, posted = take(), take(), take(), take()
  local saga = get_saga(plan, FIXED + 1, id)
  if not saga.rowid then return answer(plan, {'none'}) end
  local known = hget(plan, INPUTS, mail_prefix(id) .. input)
  if known then return answer(plan, {known}) end
  -- A poster whose clock is ahead must not make it due later.
  posted = earlier(posted, number(read_clock()))
  plan.mail = plan.mail + 1
  local mail = number(plan.mail)
  hset(plan, MAIL, mail, struct.pack(LETTER, #posted, posted, #id, id, #input, input, #body, body))
  hset(plan, INPUTS, mail_prefix(id) .. input, mail)
  saga.mails = saga.mails + 1
  set_head(plan, saga)
  zset(plan, WAITING, mail_prefix(id) .. struct.pack('>I8', plan.mail), '0')
  local old = get_row(plan, id)
  local new = copy(old)
  if new.epoch == '' then new.due = earlier(new.due, posted) end
  set_row(plan, id, old, new, saga.mails, saga.mails - 1)
  return answer(plan, {mail})
end)

-- Arguments: id, limit. Answer: number and letter of each.
register('amends_store_waiting_v1', {'no-writes'}, function(keys, args)
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
register('amends_store_mine_v1', {'no-writes'}, function(keys, args)
  local out = {}
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', keys[MAILED], args[1], args[1], 'LIMIT', '0', args[2])) do
    local row = redis.call('HGET', keys[ROWS], id)
    if row then
      out[#out + 1] = id
      out[#out + 1] = unpack_row(row).rowid
    end
  end
  return out
end)

-- Arguments: guard, field, digest, the definition. Answer: ok, mark, new | known DEFINITION.
register('amends_store_register_v1', {}, function(keys, args)
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
register('amends_store_ended_v1', {'no-writes'}, function(keys, args)
  return redis.call('ZRANGEBYSCORE', keys[ENDED], '-inf', '(' .. args[1], 'LIMIT', '0', args[2])
end)

-- Arguments: guard, ended before, how many mails at most, the ids. Keys: those of the sagas, in the order of the ids. Answer: ok, mark, sagas,
-- mails.
register('amends_store_prune_v1', {'allow-oom'}, function(keys, args)
  local take = reader(args)
  local plan, refusal = new_plan(keys, take)
  if not plan then return refusal end
  local before, mails_max, ids = take(), take(), read_many(take)
  local sagas = 0
  for nth, id in ipairs(ids) do
    local ended = redis.call('ZSCORE', keys[ENDED], id)
    if ended and tonumber(ended) < tonumber(before) then
      sagas = sagas + 1
      local old = get_row(plan, id)
      local new = copy(old)
      new.pruned = '1'
      set_row(plan, id, old, new, 0, 0)
      local fields = redis.call('HGETALL', keys[FIXED + nth])
      for at = 1, #fields, 2 do
        -- Entries are numbered, and begin with whether they are kept.
        if string.sub(fields[at + 1], 1, 1) == '0' then hset(plan, FIXED + nth, fields[at], false) end
      end
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
