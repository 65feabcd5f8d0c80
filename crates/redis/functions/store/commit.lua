-- A batch of items: submissions and advances, atomic each.

local CLAIM = '>I1c0I2c0'

local function hold(since, id)
  return struct.pack(CLAIM, #since, since, #id, id)
end

-- Who holds one of an item's claims, other than the saga `own`: claim, since when, who.
local function find_holder(plan, names, own)
  for _, name in ipairs(names) do
    local held = plan.claims[name]
    if held then
      local since, id = struct.unpack(CLAIM, held)
      if id ~= own then return name, since, id end
    end
  end
end

local function set_claim(plan, name, held)
  plan.claims[name] = held
  plan.moved[name] = true
end

-- Takes claims that nobody else holds. A saga may name one twice, or claim again what it holds.
local function take_claims(plan, saga, names, since)
  for _, name in ipairs(names) do
    if not plan.claims[name] then
      set_claim(plan, name, hold(since, saga.id))
      saga.held = saga.held .. struct.pack('>I2c0', #name, name)
    end
  end
end

local function release_claims(plan, saga)
  local at = 1
  while at <= #saga.held do
    local name
    name, at = struct.unpack('>I2c0', saga.held, at)
    set_claim(plan, name, false)
  end
  saga.held = ''
end

local function say_held(plan, out, name, since, id)
  local saga = plan.known[id]
  local row = saga and saga.new and pack_row(saga.new) or hget(plan, ROWS, id) or ''
  local rest = saga and saga.rest or hget(plan, RESTS, id) or ''
  local given = saga and saga.given or hget(plan, GIVEN, id) or ''
  for _, text in ipairs({'held', name, since, id, row, rest, given}) do out[#out + 1] = text end
end

local function append(saga, entries, take)
  saga.changed = true
  if entries == 0 then return end
  local journal, seq = saga.entries, saga.seq
  if not journal then
    seq, entries = seq + 1, entries - 1
    journal = {number(seq), take(), n = 2}
    saga.entries = journal
  end
  for n = journal.n + 2, journal.n + 2 * entries, 2 do
    seq = seq + 1
    journal[n - 1], journal[n] = number(seq), take()
  end
  journal.n = journal.n + 2 * entries
  saga.seq = seq
end

local function skip(take, words)
  for _ = 1, words do take() end
end

local function submit(plan, saga, claims, entries, take, out)
  local new, rest, given = read_row(take()), take(), take()
  -- Whose id it is comes first: a saga that is there already holds its claims itself.
  if saga.rowid then
    skip(take, entries)
    local fingerprint = struct.unpack('>I2c0', saga.given or hget(plan, GIVEN, saga.id))
    out[#out + 1] = struct.unpack('>I2c0', given) == fingerprint and 'same' or 'different'
    return
  end
  local name, since, holder = find_holder(plan, claims, nil)
  if name then
    skip(take, entries)
    return say_held(plan, out, name, since, holder)
  end
  take_claims(plan, saga, claims, new.created)
  plan.rowid = plan.rowid + 1
  saga.rowid, saga.given = plan.rowid, given
  append(saga, entries, take)
  new.rowid, new.seq = number(saga.rowid), number(saga.seq)
  saga.new, saga.rest = new, rest
  out[#out + 1] = 'created'
  out[#out + 1] = new.rowid
end

-- What of a row can change. What a saga was submitted with never does. Retention looks again: whoever wrote a row may have written entries
-- too.
local function change_row(saga, new)
  local old = saga.new or saga.old
  new.rowid, new.saga, new.created, new.seq = old.rowid, old.saga, old.created, number(saga.seq)
end

-- The first answer stands: its poster may have read it.
local function answer_mail(plan, saga, mail, text)
  local letter = hget(plan, MAIL, mail)
  if not letter or plan.answered[mail] or hget(plan, ANSWERS, mail) then return end
  local posted, to = struct.unpack('>I1c0I2c0', letter)
  if to ~= saga.id then return end
  plan.answered[mail] = true
  hset(plan, ANSWERS, mail, text)
  zset(plan, WAITING, mail_prefix(saga.id) .. struct.pack('>I8', tonumber(mail)), false)
  zset(plan, ANSWERED, mail, posted)
  saga.mails = saga.mails - 1
end

local function advance(plan, saga, header, at, claims, entries, take, out)
  local mails, has_row, releases, rowid, after, since = struct.unpack('>I4BBI8I8I1c0', header, at)
  local new, rest
  if has_row == 1 then new, rest = read_row(take()), take() end
  -- What was decided on top of an item that was not committed must not be committed either, even where somebody else's entries have made
  -- the numbers fit.
  if saga.lost or saga.rowid ~= rowid or saga.seq ~= after then
    skip(take, 2 * mails + entries)
    saga.lost = true
    out[#out + 1] = 'conflict'
    return
  end
  local name, held_since, holder = find_holder(plan, claims, saga.id)
  if name then
    skip(take, 2 * mails + entries)
    saga.lost = true
    return say_held(plan, out, name, held_since, holder)
  end
  for _ = 1, mails do
    local mail = take()
    answer_mail(plan, saga, mail, take())
  end
  append(saga, entries, take)
  if releases == 1 then release_claims(plan, saga) end
  take_claims(plan, saga, claims, since)
  if new and (saga.new or saga.old) then
    change_row(saga, new)
    -- A saga must not be let go with mail in its box that nothing would wake it for.
    if new.epoch == '' and saga.mails > 0 then new.due = earlier(new.due, oldest_mail(plan, saga.id) or '') end
    saga.new, saga.rest = new, rest
  end
  out[#out + 1] = 'committed'
end

-- What became of a saga in this call.
local function settle(plan, saga)
  if saga.entries then plan.sets[saga.key] = saga.entries end
  set_head(plan, saga)
  if saga.given then hset(plan, GIVEN, saga.id, saga.given) end
  if saga.new then
    hset(plan, RESTS, saga.id, saga.rest)
    set_row(plan, saga.id, saga.old, saga.new, saga.mails, saga.had_mails)
  elseif saga.had_mails > 0 and saga.mails == 0 then
    zset(plan, MAILED, saga.id, false)
  end
end

-- Reads what the items will look at: of each saga its head, and its row if one is written.
local function read_sagas(plan, ids, wants)
  local sagas, wanting, wanted = {}, {}, {}
  for nth, head in ipairs(fetch(plan, HEADS, ids)) do
    local saga = read_head(FIXED + nth, ids[nth], head)
    sagas[nth], plan.known[saga.id] = saga, saga
    if string.byte(wants, nth) == 49 then
      wanting[#wanting + 1] = saga
      wanted[#wanted + 1] = saga.id
    end
  end
  for nth, text in ipairs(fetch(plan, ROWS, wanted)) do wanting[nth].old = text and unpack_row(text) end
  return sagas
end

local function read_claims(plan, names)
  for nth, held in ipairs(fetch(plan, CLAIMS, names)) do plan.claims[names[nth]] = held end
end

-- Keys: those of the sagas. Arguments: the guard; the ids of the sagas; a character for each (1: a row of it is written, 0: none); how many claims
-- are taken, and their names, in the order of the items; the items. Each begins with a header: its kind, its place among the sagas, how
-- many of the claims are its, how many entries. s (submission): the row, its rest, what is given, and the entries follow. a (advance):
-- and how many mails it answers, whether a row follows, whether claims are released, the saga's number, the entry it follows, since when it
-- takes claims; the row and its rest, (mail, answer) of each, and the entries follow. x: of that saga an item was refused, or a former part of
-- the batch was not committed. Answer: ok, mark, and for each s and a: created NUMBER | same | different | held CLAIM SINCE SAGA ROW REST GIVEN |
-- committed | conflict.
register('amends_store_commit_v1', {}, function(keys, args)
  local take = reader(args)
  local plan, refusal = new_plan(keys, take)
  if not plan then return refusal end
  plan.known, plan.claims, plan.moved = {}, {}, {}
  local ids, out, none = {}, {}, {}
  for nth = 1, #keys - FIXED do ids[nth] = take() end
  local sagas = read_sagas(plan, ids, take())
  local names, used = read_many(take), 0
  read_claims(plan, names)
  local header = take()
  while header do
    local kind, place, of_item, entries, at = struct.unpack('>c1I4I4I4', header)
    local saga, claims = sagas[place], none
    if of_item > 0 then
      claims = {unpack(names, used + 1, used + of_item)}
      used = used + of_item
    end
    if kind == 's' then
      submit(plan, saga, claims, entries, take, out)
    elseif kind == 'a' then
      advance(plan, saga, header, at, claims, entries, take, out)
    else
      saga.lost = true
    end
    header = take()
  end
  for _, saga in ipairs(sagas) do
    if saga.changed then settle(plan, saga) end
  end
  for name in pairs(plan.moved) do hset(plan, CLAIMS, name, plan.claims[name]) end
  return answer(plan, out)
end)

-- Writes the row alone of a saga whose journal cannot be read. Arguments: guard, id, number, the row, its rest. Keys: that of the saga.
register('amends_store_park_v1', {}, function(keys, args)
  local take = reader(args)
  local plan, refusal = new_plan(keys, take)
  if not plan then return refusal end
  local saga, rowid, new = get_saga(plan, FIXED + 1, take()), tonumber(take()), read_row(take())
  if saga.rowid == rowid then
    saga.old = get_row(plan, saga.id)
    if saga.old then
      change_row(saga, new)
      new.seq = saga.old.seq
      hset(plan, RESTS, saga.id, take())
      set_row(plan, saga.id, saga.old, new, saga.mails, saga.mails)
    end
  end
  return answer(plan, {})
end)
