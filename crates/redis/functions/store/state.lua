-- What the store is: its id, its epoch, the runs of the server that it has seen.

-- Runs that are remembered, oldest first: who has not looked for longer compares with the oldest of them.
local RUNS = 64

local function note_run(keys, run, mark)
  local runs = {}
  for line in string.gmatch(redis.call('HGET', keys[META], 'runs') or '', '[^\n]+') do runs[#runs + 1] = line end
  if #runs >= RUNS then table.remove(runs, 1) end
  runs[#runs + 1] = run .. ' ' .. mark
  redis.call('HSET', keys[META], 'run', run, 'runs', table.concat(runs, '\n'))
end

-- Arguments: the server's run, an id for a new store, whether one may be made. Answer: none | version, id, epoch, run, mark, runs.
register('amends_store_open_v3', {'allow-oom'}, function(keys, args)
  local run, id, may_make = args[1], args[2], args[3] == '1'
  local meta = redis.call('HMGET', keys[META], 'version', 'run', 'mark')
  if not meta[1] then
    if not may_make then return {'none'} end
    redis.call('HSET', keys[META], 'version', LAYOUT, 'store', id, 'epoch', '1', 'run', run, 'runs', run .. ' 0', 'mark', '0', 'rowid', '0', 'mail', '0',
      'lease', '0')
    -- A small hash or sorted set is a list that each look goes through. A long word makes it a table from the beginning. No claim and no saga has an
    -- empty name, and no epoch is infinite.
    local long = string.rep(' ', 65)
    for _, key in ipairs({META, CLAIMS, HEADS}) do redis.call('HSET', keys[key], '', long) end
    redis.call('ZADD', keys[OWNED], '+inf', long)
  elseif meta[1] == LAYOUT and meta[2] ~= run then
    note_run(keys, run, meta[3])
  end
  local found = redis.call('HMGET', keys[META], 'version', 'store', 'epoch', 'run', 'mark', 'runs')
  -- How many sagas there were when people last accepted a loss; empty: they never did.
  local loss = redis.call('HGET', keys[META], 'loss:' .. found[3])
  found[7] = loss and struct.unpack('>I1c0', loss) or ''
  return found
end)

-- Proves that the store can be written. Arguments: guard. Answer: ok, mark.
register('amends_store_touch_v3', {}, function(keys, args)
  local plan, refusal = new_plan(keys, reader(args))
  if not plan then return refusal end
  hset(plan, META, 'touched', number(plan.mark))
  return answer(plan, {})
end)

-- People say that what was lost is lost. Arguments: the epoch they saw, the server's run, reason, who. Answer: epoch. No lease outlives it, and
-- numbers go on far from those that may have been given already.
register('amends_store_accept_loss_v3', {'allow-oom'}, function(keys, args)
  local seen, run, reason, by = args[1], args[2], args[3], args[4]
  local meta = redis.call('HMGET', keys[META], 'epoch', 'mark', 'rowid', 'mail')
  if not meta[1] then return {'none'} end
  -- A second call, or somebody else's: it is accepted already.
  if meta[1] ~= seen then return {'done', meta[1]} end
  local epoch = number(tonumber(meta[1]) + 1)
  redis.call('HSET', keys[META], 'epoch', epoch, 'run', run, 'runs', run .. ' ' .. meta[2], 'rowid', number(tonumber(meta[3]) + 1000000), 'mail',
    number(tonumber(meta[4]) + 1000000), 'loss:' .. epoch, struct.pack('>I1c0I2c0I4c0', #meta[3], meta[3], #by, by, #reason, reason))
  redis.call('DEL', keys[NODES], keys[GRANTED])
  return {'done', epoch}
end)
