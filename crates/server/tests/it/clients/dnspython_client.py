"""Sends one update: ADDRESS PORT udp|tcp ALGORITHM:KEY:SECRET add|delete OWNER. The exit code is the RCODE."""

import sys

import dns.exception
import dns.query
import dns.tsigkeyring
import dns.update

address, port, transport, key, what, owner = sys.argv[1:]
algorithm, name, secret = key.split(":", 2)
keyring = dns.tsigkeyring.from_text({name: (algorithm, secret)})
update = dns.update.UpdateMessage("example.test.", keyring=keyring)
if what == "add":
    update.add(owner, 60, "A", "192.0.2.1")
else:
    update.delete(owner, "A")
send = {"udp": dns.query.udp, "tcp": dns.query.tcp}[transport]
# dnspython sends once, so the caller retries after a timeout. It checks the MAC of the response, and raises if it is
# wrong.
for attempts_left in range(5, -1, -1):
    try:
        response = send(update, address, port=int(port), timeout=5)
        break
    except dns.exception.Timeout:
        if not attempts_left:
            raise
sys.exit(int(response.rcode()))
