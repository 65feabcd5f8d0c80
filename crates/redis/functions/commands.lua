-- What forward and rollback commands may be, and how they are run: all of them, or none and the reason.

-- The whitelist, `commands_table`, is loaded right before this text: crates/core/src/definition/redis/commands.table, by which definitions are checked
-- too. One command a line: the type of what its keys hold, then its arguments; `+n`: the last n of them may repeat.

-- The same numbers are in src/commands/mod.rs. They bound how long one call keeps the server busy.
local commands_max = 100
local commands_arguments_max = 1000
local commands_bytes_max = 1048576

-- The rule of a command, or nil. Each line is read when it is needed first: while a library is loaded Lua's own functions are not there.
local commands_rules = {}
local function commands_rule(name)
  local line = commands_table[name]
  if line and not commands_rules[name] then
    local rule = { shape = {}, repeats = 0 }
    for word in string.gmatch(line, '%S+') do
      if not rule.type then
        rule.type = word
      elseif string.sub(word, 1, 1) == '+' then
        rule.repeats = tonumber(string.sub(word, 2))
      else
        table.insert(rule.shape, word)
      end
    end
    commands_rules[name] = rule
  end
  return commands_rules[name]
end

-- Integers are 64 bits wide and Lua's numbers are not: a number is sign, digits above and digits below 10^10, all exact.
local function commands_integer(text)
  local sign, digits = string.match(text, '^(%-?)(%d+)$')
  if not digits or #digits > 19 or (string.sub(digits, 1, 1) == '0' and (#digits > 1 or sign == '-')) then
    return nil
  end
  local factor = sign == '-' and -1 or 1
  return { high = factor * (tonumber(string.sub(digits, 1, -11)) or 0), low = factor * tonumber(string.sub(digits, -10)) }
end

-- Whether it is within 64 bits; `lowest` is the last digit of the least one: 8, or 7 for what must have a negative.
local function commands_fits(number, lowest)
  if number.high < 0 or number.low < 0 then
    return -number.high < 922337203 or (-number.high == 922337203 and -number.low <= 6854775800 + lowest)
  end
  return number.high < 922337203 or (number.high == 922337203 and number.low <= 6854775807)
end

local function commands_sum(a, b, factor)
  local high, low = a.high + factor * b.high, a.low + factor * b.low
  if low >= 1e10 then high, low = high + 1, low - 1e10 end
  if low <= -1e10 then high, low = high - 1, low + 1e10 end
  if high > 0 and low < 0 then high, low = high - 1, low + 1e10 end
  if high < 0 and low > 0 then high, low = high + 1, low - 1e10 end
  return { high = high, low = low }
end

local function commands_digits(number)
  local sign = (number.high < 0 or number.low < 0) and '-' or ''
  local high, low = math.abs(number.high), math.abs(number.low)
  if high == 0 then return sign .. string.format('%.0f', low) end
  return sign .. string.format('%.0f%010.0f', high, low)
end

local function commands_less(a, b)
  return a.high < b.high or (a.high == b.high and a.low < b.low)
end

local function commands_is(kind, text)
  if kind == 'key' then return text ~= '' end
  if kind == 'any' then return true end
  if kind == 'integer' then
    local number = commands_integer(text)
    return number ~= nil and commands_fits(number, 7)
  end
  -- No exponents: what is at most 40 characters long neither overflows nor vanishes.
  if kind == 'decimal' then
    return #text <= 40 and (string.match(text, '^%-?%d+$') or string.match(text, '^%-?%d+%.%d+$')) ~= nil
  end
  -- Ten digits, so that a time far away does not overflow either in milliseconds.
  if kind == 'seconds' then return string.match(text, '^[1-9]%d*$') ~= nil and #text <= 10 end
  if kind == 'milliseconds' then return string.match(text, '^[1-9]%d*$') ~= nil and #text <= 13 end
  return false
end

-- The options of SET behind its value, or nil.
local function commands_set_options(command)
  local found, at = {}, 4
  while at <= #command do
    local word = string.upper(command[at])
    local takes = ({ EX = 'seconds', EXAT = 'seconds', PX = 'milliseconds', PXAT = 'milliseconds' })[word]
    if takes then
      if found.time or not command[at + 1] or not commands_is(takes, command[at + 1]) then return nil end
      found.time, found.at = true, word == 'EXAT' or word == 'PXAT'
      at = at + 1
    elseif word == 'KEEPTTL' then
      if found.time then return nil end
      found.time = true
    elseif word == 'NX' or word == 'XX' then
      if found.condition then return nil end
      found.condition = word
    elseif word == 'GET' and not found.get then
      found.get = true
    else
      return nil
    end
    at = at + 1
  end
  return found
end

-- The options of ZADD before its first score, and where that is; or nil.
local function commands_zadd_options(command)
  local found, at = {}, 3
  while command[at] do
    local word = string.upper(command[at])
    if not ({ NX = 1, XX = 1, GT = 1, LT = 1, CH = 1 })[word] then break end
    if found[word] then return nil end
    found[word] = true
    at = at + 1
  end
  if (found.NX and (found.XX or found.GT or found.LT)) or (found.GT and found.LT) then return nil end
  return found, at
end

-- The keys of a command; or nil and what is wrong with it.
local function commands_keys(command)
  local name = string.upper(command[1] or '')
  local rule = commands_rule(name)
  if not rule then return nil, 'is not one of the commands allowed' end
  local keys, at = {}, 2
  local function take(kind)
    local text = command[at]
    if not text then return 'has too few arguments' end
    if not commands_is(kind, text) then return 'has no ' .. kind .. ' at argument ' .. (at - 1) end
    if kind == 'key' then table.insert(keys, text) end
    at = at + 1
    return nil
  end
  for _, kind in ipairs(rule.shape) do
    local wrong = nil
    if kind == 'set' then
      if not commands_set_options(command) then return nil, 'has options that do not fit' end
      at = #command + 1
    elseif kind == 'zadd' then
      local _, first = commands_zadd_options(command)
      if not first then return nil, 'has options that do not fit' end
      at = first
    else
      wrong = take(kind)
    end
    if wrong then return nil, name .. ' ' .. wrong end
  end
  while at <= #command and rule.repeats > 0 do
    for nth = #rule.shape - rule.repeats + 1, #rule.shape do
      local wrong = take(rule.shape[nth])
      if wrong then return nil, name .. ' ' .. wrong end
    end
  end
  if at <= #command then return nil, name .. ' has too many arguments' end
  return keys
end

-- What a guard looks at; or nil and what is wrong with it. EQ key [field] value, MIN key [field] integer, EXISTS key [field].
local function commands_guard_keys(guard)
  local words = ({ EQ = 3, MIN = 3, EXISTS = 2 })[guard[1] or '']
  if not words then return nil, 'a guard is none of EQ, MIN and EXISTS' end
  if #guard ~= words and #guard ~= words + 1 then return nil, 'the guard ' .. guard[1] .. ' has a wrong number of arguments' end
  if guard[2] == '' then return nil, 'the guard ' .. guard[1] .. ' has no key' end
  if guard[1] == 'MIN' and not commands_is('integer', guard[#guard]) then return nil, 'the guard MIN has no integer' end
  return { guard[2] }
end

-- Reads lists of words from a flat list of arguments: their number, then each one's number of words and its words.
-- Gives them and where to go on; or nil and what is wrong.
local function commands_read(args, at)
  local function number()
    local text = args[at] or ''
    at = at + 1
    if not string.match(text, '^%d%d?%d?%d?$') then return nil end
    return tonumber(text)
  end
  local lists, words_all, bytes = {}, 0, 0
  local count = number()
  if not count or count > commands_max then return nil, 'there is no number of commands, or it is above ' .. commands_max end
  for _ = 1, count do
    local words = number()
    words_all = words_all + (words or 0)
    if not words or words == 0 or words_all > commands_arguments_max or at + words - 1 > #args then
      return nil, 'the number of arguments of a command is wrong, or all of them are above ' .. commands_arguments_max
    end
    local list = {}
    for _ = 1, words do
      table.insert(list, args[at])
      bytes = bytes + #args[at]
      at = at + 1
    end
    table.insert(lists, list)
  end
  if bytes > commands_bytes_max then return nil, 'the commands are longer than ' .. commands_bytes_max .. ' bytes' end
  return lists, at
end

-- The bytes they are kept as: the number of lists, then each one's number of words, then each word's length and itself.
-- Numbers are four bytes, the highest first.
local function commands_pack(lists)
  local parts = { struct.pack('>I4', #lists) }
  for _, list in ipairs(lists) do
    table.insert(parts, struct.pack('>I4', #list))
    for _, word in ipairs(list) do
      table.insert(parts, struct.pack('>I4', #word))
      table.insert(parts, word)
    end
  end
  return table.concat(parts)
end

-- Their lists again; nil if the bytes are of another making.
local function commands_unpack(bytes)
  local at = 1
  local function number()
    if at + 3 > #bytes then return nil end
    local value
    value, at = struct.unpack('>I4', bytes, at)
    return value
  end
  local lists = {}
  local count = number()
  if not count or count > commands_max then return nil end
  for _ = 1, count do
    local words, list = number(), {}
    if not words or words > commands_arguments_max then return nil end
    for _ = 1, words do
      local length = number()
      if not length or at + length - 1 > #bytes then return nil end
      table.insert(list, string.sub(bytes, at, at + length - 1))
      at = at + length
    end
    table.insert(lists, list)
  end
  return at == #bytes + 1 and lists or nil
end

-- What is wrong with commands and guards, whatever the keys hold; nil if nothing. `declared`: the set of keys of this call that
-- commands may touch.
local function commands_malformed(commands, guards, declared)
  local function check(list, keys_of)
    local keys, wrong = keys_of(list)
    if not keys then return wrong end
    for _, key in ipairs(keys) do
      if not declared[key] then return list[1] .. ' touches a key that is not among the keys of the call' end
    end
    return nil
  end
  for _, guard in ipairs(guards) do
    local wrong = check(guard, commands_guard_keys)
    if wrong then return wrong end
  end
  for _, command in ipairs(commands) do
    local wrong = check(command, commands_keys)
    if wrong then return wrong end
  end
  return nil
end

-- Whether a guard is met; otherwise a word and what there is instead.
local function commands_guarded(guard)
  local kind, key = guard[1], guard[2]
  local field = #guard == (kind == 'EXISTS' and 3 or 4) and guard[3] or nil
  local wants = field and 'hash' or 'string'
  local type = redis.call('TYPE', key)['ok']
  local shown = key .. (field and (' ' .. field) or '')
  if type ~= 'none' and type ~= wants and (field or kind ~= 'EXISTS') then
    return 'wrong-type', key .. ' holds a ' .. type .. ', not a ' .. wants
  end
  local value = nil
  if type ~= 'none' then
    if field then
      value = redis.call('HGET', key, field)
    elseif kind == 'EXISTS' then
      value = type
    else
      value = redis.call('GET', key)
    end
  end
  if not value then return 'guard', shown .. ' does not exist' end
  if kind == 'EQ' and value ~= guard[#guard] then return 'guard', shown .. ' is not what it must be' end
  if kind == 'MIN' then
    local number = commands_integer(value)
    if not number or not commands_fits(number, 8) then return 'not-integer', shown .. ' is no integer' end
    if commands_less(number, commands_integer(guard[#guard])) then
      return 'guard', shown .. ' is ' .. value .. ', less than ' .. guard[#guard]
    end
  end
  return nil
end

-- What a key will be when a command's turn comes: `view` holds what the commands before it leave.
local function commands_seen(view, key)
  if not view[key] then view[key] = { type = redis.call('TYPE', key)['ok'], fields = {}, stored = true } end
  return view[key]
end

-- The sum that an increment leaves; or nil, a word and why it fails.
local function commands_incremented(current, by, factor, shown)
  local number = commands_integer(current or '0')
  if not number or not commands_fits(number, 8) then return nil, 'not-integer', shown .. ' is no integer' end
  local sum = commands_sum(number, commands_integer(by), factor)
  if not commands_fits(sum, 8) then return nil, 'overflow', shown .. ' would leave 64 bits' end
  return commands_digits(sum)
end

-- Follows one command through the view. Gives its answer where that is known exactly, else nil; then a word and why it fails.
local function commands_follow(view, command)
  local name = string.upper(command[1])
  local rule = commands_rule(name)
  local key = command[2]
  if name == 'DEL' then
    for nth = 2, #command do view[command[nth]] = { type = 'none', fields = {}, stored = false } end
    return nil
  end
  local seen = commands_seen(view, key)
  if seen.type == 'open' then
    return nil, 'wrong-type', 'what ' .. key .. ' holds depends on an earlier command: split them'
  end
  if name == 'SET' then
    local options = commands_set_options(command)
    if options.get and seen.type ~= 'none' and seen.type ~= 'string' then
      return nil, 'wrong-type', key .. ' holds a ' .. seen.type .. ', not a string'
    end
    if options.condition and seen.maybe then
      view[key] = { type = 'open', fields = {} }
    elseif not options.condition or (options.condition == 'XX') == (seen.type ~= 'none') then
      -- A time that is over deletes at once.
      view[key] = { type = 'string', text = command[3], fields = {}, stored = false, maybe = options.at }
    end
    return nil
  end
  if rule.type == 'any' then return nil end
  if seen.type ~= 'none' and seen.type ~= rule.type then
    return nil, 'wrong-type', key .. ' holds a ' .. seen.type .. ', not a ' .. rule.type
  end
  if name == 'HDEL' or name == 'SREM' or name == 'ZREM' or name == 'LREM' then
    if name == 'HDEL' then
      for nth = 3, #command do seen.fields[command[nth]] = false end
    end
    seen.maybe = seen.type ~= 'none'
    return nil
  end
  local answer = nil
  if name == 'HSET' then
    for nth = 3, #command, 2 do seen.fields[command[nth]] = command[nth + 1] end
  elseif name == 'HINCRBY' then
    local field = command[3]
    local current = seen.fields[field]
    if current == nil and seen.stored and seen.type == 'hash' then current = redis.call('HGET', key, field) end
    local sum, word, why = commands_incremented(current, command[4], 1, key .. ' ' .. field)
    if not sum then return nil, word, why end
    seen.fields[field], answer = sum, sum
  elseif name == 'INCRBY' or name == 'DECRBY' then
    local current = seen.text
    if current == nil and seen.stored and seen.type == 'string' then current = redis.call('GET', key) end
    local sum, word, why = commands_incremented(current, command[3], name == 'INCRBY' and 1 or -1, key)
    if not sum then return nil, word, why end
    -- A text that a time deleted already counts as 0: no sum is known then.
    seen.text = sum
    answer = not seen.maybe and sum or nil
  end
  seen.maybe = name == 'ZADD' and commands_zadd_options(command).XX and (seen.type == 'none' or seen.maybe)
  seen.type = rule.type
  return answer
end

-- A plan to run commands, which cannot fail then; or nil, a word and why. Nothing is written. They must be well-formed.
local function commands_plan(commands, guards)
  for _, guard in ipairs(guards) do
    local word, why = commands_guarded(guard)
    if word then return nil, word, why end
  end
  local view, plan = {}, {}
  for nth, command in ipairs(commands) do
    if not redis.acl_check_cmd(unpack(command)) then
      return nil, 'not-permitted', 'this user may not call ' .. command[1] .. ' on these keys'
    end
    local answer, word, why = commands_follow(view, command)
    if word then return nil, word, why end
    plan[nth] = { command = command, answer = answer }
  end
  return plan
end

-- Runs a plan. Gives each command's answer as text behind a sign: `+OK`, `:7` (integer), `$bytes`, `_` (nothing).
local function commands_run(plan)
  local answers = {}
  for nth, step in ipairs(plan) do
    local answer = redis.call(unpack(step.command))
    if step.answer then
      answers[nth] = ':' .. step.answer
    elseif type(answer) == 'number' then
      answers[nth] = ':' .. string.format('%.0f', answer)
    elseif type(answer) == 'string' then
      answers[nth] = '$' .. answer
    elseif type(answer) == 'table' and answer.ok then
      answers[nth] = '+' .. answer.ok
    else
      answers[nth] = '_'
    end
  end
  return answers
end
