"""A NETCONF client (ncclient) that executes one call per line of its input, and prints one line for each.

{"session": "a", "call": "get_config", "arguments": {"source": "running"}}
"""

import json
import sys

from ncclient import manager
from ncclient.operations import RPCError

port, key = int(sys.argv[1]), sys.argv[2]
sessions = {}


def connect():
    return manager.connect(
        host="127.0.0.1",
        port=port,
        username="root",
        key_filename=key,
        hostkey_verify=False,
        allow_agent=False,
        look_for_keys=False,
        timeout=30,
    )


def execute(request):
    name, call = request["session"], request["call"]
    if name not in sessions:
        sessions[name] = connect()
    session = sessions[name]
    if call == "hello":
        return {"id": session.session_id, "capabilities": sorted(session.server_capabilities)}
    # JSON has no tuples, which filters are.
    arguments = request.get("arguments", {})
    arguments = {key: tuple(value) if isinstance(value, list) else value for key, value in arguments.items()}
    reply = getattr(session, call)(**arguments)
    if call == "close_session":
        del sessions[name]
    data = getattr(reply, "data", None)
    if data is None:
        return {"xml": reply.xml}
    return {"xml": data if isinstance(data, str) else reply.data_xml}


for line in sys.stdin:
    try:
        answer = execute(json.loads(line))
    except RPCError as error:
        error = (error.errlist or [error])[0]
        answer = {"tag": error.tag, "path": error.path, "message": error.message, "info": error.info}
    except Exception as error:
        answer = {"failure": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer, default=str), flush=True)
