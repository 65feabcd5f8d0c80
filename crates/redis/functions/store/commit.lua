-- A batch of items: submissions and advances, atomic each.

-- Kinds of items, and how many fixed arguments a call has before its lists.
local APPEND, ADVANCE, SUBMIT = 112, 97, 115
local BEFORE = 5

-- Who holds one of an item's claims, other than the saga `own`: claim, since when, who.
local function find_holder(plan, from, to, own)
  for nth = from, to do
    local name = plan.args[nth]
    local held = plan.claims[name]
    if held then
      local since, id = struct.unpack('>I1c0I2c0', held)
      if id ~= own then return name, since, id end
    end
  end
end

local function set_claim(plan, name, held)
  plan.claims[name] = held
  plan.moved[name] = true
end

-- Takes claims that nobody else holds. A saga may name one twice, or claim again what it holds.
local function take_claims(plan, from, to, hold, held)
  for nth = from, to do
    local name = plan.args[nth]
    if not plan.claims[name] then
      set_claim(plan, name, hold)
      held = held .. struct.pack('>I2c0', #name, name)
    end
  end
  return held
end

local function release_claims(plan, held)
  local at = 1
  while at <= #held do
    local name
    name, at = struct.unpack('>I2c0', held, at)
    set_claim(plan, name, false)
  end
end

local function say(plan, text)
  local out = plan.out
  local n = out.n + 1
  out[n], out.n = text, n
end

-- The holder as this call will leave it: it may be one of the batch.
local function say_held(plan, name, since, id)
  local head, text, given = hget(plan, HEADS, id), hget(plan, ROWS, id), hget(plan, ENTRIES, entry_field(id, 0))
  for nth, row in pairs(plan.rows) do
    if plan.args[BEFORE + nth] == id then
      head, text, given = plan.heads[nth] or head, row.new and row.new.text or text, row.given or given
    end
  end
  for _, word in ipairs({'held', name, since, id, head or '', text or '', given or ''}) do say(plan, word) end
end

local function submit(plan, nth, pair, entries, claims)
  local args, at = plan.args, plan.word
  local from, to = plan.name, plan.name + claims - 1
  plan.word, plan.name = at + (claims > 0 and 2 or 1), to + 1
  -- Whose id it is comes first: a saga that is there already holds its claims itself.
  if plan.heads[nth] then
    local known = plan.rows[nth] and plan.rows[nth].given or hget(plan, ENTRIES, args[pair])
    local same = struct.unpack('>I2c0', args[pair + 1]) == struct.unpack('>I2c0', known)
    say(plan, same and 'same' or 'different')
    return false
  end
  if claims > 0 then
    local name, since, holder = find_holder(plan, from, to, nil)
    if name then
      say_held(plan, name, since, holder)
      return false
    end
    -- Its row names them already.
    for one = from, to do set_claim(plan, args[one], args[at + 1]) end
  end
  plan.rowid = plan.rowid + 1
  local head = struct.pack(HEAD, plan.rowid, entries - 1)
  plan.heads[nth] = head
  plan.rows[nth] = {old = false, new = read_row(plan, args[at]), given = args[pair + 1]}
  add_two(plan.sets, HEADS, args[BEFORE + nth], head)
  say(plan, 'created')
  say(plan, number(plan.rowid))
  return true
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

-- Says whether it is committed, and if not, who holds what.
local function advance(plan, nth, claims, mails, has_row, releases)
  local args, at, id, row = plan.args, plan.word, plan.args[BEFORE + nth], plan.rows[nth]
  local before, after, text, hold = args[at], args[at + 1], nil, nil
  at = at + 2
  if has_row == 1 then text, at = args[at], at + 1 end
  if claims > 0 then hold, at = args[at], at + 1 end
  plan.word = at + 2 * mails
  local from, to = plan.name, plan.name + claims - 1
  plan.name = to + 1
  if plan.lost[nth] or plan.heads[nth] ~= before then
    say(plan, 'conflict')
    return false
  end
  local name, since, holder = find_holder(plan, from, to, id)
  if name then
    say_held(plan, name, since, holder)
    return false
  end
  local now = row.new or row.old
  local mails_left, held = now.mails, now.held
  for letter = at, plan.word - 1, 2 do
    if answer_mail(plan, id, args[letter], args[letter + 1]) then mails_left = mails_left - 1 end
  end
  if releases == 1 then
    release_claims(plan, held)
    held = ''
  end
  held = take_claims(plan, from, to, hold, held)
  local new = text and read_row(plan, text) or now
  local due = new.due
  -- A saga must not be let go with mail in its box that nothing would wake it for.
  if text and mails_left > 0 and new.class.epoch == '' then due = earlier(due, oldest_mail(plan, id) or '') end
  row.new = row_over(plan, now, new, mails_left, held, due)
  plan.heads[nth] = after
  add_two(plan.sets, HEADS, id, after)
  say(plan, 'committed')
  return true
end

-- Entries of items that are not committed are passed over.
local function pass_over(plan, from, to)
  local passed = plan.passed
  passed[#passed + 1] = {from, to}
end

-- Writes the entries of all other items, as they were sent: they stand at the end of the arguments, field and entry of each.
local function write_entries(plan, from)
  local key, args = plan.keys[ENTRIES], plan.args
  plan.passed[#plan.passed + 1] = {#args + 1}
  for _, passed in ipairs(plan.passed) do
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
-- Answer: ok, mark, and for each p, a and s: created NUMBER | same | different | held CLAIM SINCE SAGA HEAD ROW GIVEN | committed | conflict.
register('amends_store_commit_v3', {}, function(keys, args)
  local plan, refusal = new_plan(keys, reader(args))
  if not plan then return refusal end
  local items, byte = args[BEFORE], string.byte
  local sagas, looked_at, claims, words, at = struct.unpack('>I4I4I4I4', items)
  local heads, lost, out, rows = fetch(keys[HEADS], args, BEFORE + 1, BEFORE + sagas), {}, {'ok', '', n = 2}, {}
  for nth, text in ipairs(fetch(keys[ROWS], args, BEFORE + 1, BEFORE + looked_at)) do
    rows[nth] = {old = text and read_row(plan, text), new = false, given = false}
  end
  local name = BEFORE + sagas + 1
  local word = name + claims
  local pair = word + words
  local first, moved, n = pair, {}, 0
  plan.args, plan.heads, plan.lost, plan.out, plan.rows, plan.claims, plan.moved, plan.passed = args, heads, lost, out, rows, {}, {}, {}
  plan.name, plan.word = name, word
  for nth, held in ipairs(fetch(keys[CLAIMS], args, name, name + claims - 1)) do plan.claims[args[name + nth - 1]] = held end
  while at <= #items do
    local kind, nth, high, low = byte(items, at, at + 3)
    local entries, stands = high * 256 + low, false
    at = at + 4
    if kind == APPEND then
      word = plan.word
      plan.word = word + 2
      stands = heads[nth] == args[word] and not lost[nth]
      if stands then
        heads[nth] = args[word + 1]
        add_two(plan.sets, HEADS, args[BEFORE + nth], args[word + 1])
      end
      say(plan, stands and 'committed' or 'conflict')
    elseif kind == SUBMIT then
      claims, at = struct.unpack('>I2', items, at)
      stands = submit(plan, nth, pair, entries, claims)
    elseif kind == ADVANCE then
      local mails, has_row, releases
      claims, mails, has_row, releases, at = struct.unpack('>I2I2BB', items, at)
      stands = advance(plan, nth, claims, mails, has_row, releases)
    end
    if not stands then
      if kind ~= SUBMIT then lost[nth] = true end
      pass_over(plan, pair, pair + 2 * entries)
    end
    pair = pair + 2 * entries
  end
  for nth, row in pairs(rows) do
    if row.new then set_row(plan, args[BEFORE + nth], string.sub(heads[nth], 1, 8), row.old, row.new) end
  end
  for moves in pairs(plan.moved) do hset(plan, CLAIMS, moves, plan.claims[moves]) end
  write_entries(plan, first)
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
