-- hand over: ask the leader to stop and to release; it learns of it by its next renewal, and is called for that
-- the answer is status, with the request
if token and value == st.holder and kind(st.holder) == 'held' then
  st.hand_over = str(token)
  redis.call('HSET', STATE, 'hand_over', st.hand_over)
  call()
end
return status()
