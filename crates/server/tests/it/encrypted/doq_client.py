"""A DNS over QUIC (RFC 9250) client on aioquic. Arguments: host, port, CA certificate, query in base16.
Prints the response in base16."""

import asyncio
import sys

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamDataReceived


class Client(QuicConnectionProtocol):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.octets = b""
        self.done = asyncio.get_running_loop().create_future()

    def quic_event_received(self, event):
        if isinstance(event, StreamDataReceived):
            self.octets += event.data
            if event.end_stream and not self.done.done():
                self.done.set_result(None)
        if isinstance(event, ConnectionTerminated) and not self.done.done():
            self.done.set_exception(RuntimeError(f"closed: {event.error_code} {event.reason_phrase}"))


async def main(host, port, ca, query):
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["doq"], server_name="localhost")
    configuration.load_verify_locations(ca)
    message = bytes.fromhex(query)
    async with connect(host, int(port), configuration=configuration, create_protocol=Client) as client:
        stream = client._quic.get_next_available_stream_id()
        client._quic.send_stream_data(stream, len(message).to_bytes(2, "big") + message, end_stream=True)
        client.transmit()
        await asyncio.wait_for(client.done, 10)
        length = int.from_bytes(client.octets[:2], "big")
        assert length == len(client.octets) - 2, "one message, and the end of the stream"
        print(client.octets[2:].hex())


asyncio.run(main(*sys.argv[1:]))
