-- KEYS: where it is kept when this fleet's budgets began. Returns that and the time now, in us.
local since, other = began(KEYS[1])
return other or {string.format('%.0f', since), string.format('%.0f', now)}
