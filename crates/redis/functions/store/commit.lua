-- A batch of items: submissions and advances, atomic each.

local CLAIM = '>I1c0I2c0'

local function hold(since, id)
  return struct.pack(CLAIM, #since, since, #id, id)
end

-- Who holds one of these claims, other than the saga `own`: claim, since when, who.
local function find_holder(plan, names, own)
  for _, name in ipairs(names) do
    local held = hget(plan, CLAIMS, name)
    if held then
      local since, id = struct.unpack(CLAIM, held)
      if id ~= own then return name, since, id end
    end
  end
end

-- Takes claims that nobody else holds. A saga may name one twice, or claim again what it holds.
local function take_claims(plan, key, id, names, since)
  if #names == 0 then return end
  local own = plan.sagas[key].rowid and hget(plan, key, 'c') or ''
  for _, name in ipairs(names) do
    if not hget(plan, CLAIMS, name) then
      hset(plan, CLAIMS, name, hold(since, id))
      own = own .. struct.pack('>I2c0', #name, name)
    end
  end
  hset(plan, key, 'c', own)
end

local function release_claims(plan, key, id)
  local own, at = hget(plan, key, 'c'), 1
  if not own or own == '' then return end
  while at <= #own do
    local name
    name, at = struct.unpack('>I2c0', own, at)
    local held = hget(plan, CLAIMS, name)
    if held and select(2, struct.unpack(CLAIM, held)) == id then hset(plan, CLAIMS, name, false) end
  end
  hset(plan, key, 'c', '')
end

local function say_held(plan, out, name, since, id)
  out[#out + 1] = 'held'
  out[#out + 1] = name
  out[#out + 1] = since
  out[#out + 1] = id
  out[#out + 1] = hget(plan, ROWS, id) or ''
end

local function append(plan, key, saga, take)
  for _ = 1, tonumber(take()) do
    local seq = take()
    hset(plan, key, seq, take())
    saga.seq = seq
  end
  hset(plan, key, 's', saga.seq)
end

local function skip_entries(take)
  for _ = 1, 2 * tonumber(take()) do take() end
end

local function submit(plan, take, out)
  local key, id, fingerprint = FIXED + tonumber(take()), take(), take()
  local claims, new = read_many(take), read_row(take)
  local saga = get_saga(plan, key)
  -- Whose id it is comes first: a saga that is there already holds its claims itself.
  if saga.rowid then
    skip_entries(take)
    out[#out + 1] = hget(plan, key, 'f') == fingerprint and 'same' or 'different'
    return
  end
  local name, since, holder = find_holder(plan, claims, nil)
  if name then
    skip_entries(take)
    return say_held(plan, out, name, since, holder)
  end
  take_claims(plan, key, id, claims, new.created)
  plan.rowid = plan.rowid + 1
  saga.rowid, saga.mails = number(plan.rowid), 0
  hset(plan, key, 'r', saga.rowid)
  hset(plan, key, 'f', fingerprint)
  append(plan, key, saga, take)
  new.rowid, new.seq, new.pruned = saga.rowid, saga.seq, '0'
  set_row(plan, id, false, new, 0, 0)
  out[#out + 1] = 'created'
  out[#out + 1] = saga.rowid
end

-- What of a row can change. What a saga was submitted with never does.
local function change_row(plan, id, key, new)
  local old = get_row(plan, id)
  if not old then return nil end
  new.rowid, new.saga, new.created, new.fixed = old.rowid, old.saga, old.created, old.fixed
  -- Retention looks again: whoever wrote a row may have written entries too.
  new.seq, new.pruned = plan.sagas[key].seq, '0'
  return old
end

-- The first answer stands: its poster may have read it.
local function answer_mail(plan, key, id, saga, mail, text)
  local letter = hget(plan, MAIL, mail)
  if not letter or hget(plan, ANSWERS, mail) then return end
  local posted, to = struct.unpack('>I1c0I2c0', letter)
  if to ~= id then return end
  hset(plan, ANSWERS, mail, text)
  zset(plan, WAITING, mail_prefix(id) .. struct.pack('>I8', tonumber(mail)), false)
  zset(plan, ANSWERED, mail, posted)
  saga.mails = saga.mails - 1
  hset(plan, key, 'm', number(saga.mails))
end

local function advance(plan, take, out)
  local key, id, rowid, after = FIXED + tonumber(take()), take(), take(), take()
  local releases, since = take() == '1', take()
  local claims, mails = read_many(take), read_many(take)
  local new = take() == '1' and read_row(take)
  local saga = get_saga(plan, key)
  -- What was decided on top of an item that was not committed must not be committed either, even where somebody else's entries have made
  -- the numbers fit.
  if saga.lost or saga.rowid ~= rowid or saga.seq ~= after then
    skip_entries(take)
    saga.lost = true
    out[#out + 1] = 'conflict'
    return
  end
  local name, held_since, holder = find_holder(plan, claims, id)
  if name then
    skip_entries(take)
    saga.lost = true
    return say_held(plan, out, name, held_since, holder)
  end
  append(plan, key, saga, take)
  if releases then release_claims(plan, key, id) end
  take_claims(plan, key, id, claims, since)
  local had_mails = saga.mails
  for nth = 1, #mails, 2 do answer_mail(plan, key, id, saga, mails[nth], mails[nth + 1]) end
  if new then
    local old = change_row(plan, id, key, new)
    -- A saga must not be let go with mail in its box that nothing would wake it for.
    if new.epoch == '' and saga.mails > 0 then new.due = earlier(new.due, oldest_mail(plan, id) or '') end
    set_row(plan, id, old, new, saga.mails, had_mails)
  elseif had_mails > 0 and saga.mails == 0 then
    zset(plan, MAILED, id, false)
  end
  out[#out + 1] = 'committed'
end

-- Arguments: store, epoch, run, mark seen; how many items, the items: s (submission), a (advance), or x and a key: of that saga an item was
-- refused, or a former part of the batch was not committed. Answer: ok, mark, and for each s and a: created NUMBER | same | different |
-- held CLAIM SINCE SAGA ROW | committed | conflict.
register('amends_store_commit_v1', {}, function(keys, args)
  local take = reader(args)
  local plan, refusal = new_plan(keys, take)
  if not plan then return refusal end
  local out = {}
  for _ = 1, tonumber(take()) do
    local kind = take()
    if kind == 's' then
      submit(plan, take, out)
    elseif kind == 'a' then
      advance(plan, take, out)
    else
      get_saga(plan, FIXED + tonumber(take())).lost = true
    end
  end
  return answer(plan, out)
end)

-- Writes the row alone of a saga whose journal cannot be read. Arguments: guard, id, the row. Keys: that of the saga.
register('amends_store_park_v1', {}, function(keys, args)
  local take = reader(args)
  local plan, refusal = new_plan(keys, take)
  if not plan then return refusal end
  local id, rowid, new = take(), take(), read_row(take)
  local saga = get_saga(plan, FIXED + 1)
  if saga.rowid == rowid then
    local old = change_row(plan, id, FIXED + 1, new)
    if old then
      new.seq = old.seq
      set_row(plan, id, old, new, saga.mails, saga.mails)
    end
  end
  return answer(plan, {})
end)
