-- check.lua - wrk compares every body with the answer in $WANT.
local want = os.getenv("WANT")
local threads = {}
wrk.method = "POST"
wrk.body = os.getenv("QUERY")
wrk.headers["Content-Type"] = "application/json"

function setup(thread) table.insert(threads, thread) end
function init() wrong = 0; right = 0 end
function response(status, headers, body)
    if status == 200 and body == want then right = right + 1 else wrong = wrong + 1 end
end
function done()
    local bad, good = 0, 0
    for _, thread in ipairs(threads) do
        bad = bad + thread:get("wrong")
        good = good + thread:get("right")
    end
    print(string.format("wrong answers: %d, right answers: %d", bad, good))
end
