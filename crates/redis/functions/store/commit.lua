-- A batch of items: submissions and advances, atomic each.

-- Kinds of items, and how many fixed arguments a call has before its lists.
local APPEND, ADVANCE, SUBMIT = 112, 97, 115
local BEFORE = 5

-- Who holds one of an item's claims, other than the saga `own`: claim, since when, who.
local function find_holder(batch, from, to, own)
  for nth = from, to do
    local name = batch.args[nth]
    local held = batch.claims[name]
    if held then
      local since, id = struct.unpack('>I1c0I2c0', held)
      if id ~= own then return name, since, id end
    end
  end
end

local function set_claim(batch, name, held)
  batch.claims[name] = held
  batch.moved[name] = true
end

-- Takes claims that nobody else holds. A saga may name one twice, or claim again what it holds.
local function take_claims(batch, from, to, hold, held)
  for nth = from, to do
    local name = batch.args[nth]
    if not batch.claims[name] then
      set_claim(batch, name, hold)
      held = held .. struct.pack('>I2c0', #name, name)
    end
  end
  return held
end

local function release_claims(batch, held)
  local at = 1
  while at <= #held do
    local name
    name, at = struct.unpack('>I2c0', held, at)
    set_claim(batch, name, false)
  end
end

-- The holder as this call will leave it: it may be one of the batch. The answer goes behind `said` words.
local function say_held(plan, batch, said, name, since, id)
  local head, text, given = hget(plan, HEADS, id), hget(plan, ROWS, id), hget(plan, ENTRIES, entry_field(id, 0))
  for nth = 1, batch.sagas do
    if batch.args[BEFORE + nth] == id then
      local born, new = batch.born[nth], batch.new[nth]
      if born then head, text, given = batch.heads[nth], batch.args[born], batch.given[nth] end
      if new then text = new.text end
    end
  end
  for nth, word in ipairs({'held', name, since, id, head or '', text or '', given or ''}) do batch.out[said + nth] = word end
  return said + 7
end

-- Says whether it is written, and how many words the answer then has.
local function submit(plan, batch, said, nth, pair, entries, claims)
  local args, at, id = batch.args, batch.word, batch.args[BEFORE + nth]
  local from, to = batch.name, batch.name + claims - 1
  batch.word, batch.name = at + (claims > 0 and 2 or 1), to + 1
  -- Whose id it is comes first: a saga that is there already holds its claims itself.
  if batch.heads[nth] then
    local known = batch.given[nth] or hget(plan, ENTRIES, args[pair])
    local same = struct.unpack('>I2c0', args[pair + 1]) == struct.unpack('>I2c0', known)
    batch.out[said + 1] = same and 'same' or 'different'
    return false, said + 1
  end
  if claims > 0 then
    local name, since, holder = find_holder(batch, from, to, nil)
    if name then return false, say_held(plan, batch, said, name, since, holder) end
    -- Its row names them already.
    for one = from, to do set_claim(batch, args[one], args[at + 1]) end
  end
  plan.rowid = plan.rowid + 1
  local head = struct.pack(HEAD, plan.rowid, entries - 1)
  batch.heads[nth], batch.born[nth], batch.given[nth] = head, at, args[pair + 1]
  if nth <= batch.looked_at then
    batch.new[nth] = read_row(plan, args[at])
  else
    -- No other item of the batch changes its row.
    set_new_row(plan, id, string.sub(head, 1, 8), args[at])
  end
  batch.out[said + 1], batch.out[said + 2] = 'created', head
  return true, said + 2
end

-- The first answer stands: its poster may have read it. Says whether the mail waited for it.
local function answer_mail(plan, id, mail, text)
  local letter = hget(plan, MAIL, mail)
  if not letter or plan.answered[mail] or hget(plan, ANSWERS, mail) then return false end
  local posted, to = struct.unpack('>I1c0I2c0', letter)
  if to ~= id then return false end
  plan.answered[mail] = true
  hset(plan, ANSWERS, mail, text)
  zset(plan, WAITING, mail_prefix(id) .. struct.pack('>I8', tonumber(mail)), false)
  zset(plan, ANSWERED, mail, posted)
  return true
end

-- A row as an engine wants it, with what an engine does not decide: the mails and claims that there are, and what never changes.
local function row_over(plan, now, new, mails, held, due)
  local class = new.class
  if class.saga ~= now.class.saga then class = class_but(plan, class, {saga = now.class.saga}) end
  if new.mails == mails and new.held == held and new.due == due and new.class == class then return new end
  return row_with(new, mails, held, due, class)
end

-- Says whether it is written, and how many words the answer then has.
local function advance(plan, batch, said, nth, claims, mails, has_row, releases)
  local args, at, id, text, hold = batch.args, batch.word, batch.args[BEFORE + nth], nil, nil
  local before, after = args[at], args[at + 1]
  at = at + 2
  if has_row == 1 then text, at = args[at], at + 1 end
  if claims > 0 then hold, at = args[at], at + 1 end
  local from, to = batch.name, batch.name + claims - 1
  batch.word, batch.name = at + 2 * mails, to + 1
  -- Whose row is damaged is found so when the saga is loaded anew.
  if batch.lost[nth] or batch.heads[nth] ~= before or not (batch.new[nth] or batch.rows[nth]) then
    batch.out[said + 1] = 'conflict'
    return false, said + 1
  end
  local name, since, holder = find_holder(batch, from, to, id)
  if name then return false, say_held(plan, batch, said, name, since, holder) end
  local now = batch.new[nth] or read_row(plan, batch.rows[nth])
  local left, held = now.mails, now.held
  for letter = at, batch.word - 1, 2 do
    if answer_mail(plan, id, args[letter], args[letter + 1]) then left = left - 1 end
  end
  if releases == 1 then
    release_claims(batch, held)
    held = ''
  end
  held = take_claims(batch, from, to, hold, held)
  local new = text and read_row(plan, text) or now
  local due = new.due
  -- A saga must not be let go with mail in its box that nothing would wake it for.
  if text and left > 0 and new.class.epoch == '' then due = earlier(due, oldest_mail(plan, id) or '') end
  if not batch.new[nth] then batch.old[nth] = now end
  batch.new[nth] = row_over(plan, now, new, left, held, due)
  batch.heads[nth] = after
  batch.out[said + 1] = 'committed'
  return true, said + 1
end

-- Entries of items that are not committed are passed over.
local function pass_over(batch, from, to)
  batch.passed[#batch.passed + 1] = {from, to}
end

-- Writes the entries of all other items, as they were sent: they stand at the end of the arguments, field and entry of each.
local function write_entries(plan, batch, from)
  local key, args = plan.keys[ENTRIES], batch.args
  pass_over(batch, #args + 1)
  for _, passed in ipairs(batch.passed) do
    for start = from, passed[1] - 1, PART do
      redis.call('HSET', key, unpack(args, start, math.min(start + PART, passed[1]) - 1))
    end
    from = passed[2]
  end
end

-- Arguments: the guard; a plan of the call; the ids of the sagas; the names of the claims that are taken, in the order of the items; the words of
-- the items, one after the other; and at last the entries of all items, (field, entry) of each. The plan says how many sagas there are, how many of
-- them have a row that is looked at (they are the first), how many claims, and how many words; then of each item its kind, the place of
-- its saga, and how many entries are its.
-- p (an advance that only appends): its words are the saga's head before it, and after it.
-- a (any other advance): the plan says how many claims it takes, how many mails it answers, whether a row follows, whether claims are released;
--   the words are the head before it and after it, the row, how a claim of it is noted if it takes any, and (mail, answer) of each.
-- s (submission): the plan says how many claims it takes; the words are the row, and how a claim of it is noted if it takes any; what it was
--   submitted with is its first entry.
-- x: of that saga an item was refused, or a former part of the batch was not committed.
-- What was decided on top of an item that was not committed must not be committed either, even where somebody else's entries have made the numbers
-- fit.
-- Answer: ok, mark, and for each p, a and s: created HEAD | same | different | held CLAIM SINCE SAGA HEAD ROW GIVEN | committed | conflict.
register('amends_store_commit_v3', {}, function(keys, args)
  local plan, refusal = new_plan(keys, reader(args))
  if not plan then return refusal end
  local items, byte = args[BEFORE], string.byte
  local sagas, looked_at, claims, words, at = struct.unpack('>I4I4I4I4', items)
  local name = BEFORE + sagas + 1
  local heads, lost, out, said = fetch(keys[HEADS], args, BEFORE + 1, BEFORE + sagas), {}, {'ok', ''}, 2
  local batch = {args = args, sagas = sagas, looked_at = looked_at, heads = heads, rows = fetch(keys[ROWS], args, BEFORE + 1, BEFORE + looked_at),
    old = {}, new = {}, born = {}, given = {}, claims = {}, moved = {}, lost = lost, passed = {}, out = out, name = name, word = name + claims}
  for nth, held in ipairs(fetch(keys[CLAIMS], args, name, name + claims - 1)) do batch.claims[args[name + nth - 1]] = held end
  local first = batch.word + words
  -- The loop is short, for it is gone through by every item of every saga: what it looks at is at hand.
  local pair, written, n = first, {}, 0
  while at <= #items do
    local kind, nth, high, low = byte(items, at, at + 3)
    local entries, stands = high * 256 + low, false
    at = at + 4
    if kind == APPEND then
      local word = batch.word
      batch.word = word + 2
      said = said + 1
      stands = heads[nth] == args[word] and not lost[nth]
      if stands then
        heads[nth], out[said] = args[word + 1], 'committed'
      else
        out[said] = 'conflict'
      end
    elseif kind == SUBMIT then
      claims, at = struct.unpack('>I2', items, at)
      stands, said = submit(plan, batch, said, nth, pair, entries, claims)
    elseif kind == ADVANCE then
      local mails, has_row, releases
      claims, mails, has_row, releases, at = struct.unpack('>I2I2BB', items, at)
      stands, said = advance(plan, batch, said, nth, claims, mails, has_row, releases)
    end
    local next = pair + 2 * entries
    if stands then
      n = n + 2
      written[n - 1], written[n] = args[BEFORE + nth], heads[nth]
    else
      if kind ~= SUBMIT then lost[nth] = true end
      pass_over(batch, pair, next)
    end
    pair = next
  end
  if n > 0 then written.n, plan.sets[HEADS] = n, written end
  for nth, new in pairs(batch.new) do
    set_row(plan, args[BEFORE + nth], string.sub(heads[nth], 1, 8), batch.old[nth], new)
  end
  for claim in pairs(batch.moved) do hset(plan, CLAIMS, claim, batch.claims[claim]) end
  write_entries(plan, batch, first)
  flush(plan)
  out[2] = number(plan.mark)
  return out
end)

-- Writes the row alone of a saga whose journal cannot be read. Arguments: guard, id, the eight bytes of its number, the row.
register('amends_store_park_v3', {}, function(keys, args)
  local take = reader(args)
  local plan, refusal = new_plan(keys, take)
  if not plan then return refusal end
  local id, rowid, text = take(), take(), take()
  local old = get_row(plan, id)
  if old and rowid_of(plan, id) == rowid then
    local new = read_row(plan, text)
    -- Which entry was the last when the row was written stays what it was.
    local _, last = struct.unpack('>I1c0', old.text, old.rest)
    local _, rest = struct.unpack('>I1c0', text, new.rest)
    new = read_row(plan, string.sub(text, 1, new.rest - 1) .. string.sub(old.text, old.rest, last - 1) .. string.sub(text, rest))
    set_row(plan, id, rowid, old, row_over(plan, old, new, old.mails, old.held, new.due))
  end
  return answer(plan, {})
end)
