"""A way to a local port that takes its time, for tests and benchmarks of distant hosts."""

import asyncio
import threading
from contextlib import contextmanager, suppress


async def _pump(reader, writer, delay, loop):
    while part := await reader.read(1 << 16):
        loop.call_later(delay, writer.write, part)
    loop.call_later(delay, writer.close)


@contextmanager
def delayed(port, round_trip):
    """A port that leads to `port`, half a round trip away in each direction."""
    loop = asyncio.new_event_loop()

    async def serve(reader, writer):
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        with suppress(OSError):
            await asyncio.gather(
                _pump(reader, far_writer, round_trip / 2, loop),
                _pump(far_reader, writer, round_trip / 2, loop),
            )

    server = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
