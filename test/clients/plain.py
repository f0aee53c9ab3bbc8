"""plain.py URL - Python's own HTTP client: one connection, many kinds of request."""
import http.client
import json
import sys
import urllib.parse

place = urllib.parse.urlparse(sys.argv[1])
connection = http.client.HTTPConnection(place.hostname, place.port, timeout=5)


def ask(method, path, body=None, headers=None):
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


def call(identifier, method, params=None):
    body = {"jsonrpc": "2.0", "id": identifier, "method": method, "params": params or {}}
    status, _, text = ask("POST", "/", json.dumps(body))
    answer = json.loads(text)
    assert status == 200 and answer["id"] == identifier, answer
    return answer


assert call(1, "health")["result"] == {}
socket = connection.sock
assert call("äö<&>\u2028", "health")["result"] == {}
value = call(2, "abci_query", {"path": "/store/ibc/key", "data": "616263"})
assert value["result"]["response"]["value"] == "ZGVm"
assert call(3, "nope")["error"]["code"] == -32601
assert ask("POST", "/", json.dumps([{"id": i, "method": "health"} for i in range(3)]))[0] == 200
status, headers, body = ask("HEAD", "/status")
assert status == 200 and body == b"" and int(headers["Content-Length"]) > 100
assert ask("GET", "/health")[0] == 200
assert ask("GET", "/nope")[0] == 404
assert ask("PUT", "/", "x")[0] == 405
assert ask("POST", "/", iter([b'{"id":1,', b'"method":"health"}']))[0] == 200  # chunked
assert connection.sock is socket, "the connection was not kept"
print("python: well")
