"""An HTTP proxy that writes down what it was asked for: proxy.py FILE; prints its port."""

import contextlib
import http.server
import select
import socket
import sys
import urllib.request

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
ENDS = {"connection", "transfer-encoding", "proxy-connection", "host"}


class Proxy(http.server.BaseHTTPRequestHandler):
    """Carries GET by itself, and CONNECT as bytes."""

    def note(self):
        with open(sys.argv[1], "a") as file:
            file.write(f"{self.command} {self.path} {self.headers.get('User-Agent', '')}\n")

    def do_GET(self):
        self.note()
        asked = {k: v for k, v in self.headers.items() if k.lower() not in ENDS}
        try:
            answer = DIRECT.open(urllib.request.Request(self.path, headers=asked), timeout=60)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                if name.lower() not in ENDS:
                    self.send_header(name, value)
            self.end_headers()
            while part := answer.read(1 << 16):
                self.wfile.write(part)

    def do_CONNECT(self):
        self.note()
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port)), 60) as far:
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                self.carry(far)
        self.close_connection = True

    def carry(self, far):
        other = {self.connection: far, far: self.connection}
        while True:
            for one in select.select(list(other), [], [])[0]:
                if not (part := one.recv(1 << 16)):
                    return
                other[one].sendall(part)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
print(server.server_port, flush=True)
server.serve_forever()
